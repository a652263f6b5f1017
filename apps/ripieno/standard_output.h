// Checked standard output: a failed write is an error of the command, as for a file.
#pragma once

#include <exception>
#include <streambuf>
#include <string>

namespace ripieno::program {

/// While it lives, std::cout writes to descriptor 1 through it: at std::flush, once much is pending, and on a terminal
/// at once. One at a time.
class StandardOutput : private std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  /// Writes pending output. Throws Error(io) if that, or anything before, could not be written.
  void finish();

 private:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

  const bool at_terminal_;
  std::string pending_;
  std::exception_ptr error_;
  std::streambuf* before_;
};

/// Opens those of the descriptors 0 to 2 that the caller has closed, so that no file of ours gets their numbers.
/// Writing to 1 then fails.
void open_standard_descriptors();

}  // namespace ripieno::program
