#include "ripieno/report/metrics.h"

#include "ripieno/core/file.h"
#include "ripieno/observe/recorder.h"
#include "ripieno/report/json_field.h"

namespace ripieno::report {
namespace {

double number_of(const JsonField& object, const std::string& key) {
  return object.has(key) ? object.at(key).number() : 0;
}

/// JSON has no NaN: null stands for a loss that is not finite.
double loss(const JsonField& field) {
  return field.is_null() ? std::numeric_limits<double>::quiet_NaN() : field.number();
}

StageSeconds stage_seconds(const JsonField& seconds) {
  StageSeconds found;
  for (const observe::StageInfo& one : observe::stages) found[one.stage] = number_of(seconds, one.name);
  return found;
}

std::optional<ByteCounts> bytes(const JsonField& counts) {
  if (counts.is_null()) return std::nullopt;
  return ByteCounts{counts.at("payload_sent").count(), counts.at("payload_received").count(),
                    counts.at("framing_sent").count(), counts.at("framing_received").count()};
}

StartLine start(const JsonField& line, std::size_t number) {
  if (line.at("schema").count() > observe::metrics_schema) {
    line.at("schema").refuse(text(observe::metrics_schema, ": the run was made by a later version of Ripieno"));
  }
  return {number,
          line.at("rank").small_count(),
          line.at("ranks").small_count(),
          line.at("host").string(),
          line.has("network") ? line.at("network").string() : "",
          static_cast<std::uint32_t>(line.at("first_epoch").small_count()),
          static_cast<std::uint32_t>(line.at("epochs").small_count()),
          line.at("steps_per_epoch").count(),
          line.has("earlier_lines") ? line.at("earlier_lines").count() : 0,
          number_of(line, "unix_time")};
}

StepLine step(const JsonField& line, std::size_t number) {
  StepLine step;
  step.line = number;
  step.time = line.at("time").number();
  step.epoch = static_cast<std::uint32_t>(line.at("epoch").small_count());
  step.step = line.at("step").count();
  if (line.has("loss")) step.loss = loss(line.at("loss"));
  step.samples = static_cast<std::uint32_t>(line.at("samples").small_count());
  step.seconds = stage_seconds(line.at("seconds"));
  step.bytes = bytes(line.at("bytes"));
  if (line.has("age")) step.age = line.at("age").whole();
  return step;
}

EpochLine epoch(const JsonField& line, std::size_t number) {
  EpochLine epoch;
  epoch.line = number;
  epoch.time = line.at("time").number();
  epoch.epoch = static_cast<std::uint32_t>(line.at("epoch").small_count());
  epoch.seconds = line.at("seconds").number();
  if (line.has("test")) {
    const JsonField test = line.at("test");
    epoch.test = TestResult{test.at("accuracy").number(), std::nullopt};
    if (test.has("loss")) epoch.test->loss = loss(test.at("loss"));
  }
  epoch.bytes = bytes(line.at("bytes"));
  if (line.has("stages")) epoch.stages = stage_seconds(line.at("stages"));
  if (line.has("own_accuracy")) epoch.own_accuracy = line.at("own_accuracy").number();
  return epoch;
}

SampleLine sample(const JsonField& line, std::size_t number) {
  const JsonField process = line.at("process"), machine = line.at("machine"), network = line.at("network"),
                  loopback = line.at("loopback");
  SampleLine sample;
  sample.line = number;
  sample.time = line.at("time").number();
  sample.seconds = line.at("seconds").number();
  sample.cpu_user = process.at("cpu_user").number();
  sample.cpu_system = process.at("cpu_system").number();
  sample.resident = process.at("resident").number();
  sample.switches_waiting = process.at("switches_waiting").number();
  sample.switches_forced = process.at("switches_forced").number();
  sample.machine_user = machine.at("cpu_user").number();
  sample.machine_system = machine.at("cpu_system").number();
  sample.machine_idle = machine.at("cpu_idle").number();
  sample.machine_stolen = machine.at("cpu_stolen").number();
  sample.bytes_sent = network.at("bytes_sent").number();
  sample.bytes_received = network.at("bytes_received").number();
  sample.packets_sent = network.at("packets_sent").number();
  sample.packets_received = network.at("packets_received").number();
  sample.loopback_bytes = loopback.at("bytes_sent").number();
  sample.loopback_packets = loopback.at("packets_sent").number();
  sample.retransmits = line.at("retransmits").number();
  if (line.has("waits_for")) {
    for (const JsonField& rank : line.at("waits_for").items()) sample.waits_for.push_back(rank.small_count());
  }
  return sample;
}

}  // namespace

const Metrics& MetricsReader::read() {
  RandomAccessFile file(metrics_.file);
  std::string content(file.size() > done_ ? file.size() - done_ : 0, '\0');
  file.read(done_, std::as_writable_bytes(std::span(content)));
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = content.find('\n', begin);
    if (end == std::string::npos) break;  // not whole
    const std::filesystem::path where = text(metrics_.file.string(), " line ", ++lines_);
    const auto json =
        nlohmann::json::parse(content.begin() + static_cast<std::ptrdiff_t>(begin),
                              content.begin() + static_cast<std::ptrdiff_t>(end), nullptr, /*allow_exceptions=*/false);
    done_ += end + 1 - begin;
    begin = end + 1;
    if (json.is_discarded()) fail(ErrorKind::data, where.string(), ": not JSON");
    const JsonField line(json, where);
    const std::string type = line.at("type").string();
    if (type == "start") metrics_.start = start(line, lines_);
    if (type == "step") metrics_.steps.push_back(step(line, lines_));
    if (type == "epoch") metrics_.epochs.push_back(epoch(line, lines_));
    if (type == "sample") metrics_.samples.push_back(sample(line, lines_));
  }
  return metrics_;
}

Metrics read_metrics(const std::filesystem::path& file) { return MetricsReader(file).read(); }

}  // namespace ripieno::report
