// Numbers measured once on this machine and kept in data.cache: one file in profiles/ for each subject and processor,
// with when they were measured, and how well.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/ripieno/settings.h"

namespace ripieno::program {

/// When something was measured on this machine, and what disturbed it.
struct Circumstances {
  std::int64_t unix_s = 0;  ///< seconds since 1970; 0: not measured here
  double others = 0;        ///< the part of the machine's CPU time that others took meanwhile
  double variation = 0;     ///< of repeated measurements: between their quartiles, over their median

  /// Of this moment.
  static Circumstances now(double others, double variation);
  /// Why the measurement is not believed, in words: "others took 57 % of this machine's CPU time meanwhile". Empty: it
  /// is.
  std::string doubt() const;
  /// "just now", "3 hours ago", "" if not measured here.
  std::string age() const;
};

struct Kept {
  std::vector<double> numbers;
  Circumstances when;
};

class KeptNumbers {
 public:
  /// `of`: in words, everything besides the processor that the numbers depend on. Without data.cache nothing is kept.
  KeptNumbers(const Settings& settings, const std::string& of);

  /// nullopt if nothing was kept, the file cannot be parsed, or it does not say how the numbers were measured.
  std::optional<Kept> read() const;
  void write(const Kept& kept) const;

 private:
  std::string of_;
  std::filesystem::path file_;  // empty: keep nothing
};

}  // namespace ripieno::program
