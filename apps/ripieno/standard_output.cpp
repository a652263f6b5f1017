#include "apps/ripieno/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <iostream>

#include "ripieno/core/file.h"

namespace ripieno::program {
namespace {

constexpr std::size_t most_pending = 1 << 16;  // bytes

}  // namespace

StandardOutput::StandardOutput() : at_terminal_(::isatty(STDOUT_FILENO) != 0), before_(std::cout.rdbuf(this)) {}

StandardOutput::~StandardOutput() {
  sync();
  std::cout.rdbuf(before_);
}

void StandardOutput::finish() {
  sync();
  if (error_) std::rethrow_exception(error_);
}

StandardOutput::int_type StandardOutput::overflow(int_type c) {
  const char one = traits_type::to_char_type(c);
  if (!traits_type::eq_int_type(c, traits_type::eof())) xsputn(&one, 1);
  return error_ ? traits_type::eof() : traits_type::not_eof(c);
}

std::streamsize StandardOutput::xsputn(const char* text, std::streamsize count) {
  pending_.append(text, static_cast<std::size_t>(count));
  if (at_terminal_ || pending_.size() >= most_pending) sync();
  return error_ ? 0 : count;
}

int StandardOutput::sync() {
  try {
    if (!error_) write_all(STDOUT_FILENO, pending_, "standard output");
  } catch (...) {
    error_ = std::current_exception();
  }
  pending_.clear();
  return error_ ? -1 : 0;
}

void open_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // open() returns the lowest free number. Errors may then go nowhere; output must not.
    [[maybe_unused]] const int opened = ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace ripieno::program
