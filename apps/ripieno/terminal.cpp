#include "apps/ripieno/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "ripieno/core/error.h"

namespace ripieno::program {

std::string bar(double fraction, int cells) {
  const char* part[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  const int eighths = static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * cells * 8));
  std::string out;
  for (int cell = 0; cell < cells; ++cell) out += part[std::clamp(eighths - cell * 8, 0, 8)];
  return out;
}

std::string clock_time(double s) {
  const auto whole = static_cast<long>(std::lround(std::max(0.0, s)));
  const std::string tail = text(whole % 60 < 10 ? "0" : "", whole % 60);
  if (whole < 3600) return text(whole / 60, ":", tail);
  return text(whole / 3600, ":", whole / 60 % 60 < 10 ? "0" : "", whole / 60 % 60, ":", tail);
}

int terminal_width(int descriptor) {
  winsize size = {};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace ripieno::program
