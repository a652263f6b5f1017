#include "ripieno/observe/recorder.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>

namespace ripieno::observe {
namespace {

constexpr Duration between_flushes = std::chrono::milliseconds(500);  // of steps' lines, at least

nlohmann::ordered_json stage_seconds(const StageTimes& times) {
  nlohmann::ordered_json json;
  for (const StageInfo& one : stages) {
    if (times[one.stage].count() != 0) json[one.name] = seconds(times[one.stage]);
  }
  return json;
}

nlohmann::ordered_json bytes_json(const std::optional<Traffic>& traffic) {
  if (!traffic) return nullptr;
  return {{"payload_sent", traffic->payload_sent},
          {"payload_received", traffic->payload_received},
          {"framing_sent", traffic->framing_sent},
          {"framing_received", traffic->framing_received}};
}

}  // namespace

Recorder::Recorder(const Runtime& runtime, Ledger* ledger, std::unique_ptr<LineFile> metrics)
    : runtime_(runtime),
      ledger_(ledger),
      metrics_(std::move(metrics)),
      epoch_start_(runtime.now()),
      step_start_(runtime.now()) {}

void Recorder::start(const StartRecord& record) {
  if (!metrics_) return;
  nlohmann::ordered_json line{{"type", "start"},           {"schema", metrics_schema},
                              {"time", line_time()},       {"rank", record.rank},
                              {"ranks", record.ranks},     {"host", record.host},
                              {"network", record.network}, {"first_epoch", record.first_epoch},
                              {"epochs", record.epochs},   {"steps_per_epoch", record.steps_per_epoch}};
  if (record.unix_time) line["unix_time"] = *record.unix_time - line_time();   // at time 0
  if (!earlier_.lines.empty()) line["earlier_lines"] = earlier_.lines.size();  // which follow
  metrics_->append(line.dump());
  for (const std::string& earlier : std::exchange(earlier_.lines, {})) metrics_->append(earlier);
  metrics_->flush();
}

void Recorder::go_on_from(EarlierPart earlier) {
  earlier_ = std::move(earlier);
  steps_ = earlier_.steps;
  samples_ = earlier_.samples;
  totals_ = earlier_.stages;
  epoch_times_ = std::move(earlier_.epoch_times);
  epochs_ = std::move(earlier_.epochs);
  ages_ = std::move(earlier_.ages);
  if (left_out_steps_ > 0 && left_out_steps_ <= earlier_.after_steps.size())
    std::tie(left_out_time_, left_out_samples_) = earlier_.after_steps[left_out_steps_ - 1];
  traffic_since();
}

void Recorder::begin() {
  began_ = step_start_ = runtime_.now();
  epoch_start_ = began_ - earlier_.of_epoch;
}

void Recorder::add(Stage stage, Duration time) {
  pending_[stage] += time;
  totals_[stage] += time;
}

void Recorder::step(const StepRecord& record) {
  throw_later();
  ++steps_;
  samples_ += record.samples;
  if (steps_ == left_out_steps_) {
    left_out_samples_ = samples_;
    left_out_time_ = std::accumulate(epoch_times_.begin(), epoch_times_.end(), runtime_.now() - epoch_start_);
  }
  if (record.age) ++ages_[*record.age];
  if (metrics_) {
    nlohmann::ordered_json line{{"type", "step"},
                                {"time", line_time()},
                                {"epoch", record.epoch},
                                {"step", record.step},
                                {"samples", record.samples},
                                {"learning_rate", record.learning_rate},
                                {"seconds", stage_seconds(pending_)},
                                {"bytes", bytes_json(traffic_since())}};
    if (record.has_loss) line["loss"] = record.loss;
    if (record.age) line["age"] = *record.age;
    metrics_->append(line.dump());
    if (const Duration now = runtime_.now(); now - flushed_ >= between_flushes && !runtime_.is_virtual()) {
      metrics_->flush();  // so that a process that is killed loses little
      flushed_ = now;
    }
  }
  pending_ = {};
  const Duration now = runtime_.now();
  if (trace_ && now > step_start_) trace_bar(text("step ", record.step), "step", "steps", step_start_, now);
  step_start_ = now;
  if (on_step) on_step(record);
}

double Recorder::rate() const {
  if (left_out_steps_ > 0 && steps_ <= left_out_steps_) return 0;
  const Duration time = std::accumulate(epoch_times_.begin(), epoch_times_.end(), -left_out_time_);
  return time > Duration(0) ? static_cast<double>(samples_ - left_out_samples_) / seconds(time) : 0;
}

void Recorder::epoch(const EpochRecord& record) {
  throw_later();
  const Duration now = runtime_.now();
  epoch_times_.push_back(now - epoch_start_ - pending_[Stage::evaluate]);
  epoch_start_ = step_start_ = now;
  epochs_.push_back(record);
  if (metrics_) {
    nlohmann::ordered_json line{
        {"type", "epoch"}, {"time", line_time()}, {"epoch", record.epoch}, {"seconds", seconds(epoch_times_.back())}};
    if (!std::isnan(record.accuracy)) {
      line["test"] = {{"accuracy", record.accuracy}};
      if (record.has_loss) line["test"]["loss"] = record.loss;
    }
    if (!std::isnan(record.own_accuracy)) line["own_accuracy"] = record.own_accuracy;
    line["stages"] = stage_seconds(pending_);  // since the last step: evaluation, and the exchange of a round
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
    return nlohmann::ordered_json{{"bytes_sent", used.bytes_sent},
                                  {"bytes_received", used.bytes_received},
                                  {"packets_sent", used.packets_sent},
                                  {"packets_received", used.packets_received}};
  };
  const ProcessUsage& process = record.process;
  const MachineUsage& machine = record.machine;
  nlohmann::ordered_json line{{"type", "sample"},
                              {"time", line_time()},
                              {"seconds", seconds(record.span)},
                              {"process",
                               {{"cpu_user", process.cpu.user},
                                {"cpu_system", process.cpu.system},
                                {"resident", process.resident_bytes},
                                {"switches_waiting", process.switches_waiting},
                                {"switches_forced", process.switches_forced}}},
                              {"machine",
                               {{"cpu_user", machine.user},
                                {"cpu_system", machine.system},
                                {"cpu_idle", machine.idle},
                                {"cpu_stolen", machine.stolen}}},
                              {"network", interface(record.network.network)},
                              {"loopback", interface(record.network.loopback)},
                              {"retransmits", record.network.retransmits}};
  if (!record.waits_for.empty()) line["waits_for"] = record.waits_for;
  metrics_->append(line.dump());
  metrics_->flush();  // so that watchers of the run see it now
}

void Recorder::trace_to(std::unique_ptr<LineFile> trace, const TraceOptions& options) {
  trace_ = std::move(trace);
  tracing_ = options;
  const nlohmann::ordered_json named{
      {"name", "process_name"},
      {"ph", "M"},
      {"pid", options.rank},
      {"args", {{"name", text("rank ", options.rank)}, {"clock_error_us", microseconds(options.clock_error)}}}};
  trace_->append(text("[", named.dump()));
}

void Recorder::trace_bar(const std::string& name, std::string_view category, std::string_view thread, Duration begin,
                         Duration end) {
  const nlohmann::ordered_json event{{"name", name},
                                     {"cat", category},
                                     {"ph", "X"},
                                     {"pid", tracing_.rank},
                                     {"tid", thread},
                                     {"ts", trace_time(begin)},
                                     {"dur", microseconds(end - begin)}};
  trace_line(text(",", event.dump()));
}

void Recorder::span(const Span& span) {
  if (on_span) on_span(span);
  if (!trace_) return;
  const std::string name = text(span.what, " ", span.index), what = span.what;
  // Events of one thread must nest. Those of compute do; exchanges overlap each other, and the optimiser's steps
  // overlap a pass.
  const std::string thread = what == "exchange" ? name : what == "optimise" ? what : "compute";
  trace_bar(name, what, thread, span.begin, span.end);
}

std::string Recorder::message_thread(Duration begin, Duration end) {
  std::size_t free = 0;
  while (free < message_threads_.size() && message_threads_[free] > begin) ++free;
  if (free == message_threads_.size()) message_threads_.emplace_back();
  message_threads_[free] = end;
  return free == 0 ? "messages" : text("messages ", free + 1);
}

void Recorder::message(const CarriedMessage& message) {
  if (!trace_) return;
  const bool by_all = message.peer < 0, sends = message.how == std::string_view("send");
  const std::string name =
      by_all ? text(message.how, " by all") : text(message.how, sends ? " to " : " from ", message.peer);
  // An arrow's end belongs to the bar around it, so the bar needs a length: at least two nanoseconds.
  constexpr Duration nanosecond = std::chrono::nanoseconds(1);
  const Duration end = std::max(message.end, message.begin + 2 * nanosecond), last = end - nanosecond;
  const std::string thread = message_thread(message.begin, end);
  const nlohmann::ordered_json event{{"name", name},
                                     {"cat", "message"},
                                     {"ph", "X"},
                                     {"pid", tracing_.rank},
                                     {"tid", thread},
                                     {"ts", trace_time(message.begin)},
                                     {"dur", microseconds(end - message.begin)},
                                     {"args",
                                      {{"bytes", message.bytes},
                                       {"operation", message.operation},
                                       {"for", observe::name(message.purpose)},
                                       {"channel", message.channel}}}};
  trace_line(text(",", event.dump()));
  if (!by_all) return trace_arrow(sends, message.peer, message, thread, sends ? message.begin : last);
  for (const bool start : {true, false}) {
    for (int peer = 0; peer < tracing_.ranks; ++peer) {
      if (peer != tracing_.rank) trace_arrow(start, peer, message, thread, start ? message.begin : last);
    }
  }
}

void Recorder::trace_arrow(bool is_start, int peer, const CarriedMessage& message, std::string_view thread,
                           Duration when) {
  // Both ranks compute the same number, of 64 bits as viewers require. It repeats after 2^18 messages of a channel.
  const auto from = static_cast<std::uint64_t>(is_start ? tracing_.rank : peer),
             to = static_cast<std::uint64_t>(is_start ? peer : tracing_.rank);
  const auto part = [](std::uint64_t value, int bits) { return value & ((std::uint64_t{1} << bits) - 1); };
  const std::uint64_t id = part(from, 13) << 51 | part(to, 13) << 38 | std::uint64_t{message.peer < 0} << 37 |
                           static_cast<std::uint64_t>(message.purpose) << 35 | part(message.channel, 17) << 18 |
                           part(message.sequence, 18);
  nlohmann::ordered_json event{{"name", message.operation},      {"cat", "arrow"},       {"ph", is_start ? "s" : "f"},
                               {"id", text("0x", std::hex, id)}, {"pid", tracing_.rank}, {"tid", thread},
                               {"ts", trace_time(when)}};
  if (!is_start) event["bp"] = "e";  // it ends at the bar around it, not at the next
  trace_line(text(",", event.dump()));
}

void Recorder::mark(const std::string& what) {
  if (!trace_) return;
  const nlohmann::ordered_json event{{"name", what},
                                     {"cat", "mark"},
                                     {"ph", "i"},
                                     {"s", "p"},
                                     {"pid", tracing_.rank},
                                     {"tid", "compute"},
                                     {"ts", trace_time(runtime_.now())}};
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
  } catch (...) {  // the error that ends training is reported instead
  }
}

void Recorder::stop() {
  throw_later();
  if (trace_) {
    trace_->append("]");
    trace_->flush();
  }
  if (metrics_) metrics_->flush();
}

void Recorder::end() {
  stop();
  if (!metrics_) return;
  metrics_->append(
      nlohmann::ordered_json{{"type", "end"}, {"time", line_time()}, {"bytes", bytes_json(traffic_since())}}.dump());
  metrics_->flush();
}

std::optional<Traffic> Recorder::traffic_since() {
  if (!counts_bytes_) return std::nullopt;
  Traffic now;
  if (ledger_) (now = ledger_->total(Purpose::exchange)) += ledger_->dropped();
  return now - std::exchange(last_traffic_, now);
}

}  // namespace ripieno::observe
