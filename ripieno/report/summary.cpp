#include "ripieno/report/summary.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>

#include "ripieno/core/file.h"
#include "ripieno/report/json_field.h"

namespace ripieno::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t schema = 2;

struct Count {
  const char* name;
  std::uint64_t ByteCounts::*bytes;
};
constexpr Count counts[] = {{"payload_sent", &ByteCounts::payload_sent},
                            {"payload_received", &ByteCounts::payload_received},
                            {"framing_sent", &ByteCounts::framing_sent},
                            {"framing_received", &ByteCounts::framing_received}};

Json write(const std::optional<TestResult>& test) {
  if (!test) return nullptr;
  Json all = {{"accuracy", test->accuracy}};
  if (test->loss) all["loss"] = *test->loss;
  return all;
}

/// 5, not 5.0.
Json whole_where_it_is(double value) {
  if (value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

Json write(const RunSeconds& seconds) {
  Json split = Json::object();
  for (const observe::StageInfo& one : observe::stages) {
    if (observe::is_shown(one, seconds.stages[one.stage])) split[one.name] = seconds.stages[one.stage];
  }
  return {{"total", seconds.total}, {"epoch", seconds.epoch}, {"stages", split}};
}

Json write(const ByteCounts& bytes) {
  Json all = Json::object();
  for (const Count& one : counts) all[one.name] = bytes.*one.bytes;
  return all;
}

Json write(const NotFinite& found) {
  return {
      {"rank", found.rank}, {"what", found.what}, {"value", found.value}, {"step", found.step}, {"epoch", found.epoch}};
}

NotFinite read_not_finite(const JsonField& field) {
  return {field.at("rank").small_count(), field.at("what").string(), field.at("value").string(),
          field.at("step").count(), static_cast<std::uint32_t>(field.at("epoch").small_count())};
}

std::string hexadecimal(std::uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

Json write_payload(std::uint64_t sent, bool is_known) {
  return {{"payload_sent", is_known ? Json(sent) : Json(nullptr)}};
}

Json write(const RankSummary& rank, bool counts_bytes) {
  Json all = {{"rank", rank.rank},
              {"test", write(rank.test)},
              {"seconds", write(rank.seconds)},
              {"images_per_second", rank.images_per_second},
              {"bytes", counts_bytes ? write(rank.bytes) : Json(nullptr)},
              {"exchange", write_payload(rank.exchange_payload_sent, counts_bytes)},
              {"own_accuracy", rank.own_accuracy ? Json(*rank.own_accuracy) : Json(nullptr)},
              {"bytes_read", rank.bytes_read},
              {"parameters_hash", hexadecimal(rank.parameters_hash)}};
  if (rank.dropped_payload_sent) all["dropped"] = {{"payload_sent", *rank.dropped_payload_sent}};
  if (rank.evaluation_payload_sent) all["evaluation"] = {{"payload_sent", *rank.evaluation_payload_sent}};
  if (!rank.ways.empty()) all["ways"] = rank.ways;
  if (!rank.host.empty()) all["host"] = rank.host;
  if (const auto& used = rank.process) {
    all["process"] = {{"cpu_user_s", used->cpu_user_s},
                      {"cpu_system_s", used->cpu_system_s},
                      {"proportional_bytes", used->proportional_bytes},
                      {"peak_resident_bytes", used->peak_resident_bytes}};
  }
  if (rank.machine_busy) all["machine_busy"] = *rank.machine_busy;
  if (rank.staleness) {
    all["staleness"] = Json::object();
    for (const auto& [age, count] : *rank.staleness) all["staleness"][std::to_string(age)] = count;
  }
  return all;
}

std::optional<TestResult> read_test(const JsonField& field) {
  if (field.is_null()) return std::nullopt;
  const double accuracy = field.at("accuracy").number();
  if (!(accuracy >= 0 && accuracy <= 1)) field.at("accuracy").refuse("from 0 to 1");
  if (!field.has("loss")) return TestResult{accuracy, std::nullopt};
  const JsonField loss = field.at("loss");
  return TestResult{accuracy, loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.number()};
}

RunSeconds read_seconds(const JsonField& field) {
  RunSeconds seconds;
  seconds.total = field.at("total").number();
  for (const JsonField& one : field.at("epoch").items()) seconds.epoch.push_back(one.number());
  const JsonField stages = field.at("stages");
  for (const observe::StageInfo& one : observe::stages) {
    if (observe::is_shown(one, 0) || stages.has(one.name)) seconds.stages[one.stage] = stages.at(one.name).number();
  }
  return seconds;
}

ByteCounts read_bytes(const JsonField& field) {
  ByteCounts bytes;
  if (field.is_null()) return bytes;
  for (const Count& one : counts) bytes.*one.bytes = field.at(one.name).count();
  return bytes;
}

std::uint64_t read_hash(const JsonField& field) {
  const std::string digits = field.string();
  std::uint64_t hash = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  if (error != std::errc() || digits.size() != 16 || end != digits.data() + 16) field.refuse("16 hexadecimal digits");
  return hash;
}

std::uint64_t read_payload(const JsonField& field) {
  const JsonField sent = field.at("payload_sent");
  return sent.is_null() ? 0 : sent.count();
}

RankSummary read_rank(const JsonField& field) {
  RankSummary rank;
  rank.rank = field.at("rank").small_count();
  rank.test = read_test(field.at("test"));
  rank.seconds = read_seconds(field.at("seconds"));
  rank.images_per_second = field.at("images_per_second").number();
  rank.bytes = read_bytes(field.at("bytes"));
  rank.exchange_payload_sent = read_payload(field.at("exchange"));
  if (field.has("dropped")) rank.dropped_payload_sent = field.at("dropped").at("payload_sent").count();
  if (field.has("evaluation")) rank.evaluation_payload_sent = field.at("evaluation").at("payload_sent").count();
  if (!field.at("own_accuracy").is_null()) rank.own_accuracy = field.at("own_accuracy").number();
  rank.bytes_read = field.at("bytes_read").count();
  rank.parameters_hash = read_hash(field.at("parameters_hash"));
  if (field.has("ways")) {
    for (const JsonField& way : field.at("ways").items()) rank.ways.push_back(way.string());
  }
  if (field.has("host")) rank.host = field.at("host").string();
  if (field.has("process")) {
    const JsonField used = field.at("process");
    rank.process = ProcessUse{used.at("cpu_user_s").number(), used.at("cpu_system_s").number(),
                              used.at("proportional_bytes").count(), used.at("peak_resident_bytes").count()};
  }
  if (field.has("machine_busy")) rank.machine_busy = field.at("machine_busy").number();
  if (!field.has("staleness")) return rank;
  rank.staleness.emplace();
  for (const auto& [age, count] : field.at("staleness").members()) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(age.data(), age.data() + age.size(), number);
    if (error != std::errc() || end != age.data() + age.size()) {
      field.at("staleness").refuse("an object whose keys are ages in steps");
    }
    (*rank.staleness)[number] = count.count();
  }
  return rank;
}

}  // namespace

bool Summary::is_crowded() const {
  return std::any_of(ranks.begin(), ranks.end(),
                     [](const RankSummary& rank) { return rank.machine_busy.value_or(0) > 0.8; });
}

std::uint64_t Summary::sent_by_the_busiest() const {
  std::uint64_t most = 0;
  for (const RankSummary& rank : ranks) most = std::max(most, rank.exchange_payload_sent);
  return most;
}

std::string Summary::hosts() const {
  std::vector<std::pair<std::string, int>> counted;
  for (const RankSummary& rank : ranks) {
    if (rank.host.empty()) continue;
    const auto known =
        std::find_if(counted.begin(), counted.end(), [&](const auto& one) { return one.first == rank.host; });
    if (known == counted.end()) {
      counted.emplace_back(rank.host, 1);
    } else {
      ++known->second;
    }
  }
  std::string all;
  for (const auto& [host, ranks_there] : counted) all += text(all.empty() ? "" : ", ", ranks_there, " on ", host);
  return all;
}

std::string Summary::losses() const {
  if (unfinished || ranks.empty() || ranks.size() >= static_cast<std::size_t>(world_size)) return "";
  std::string lost;
  std::size_t count = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    if (std::any_of(ranks.begin(), ranks.end(), [rank](const RankSummary& one) { return one.rank == rank; })) continue;
    lost += text(count == 0 ? "" : ", ", rank);
    ++count;
  }
  return text("it lost rank", count == 1 ? " " : "s ", lost, " of ", world_size, " on the way");
}

std::string described(const NotFinite& found) {
  return text("the ", found.what, " of rank ", found.rank, " was ", found.value,
              found.what == "test loss" ? " after step " : " at step ", found.step, ", in epoch ", found.epoch + 1);
}

std::string mark_of(const std::vector<const Summary*>& seeds) {
  if (seeds.at(0)->unfinished) return " …";
  const std::string& kind = seeds.at(0)->kind;
  if (kind == "simulated") return " ~";
  if (kind == "projected") return " ~=";
  if (kind != "replayed") return "";
  return std::any_of(seeds.begin(), seeds.end(), [](const Summary* one) { return one->is_crowded(); }) ? " =!" : " =";
}

std::optional<double> Summary::epoch_seconds() const {
  const double timed = std::min(static_cast<double>(seconds.epoch.size()), epochs);
  if (!(timed > 0)) return std::nullopt;
  return std::accumulate(seconds.epoch.begin(), seconds.epoch.end(), 0.0) / timed;
}

std::string cell_of(const Summary& s) {
  return text(s.name, '\n', s.strategy, '\n', s.model, '\n', s.dataset, '\n', s.world_size, '\n', s.codec, '\n', s.kind,
              s.unfinished ? " unfinished" : "");
}

std::string to_json(const Summary& summary) {
  Json ranks = Json::array();
  for (const RankSummary& one : summary.ranks) ranks.push_back(write(one, summary.counts_bytes));
  Json closed_form = nullptr;
  if (summary.closed_form_payload_sent) closed_form = *summary.closed_form_payload_sent;
  Json all = {{"schema", schema},
              {"name", summary.name},
              {"kind", summary.kind},
              {"strategy", summary.strategy},
              {"route", summary.route},
              {"codec", summary.codec},
              {"model", summary.model},
              {"dataset", summary.dataset},
              {"world_size", summary.world_size},
              {"parameters", summary.parameters},
              {"epochs", whole_where_it_is(summary.epochs)},
              {"steps", summary.steps},
              {"seed", summary.seed},
              {"test", write(summary.test)},
              {"seconds", write(summary.seconds)},
              {"images_per_second", summary.images_per_second},
              {"bytes", summary.counts_bytes ? write(summary.bytes) : Json(nullptr)},
              {"exchange", write_payload(summary.exchange_payload_sent, summary.counts_bytes)},
              {"closed_form", {{"payload_sent", closed_form}}},
              {"ranks", ranks}};
  if (!summary.launcher.empty()) all["launcher"] = summary.launcher;
  if (summary.steps_left_out > 0) all["steps_left_out"] = summary.steps_left_out;
  if (summary.evaluation_payload_sent) all["evaluation"] = {{"payload_sent", *summary.evaluation_payload_sent}};
  if (const auto& saved = summary.checkpoints)
    all["checkpoints"] = {{"count", saved->count}, {"seconds", saved->seconds}};
  if (summary.not_finite) all["not_finite"] = write(*summary.not_finite);
  // A name that is not UTF-8 must not lose a run's results.
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Summary from_json(std::string_view json, const std::filesystem::path& file) {
  nlohmann::json parsed;
  try {
    parsed = nlohmann::json::parse(json);
  } catch (const nlohmann::json::exception& error) {
    const std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    const std::size_t prefix = what.find("] ");
    fail(ErrorKind::data, file.string(), ": not JSON: ", what.substr(prefix == what.npos ? 0 : prefix + 2));
  }
  const JsonField top(parsed, file);
  if (const auto given = top.at("schema").count(); given != schema) {
    fail(ErrorKind::data, file.string(), ": field schema is ", given, ", but this version of Ripieno reads ", schema,
         ": read it with the version that wrote it");
  }
  Summary summary;
  summary.name = top.at("name").string();
  summary.kind = top.at("kind").string();
  if (summary.kind != "computed" && summary.kind != "replayed" && summary.kind != "simulated" &&
      summary.kind != "projected") {
    top.at("kind").refuse("computed, replayed, simulated or projected");
  }
  summary.strategy = top.at("strategy").string();
  if (top.has("route")) summary.route = top.at("route").string();
  if (top.has("launcher")) summary.launcher = top.at("launcher").string();
  summary.codec = top.at("codec").string();
  summary.model = top.at("model").string();
  summary.dataset = top.at("dataset").string();
  summary.world_size = top.at("world_size").small_count();
  if (summary.world_size == 0) top.at("world_size").refuse("1 or more");
  summary.parameters = top.at("parameters").count();
  summary.epochs = top.at("epochs").number();
  if (!(summary.epochs >= 0 && summary.epochs < 2147483648.0)) top.at("epochs").refuse("a number from 0 to below 2^31");
  summary.steps = top.at("steps").count();
  summary.seed = top.at("seed").whole();
  summary.test = read_test(top.at("test"));
  summary.seconds = read_seconds(top.at("seconds"));
  summary.images_per_second = top.at("images_per_second").number();
  if (top.has("steps_left_out")) summary.steps_left_out = top.at("steps_left_out").count();
  summary.bytes = read_bytes(top.at("bytes"));
  summary.counts_bytes = !top.at("bytes").is_null();
  summary.exchange_payload_sent = read_payload(top.at("exchange"));
  if (top.has("evaluation")) summary.evaluation_payload_sent = top.at("evaluation").at("payload_sent").count();
  const JsonField closed_form = top.at("closed_form").at("payload_sent");
  if (!closed_form.is_null()) summary.closed_form_payload_sent = closed_form.count();
  for (const JsonField& one : top.at("ranks").items()) summary.ranks.push_back(read_rank(one));
  if (top.has("checkpoints")) {
    const JsonField saved = top.at("checkpoints");
    summary.checkpoints = Checkpoints{saved.at("count").count(), saved.at("seconds").number()};
  }
  if (top.has("not_finite")) summary.not_finite = read_not_finite(top.at("not_finite"));
  return summary;
}

Summary read_summary(const std::filesystem::path& file) { return from_json(read_file(file), file); }

}  // namespace ripieno::report
