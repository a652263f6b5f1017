#include "apps/ripieno/kept_numbers.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <nlohmann/json.hpp>

#include "apps/ripieno/program_runs.h"
#include "ripieno/core/file.h"
#include "ripieno/core/hash.h"
#include "ripieno/report/format.h"

namespace ripieno::program {
namespace {

constexpr double most_of_others = 0.2, most_variation = 0.5;

std::int64_t unix_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::string percent(double part) { return report::format_fixed(100 * part, 0) + " %"; }

}  // namespace

Circumstances Circumstances::now(double others, double variation) { return {unix_now(), others, variation}; }

std::string Circumstances::doubt() const {
  std::string why;
  if (others > most_of_others) why = text("others took ", percent(others), " of this machine's CPU time meanwhile");
  if (variation > most_variation)
    why += text(why.empty() ? "" : ", and ", "repeated measurements differ by ", percent(variation));
  return why;
}

std::string Circumstances::age() const {
  if (unix_s == 0) return "";
  const std::int64_t seconds = std::max<std::int64_t>(0, unix_now() - unix_s);
  for (const auto& [unit, name] : {std::pair(86400, "day"), {3600, "hour"}, {60, "minute"}}) {
    const std::int64_t count = seconds / unit;
    if (count > 0) return text(count, " ", name, count == 1 ? "" : "s", " ago");
  }
  return "just now";
}

KeptNumbers::KeptNumbers(const Settings& settings, const std::string& of) {
  const auto cache = settings->data.cache;
  of_ = text(nlohmann::json::parse(environment_json()).value("processor", ""), ", ", of);
  if (cache.empty()) return;
  file_ =
      std::filesystem::path(cache) / "profiles" / text(std::hex, std::setw(16), std::setfill('0'), hash(of_), ".json");
}

std::optional<Kept> KeptNumbers::read() const {
  if (file_.empty() || !std::filesystem::exists(file_)) return {};
  const nlohmann::json json = nlohmann::json::parse(read_file(file_), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("of") || json["of"] != of_) return {};
  for (const char* key : {"unix_s", "others", "variation"}) {
    if (!json.contains(key) || !json[key].is_number()) return {};
  }
  if (!json.contains("numbers")) return {};
  const nlohmann::json& numbers = json["numbers"];
  const auto is_number = [](const nlohmann::json& one) { return one.is_number(); };
  if (!numbers.is_array() || !std::all_of(numbers.begin(), numbers.end(), is_number)) return {};
  return Kept{numbers.get<std::vector<double>>(),
              {json["unix_s"].get<std::int64_t>(), json["others"].get<double>(), json["variation"].get<double>()}};
}

void KeptNumbers::write(const Kept& kept) const {
  if (file_.empty()) return;
  create_folders(file_.parent_path());
  const nlohmann::json json{{"of", of_},
                            {"numbers", kept.numbers},
                            {"unix_s", kept.when.unix_s},
                            {"others", kept.when.others},
                            {"variation", kept.when.variation}};
  write_file(file_, json.dump(1) + "\n");
}

}  // namespace ripieno::program
