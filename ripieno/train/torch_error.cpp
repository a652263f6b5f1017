#include "ripieno/train/torch_error.h"

#include <atomic>
#include <cstdio>

namespace ripieno::train {
namespace {

std::atomic<bool> in_full = false;

}  // namespace

void print_errors_in_full() { in_full = true; }

std::string first_line(const std::exception& error) {
  const std::string all = error.what();
  if (in_full) std::fprintf(stderr, "%s\n", all.c_str());
  const std::size_t begin = all.find_first_not_of(" \n");
  return begin == all.npos ? "" : all.substr(begin, all.find('\n', begin) - begin);
}

Error torch_error(const std::exception& error, const std::string& what) {
  return Error(ErrorKind::usage,
               text(what, ": ", first_line(error), in_full ? "" : " (--verbose shows all that LibTorch says)"));
}

}  // namespace ripieno::train
