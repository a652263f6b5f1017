#include "ripieno/observe/recorder.h"

#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>

namespace ripieno {
namespace {

nlohmann::ordered_json stage_seconds(const StageTimes& times) {
  nlohmann::ordered_json json;
  for (const Stage stage : stages) {
    const Duration time = times[static_cast<std::size_t>(stage)];
    if (time.count() != 0) json[name(stage)] = seconds(time);
  }
  return json;
}

nlohmann::ordered_json bytes_json(const Traffic& traffic) {
  return {{"payload_sent", traffic.payload_sent},
          {"payload_received", traffic.payload_received},
          {"framing_sent", traffic.framing_sent},
          {"framing_received", traffic.framing_received}};
}

}  // namespace

const char* name(Stage stage) {
  switch (stage) {
    case Stage::read: return "read";
    case Stage::forward: return "forward";
    case Stage::backward: return "backward";
    case Stage::exchange: return "exchange";
    case Stage::optimise: return "optimise";
    case Stage::evaluate: return "evaluate";
    case Stage::hidden: return "exchange_hidden";
  }
  return "unknown";
}

Recorder::Recorder(const Runtime& runtime, const Ledger* ledger, std::unique_ptr<LineFile> metrics)
    : runtime_(runtime), ledger_(ledger), metrics_(std::move(metrics)), epoch_start_(runtime.now()) {}

void Recorder::start(const StartRecord& record) {
  if (!metrics_) return;
  nlohmann::ordered_json line{{"type", "start"}, {"schema", metrics_schema}, {"time", seconds(runtime_.now())},
                                    {"rank", record.rank}, {"ranks", record.ranks}, {"host", record.host}, {"network", record.network},
                                    {"first_epoch", record.first_epoch}, {"epochs", record.epochs}, {"steps_per_epoch", record.steps_per_epoch}};
  if (record.unix_time) line["unix_time"] = *record.unix_time - seconds(runtime_.now());  // at time 0
  metrics_->append(line.dump());
  metrics_->flush();
}

void Recorder::add(Stage stage, Duration time) {
  pending_[static_cast<std::size_t>(stage)] += time;
  totals_[static_cast<std::size_t>(stage)] += time;
}

void Recorder::step(const StepRecord& record) {
  throw_later();
  ++steps_;
  samples_ += record.samples;
  if (record.age) ++ages_[*record.age];
  if (metrics_) {
    nlohmann::ordered_json line{{"type", "step"},
                                {"time", seconds(runtime_.now())},
                                {"epoch", record.epoch},
                                {"step", record.step},
                                {"loss", record.loss},
                                {"samples", record.samples},
                                {"learning_rate", record.learning_rate},
                                {"seconds", stage_seconds(pending_)},
                                {"bytes", bytes_json(traffic_since())}};
    if (record.age) line["age"] = *record.age;
    metrics_->append(line.dump());
  }
  pending_ = {};
  if (on_step) on_step(record);
}

void Recorder::epoch(const EpochRecord& record) {
  throw_later();
  const Duration now = runtime_.now();
  epoch_times_.push_back(now - epoch_start_ - pending_[static_cast<std::size_t>(Stage::evaluate)]);
  epoch_start_ = now;
  epochs_.push_back(record);
  if (metrics_) {
    nlohmann::ordered_json line{{"type", "epoch"},
                                {"time", seconds(now)},
                                {"epoch", record.epoch},
                                {"seconds", seconds(epoch_times_.back())}};
    if (!std::isnan(record.accuracy)) {
      line["test"] = {{"accuracy", record.accuracy}, {"loss", record.loss}};
    }
    if (!std::isnan(record.own_accuracy)) line["own_accuracy"] = record.own_accuracy;
    line["stages"] = stage_seconds(pending_);  // since the last step: evaluation, and a round's exchange
    line["bytes"] = bytes_json(traffic_since());
    line["parameters_hash"] = text(std::hex, std::setw(16), std::setfill('0'), record.parameters_hash);
    metrics_->append(line.dump());
    metrics_->flush();
  }
  mark(text("end of epoch ", record.epoch + 1));
  if (trace_) trace_->flush();
  pending_ = {};
  if (on_epoch) on_epoch(record);
}

void Recorder::sample(const SampleRecord& record) {
  if (!metrics_) return;
  const auto interface = [](const InterfaceUsage& used) {
    return nlohmann::ordered_json{{"bytes_sent", used.bytes_sent}, {"bytes_received", used.bytes_received},
                                  {"packets_sent", used.packets_sent}, {"packets_received", used.packets_received}};
  };
  const ProcessUsage& process = record.process;
  const MachineUsage& machine = record.machine;
  const nlohmann::ordered_json line{
      {"type", "sample"},
      {"time", seconds(runtime_.now())},
      {"seconds", seconds(record.span)},
      {"process", {{"cpu_user", process.cpu.user}, {"cpu_system", process.cpu.system}, {"resident", process.resident_bytes},
                   {"switches_waiting", process.switches_waiting}, {"switches_forced", process.switches_forced}}},
      {"machine", {{"cpu_user", machine.user}, {"cpu_system", machine.system}, {"cpu_idle", machine.idle}, {"cpu_stolen", machine.stolen}}},
      {"network", interface(record.network.network)},
      {"loopback", interface(record.network.loopback)},
      {"retransmits", record.network.retransmits}};
  metrics_->append(line.dump());
  metrics_->flush();  // who watches the run reads it now
}

void Recorder::trace_to(std::unique_ptr<LineFile> trace, int rank, Duration ahead) {
  trace_ = std::move(trace);
  trace_rank_ = rank;
  trace_ahead_ = ahead;
  const nlohmann::ordered_json named{{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", text("rank ", rank)}}}};
  trace_->append(text("[", named.dump()));
}

void Recorder::span(const Span& span) {
  if (on_span) on_span(span);
  if (!trace_) return;
  const std::string name = text(span.what, " ", span.index), what = span.what;
  // Events of one thread must nest: what computes does, exchanges go on side by side.
  const nlohmann::ordered_json event{{"name", name},
                                     {"cat", what},
                                     {"ph", "X"},
                                     {"pid", trace_rank_},
                                     {"tid", what == "exchange" ? name : "compute"},
                                     {"ts", trace_time(span.begin)},
                                     {"dur", seconds(span.end - span.begin) * 1e6}};
  trace_line(text(",", event.dump()));
}

/// Messages overlap: a pair of events each, by an id of its own, which viewers put on tracks of their own.
void Recorder::message(const CarriedMessage& message) {
  if (!trace_) return;
  const std::string name = message.peer < 0 ? text(message.how, " by all") : text(message.how, message.how[0] == 's' ? " to " : " from ", message.peer);
  nlohmann::ordered_json event{{"name", name}, {"cat", "message"}, {"ph", "b"}, {"pid", trace_rank_}, {"tid", "messages"},
                               {"id", text(trace_rank_, ".", traced_messages_++)}, {"ts", trace_time(message.begin)},
                               {"args", {{"bytes", message.bytes}, {"operation", message.operation}, {"for", ripieno::name(message.purpose)},
                                         {"channel", message.channel}}}};
  trace_line(text(",", event.dump()));
  event["ph"] = "e";
  event["ts"] = trace_time(message.end);
  event.erase("args");
  trace_line(text(",", event.dump()));
}

void Recorder::mark(const std::string& what) {
  if (!trace_) return;
  const nlohmann::ordered_json event{{"name", what}, {"cat", "mark"}, {"ph", "i"}, {"s", "p"}, {"pid", trace_rank_}, {"tid", "compute"}, {"ts", trace_time(runtime_.now())}};
  trace_line(text(",", event.dump()));
}

void Recorder::trace_line(const std::string& line) noexcept {
  try {
    trace_->append(line);
  } catch (...) {
    later(std::current_exception());
  }
}

void Recorder::failed(const std::string& what) noexcept {
  try {
    if (!trace_) return;
    mark("error: " + what);
    trace_->append("]");
    trace_->flush();
  } catch (...) {  // what ends training is said
  }
}

void Recorder::end() {
  throw_later();
  if (trace_) {
    trace_->append("]");
    trace_->flush();
  }
  if (!metrics_) return;
  metrics_->append(nlohmann::ordered_json{{"type", "end"}, {"time", seconds(runtime_.now())}, {"bytes", bytes_json(traffic_since())}}.dump());
  metrics_->flush();
}

Traffic Recorder::traffic_since() {
  const Traffic now = ledger_ ? ledger_->total(Purpose::exchange) : Traffic{};
  return now - std::exchange(last_traffic_, now);
}

}  // namespace ripieno
