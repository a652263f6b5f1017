#include "apps/ripieno/kept_numbers.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>

#include "apps/ripieno/program_runs.h"
#include "ripieno/core/file.h"
#include "ripieno/core/hash.h"

namespace ripieno::program {

KeptNumbers::KeptNumbers(const Settings& settings, const std::string& of) {
  const auto cache = settings->data.cache;
  of_ = text(nlohmann::json::parse(environment_json()).value("processor", ""), ", ", of);
  if (cache.empty()) return;
  file_ =
      std::filesystem::path(cache) / "profiles" / text(std::hex, std::setw(16), std::setfill('0'), hash(of_), ".json");
}

std::optional<std::vector<double>> KeptNumbers::read() const {
  if (file_.empty() || !std::filesystem::exists(file_)) return {};
  const nlohmann::json json = nlohmann::json::parse(read_file(file_), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("of") || json["of"] != of_ || !json.contains("numbers")) return {};
  const nlohmann::json& numbers = json["numbers"];
  const auto is_number = [](const nlohmann::json& one) { return one.is_number(); };
  if (!numbers.is_array() || !std::all_of(numbers.begin(), numbers.end(), is_number)) return {};
  return numbers.get<std::vector<double>>();
}

void KeptNumbers::write(const std::vector<double>& numbers) const {
  if (file_.empty()) return;
  create_folders(file_.parent_path());
  write_file(file_, nlohmann::json{{"of", of_}, {"numbers", numbers}}.dump(1) + "\n");
}

}  // namespace ripieno::program
