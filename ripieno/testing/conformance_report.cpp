#include <algorithm>
#include <iomanip>
#include <sstream>

#include "ripieno/testing/conformance.h"

namespace ripieno::testing {

bool conforms(std::span<const Finding> findings) {
  return std::all_of(findings.begin(), findings.end(), [](const Finding& finding) { return finding.passed; });
}

std::string report(std::span<const Finding> findings) {
  std::ostringstream out;
  for (const Finding& finding : findings) {
    out << std::left << std::setw(8)
        << (!finding.applies ? "-"
            : finding.passed ? "ok"
                             : "FAILED")
        << std::setw(10) << finding.check << finding.what << "\n"
        << std::string(18, ' ') << finding.detail << "\n";
  }
  return out.str();
}

}  // namespace ripieno::testing
