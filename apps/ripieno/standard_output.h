// Standard output, checked: what could not be written there is an error of the command, as in a file.
#pragma once

#include <exception>
#include <streambuf>
#include <string>

namespace ripieno::program {

/// As long as it lives, std::cout writes to descriptor 1 through it: at std::flush, once much is pending, and at a
/// terminal at once. One at a time.
class StandardOutput : private std::streambuf {
 public:
  StandardOutput();
  ~StandardOutput() override;
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

  /// Writes what is pending. Throws Error(io) where that, or anything before, could not be written.
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

/// Opens descriptors 0 to 2 where the caller has closed them, so that no file of ours gets their numbers. Writing to 1
/// fails then.
void open_standard_descriptors();

}  // namespace ripieno::program
