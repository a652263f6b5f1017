// What was measured on this machine once, in data.cache: a file of numbers in profiles/, by what they are of and the
// processor.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/ripieno/settings.h"

namespace ripieno::program {

class KeptNumbers {
 public:
  /// `of`: in words, all that they depend on beside the processor. Without data.cache nothing is kept.
  KeptNumbers(const Settings& settings, const std::string& of);

  /// Nothing where they were not kept, or the file cannot be understood.
  std::optional<std::vector<double>> read() const;
  void write(const std::vector<double>& numbers) const;

 private:
  std::string of_;
  std::filesystem::path file_;  // empty: nothing is kept
};

}  // namespace ripieno::program
