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

void Recorder::add(Stage stage, Duration time) {
  pending_[static_cast<std::size_t>(stage)] += time;
  totals_[static_cast<std::size_t>(stage)] += time;
}

void Recorder::step(const StepRecord& record) {
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
  pending_ = {};
  if (on_epoch) on_epoch(record);
}

void Recorder::trace_to(std::unique_ptr<LineFile> trace, int rank) {
  trace_ = std::move(trace);
  trace_rank_ = rank;
  const nlohmann::ordered_json named{{"name", "process_name"}, {"ph", "M"}, {"pid", rank}, {"args", {{"name", text("rank ", rank)}}}};
  trace_->append("[" + named.dump());
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
                                     {"ts", seconds(span.begin) * 1e6},
                                     {"dur", seconds(span.end - span.begin) * 1e6}};
  trace_->append("," + event.dump());
}

void Recorder::end() {
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
