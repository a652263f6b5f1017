#include "ripieno/train/torch_error.h"

#include <cstdio>
#include <cstdlib>

namespace ripieno {

std::string first_line(const std::exception& error) {
  const std::string all = error.what();
  if (std::getenv(verbose_variable)) std::fprintf(stderr, "%s\n", all.c_str());
  const std::size_t begin = all.find_first_not_of(" \n");
  return begin == all.npos ? "" : all.substr(begin, all.find('\n', begin) - begin);
}

Error torch_error(const std::exception& error, const std::string& what) {
  return Error(ErrorKind::usage, text(what, ": ", first_line(error), std::getenv(verbose_variable) ? "" : " (--verbose shows all that LibTorch says)"));
}

}  // namespace ripieno
