// Numbers measured once on this machine and kept in data.cache: one file in profiles/ for each subject and processor.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/ripieno/settings.h"

namespace ripieno::program {

class KeptNumbers {
 public:
  /// `of`: in words, everything besides the processor that the numbers depend on. Without data.cache nothing is kept.
  KeptNumbers(const Settings& settings, const std::string& of);

  /// nullopt if nothing was kept, or the file cannot be parsed.
  std::optional<std::vector<double>> read() const;
  void write(const std::vector<double>& numbers) const;

 private:
  std::string of_;
  std::filesystem::path file_;  // empty: keep nothing
};

}  // namespace ripieno::program
