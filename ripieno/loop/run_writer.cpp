#include "ripieno/loop/run_writer.h"

#include <torch/version.h>
#include <unistd.h>

#include <asio/ip/host_name.hpp>
#include <cmath>
#include <iostream>
#include <limits>

#include "ripieno/core/hash.h"
#include "ripieno/core/progress.h"
#include "ripieno/launch/launchers.h"
#include "ripieno/launch/placement.h"
#include "ripieno/loop/backward_end.h"
#include "ripieno/loop/run_place.h"
#include "ripieno/loop/stage_clock.h"
#include "ripieno/observe/usage.h"
#include "ripieno/observe/usage_sampler.h"
#include "ripieno/report/merge.h"

namespace ripieno::loop {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// The group's counts, if it is of a backend that has them.
c10d::Backend* counting(const c10::intrusive_ptr<::c10d::Backend>& group) {
  return dynamic_cast<c10d::Backend*>(group.get());
}

/// As TOML has it: a number or truth value as it is, else in quotes.
std::string in_toml(const std::string& value) {
  char* end = nullptr;
  [[maybe_unused]] const double number = std::strtod(value.c_str(), &end);
  const bool is_plain = value == "true" || value == "false" || (!value.empty() && *end == '\0');
  return is_plain ? value : '"' + value + '"';
}

/// What must stay as it was while a run is written.
struct Membership {
  explicit Membership(const RankTexts& ranks) : rank(ranks.rank()), size(ranks.size()) {
    if (const c10d::Backend* group = counting(ranks.group())) meetings = group->meetings();
  }
  bool operator==(const Membership&) const = default;

  int rank, size;
  std::uint64_t meetings = 0;
};

report::LoopFile described(const RunWriterOptions& options, const RankTexts& ranks) {
  report::LoopFile loop;
  loop.known.name = options.name;
  loop.known.strategy = options.strategy;
  loop.known.codec = options.codec;
  loop.known.model = options.model;
  loop.known.dataset = options.dataset;
  loop.known.world_size = ranks.size();
  loop.known.seed = options.seed;
  loop.known.counts_bytes = ranks.size() == 1 || counting(ranks.group());
  for (const auto& [key, value] : options.settings) loop.settings[key] = in_toml(value);
  return loop;
}

void check(const RunWriterOptions& options) {
  if (options.name.empty()) fail(ErrorKind::usage, "a run's name is empty; give one");
  if (options.folder.empty()) fail(ErrorKind::usage, "a run's folder is empty; name the one in which runs are made");
  if (options.epochs > 0 && options.first_epoch >= options.epochs) {
    fail(ErrorKind::usage, "the first epoch is ", options.first_epoch, " and epochs is ", options.epochs,
         ", counted from the first run's beginning: give more");
  }
  if (options.sample_every < Duration(0)) fail(ErrorKind::usage, "sample_every is negative; 0 is never");
}

/// "" for a process that nobody has launched.
std::string started_by() {
  if (launch::control_descriptor_of_environment() >= 0) return "ripieno";
  const std::string other = launch::launcher_name();
  return other == "none" ? "" : other;
}

/// The rank's metrics, made by all ranks or told to all why not: rank 0 may remove a run without a step as soon as this
/// returns.
std::unique_ptr<LineFile> made_metrics(const RankTexts& ranks, const observe::RunFolder& folder) {
  std::unique_ptr<LineFile> made;
  std::exception_ptr trouble;
  try {
    made = std::make_unique<LineFile>(folder.metrics(ranks.rank()));
  } catch (...) {
    trouble = std::current_exception();
  }
  meet_by_texts(ranks, trouble);
  return made;
}

std::uint64_t digest(const std::vector<torch::Tensor>& parameters) {
  std::string all;
  for (const torch::Tensor& parameter : parameters) {
    const torch::Tensor bits = parameter.detach().cpu().contiguous();
    const std::uint64_t one = hash({static_cast<const char*>(bits.const_data_ptr()), bits.nbytes()});
    all.append(reinterpret_cast<const char*>(&one), sizeof one);
  }
  return hash(all);
}

}  // namespace

struct RunWriter::State {
  State(c10::intrusive_ptr<::c10d::Backend> group, RunWriterOptions its_options, at::Device device)
      : options(std::move(its_options)),
        ranks(std::move(group), device),
        loop(described(options, ranks)),
        place(ranks, options.folder, loop, observe::environment_json(TORCH_VERSION, started_by()),
              [this] { check(options); }),
        progress(*runtime),
        recorder(*runtime, &ledger, made_metrics(ranks, place.folder())),
        clock(*runtime, ranks.size() > 1) {}

  void start();
  /// Throws if the run has ended, or the group has other members than when it began.
  void check_goes_on(const char* call) const;
  void step(const Step& step);
  void epoch(const Test& test);
  void count_bytes();
  void end_sampling() { sampler.reset(); }
  void found(std::optional<double> loss, const char* what);
  report::Summary summary();
  /// On the runtime's thread, where the sampler works too.
  void run(const char* what, const std::function<void()>& act) {
    const auto task = [](const std::function<void()>* now) -> Task<> {
      (*now)();
      co_return;
    };
    progress.run_here(what, task(&act));
  }

  const RunWriterOptions options;
  const RankTexts ranks;
  const Membership first_members{ranks};
  const report::LoopFile loop;
  RunPlace place;
  const std::unique_ptr<Runtime> runtime = real_runtime(0);
  Progress progress;
  observe::Ledger ledger;
  c10d::Backend::Counts before, now;  // the group's, at the run's beginning and the last step
  observe::Recorder recorder;
  std::optional<observe::UsageSampler> sampler;
  StageClock clock;
  std::vector<torch::Tensor> parameters;
  std::vector<AccumulationHook> hooks;
  Agreement* agreement = nullptr;
  observe::StageTimes agreed{};  // of the agreement, at the last step
  std::optional<report::NotFinite> not_finite;
  double machine_busy = 0;
  std::uint32_t epochs = 0;
  std::uint64_t steps_in_epochs = 0;  // that have ended
  bool is_finished = false;
  const int process = ::getpid();
};

void RunWriter::State::start() {
  if (c10d::Backend* group = counting(ranks.group())) before = now = group->counts();
  run("a run's beginning", [this] {
    if (!loop.known.counts_bytes) recorder.leave_out_bytes();
    recorder.start({ranks.rank(), ranks.size(), asio::ip::host_name(), observe::network_namespace(),
                    options.first_epoch, options.epochs, options.steps_per_epoch, unix_time()});
    if (options.sample_every > Duration(0)) sampler.emplace(*runtime, recorder, options.sample_every);
    recorder.begin();
  });
  clock.take("the run's beginning");
}

void RunWriter::State::check_goes_on(const char* call) const {
  if (is_finished) fail(ErrorKind::usage, call, " after finish()");
  if (Membership(ranks) == first_members) return;
  fail(ErrorKind::usage, call,
       ": the group was formed anew while the run was written: end a run before reconfigure, and begin another one "
       "after it");
}

void RunWriter::State::count_bytes() {
  c10d::Backend* const group = counting(ranks.group());
  if (!group) return;
  now = group->counts();
  ledger = now.ledger.since(before.ledger);
}

/// Keeps the first loss that is no finite number, and says so at once.
void RunWriter::State::found(std::optional<double> loss, const char* what) {
  if (!loss || std::isfinite(*loss) || not_finite) return;
  const std::uint64_t steps = recorder.steps();
  not_finite = report::NotFinite{ranks.rank(), what,
                                 std::isnan(*loss) ? "nan"
                                 : *loss > 0       ? "inf"
                                                   : "-inf",
                                 steps > 0 ? steps - 1 : 0, options.first_epoch + epochs};
  std::cerr << text("ripieno: warning: ", report::described(*not_finite), "; the loop goes on\n");
}

void RunWriter::State::step(const Step& step) {
  using observe::Stage;
  observe::StageTimes times = clock.take("a step ends");
  const Duration busy = now.busy;
  count_bytes();
  if (agreement) {
    const observe::StageTimes all = agreement->times();
    const Duration optimised = std::min(times[Stage::exchange], all[Stage::optimise] - agreed[Stage::optimise]);
    times[Stage::exchange] -= optimised;
    times[Stage::optimise] += optimised;
    times[Stage::hidden] = all[Stage::hidden] - agreed[Stage::hidden];
    agreed = all;
  } else {
    times[Stage::hidden] = std::max(Duration(0), now.busy - busy - times[Stage::exchange]);
  }
  run("a step's line", [&] {
    for (const observe::StageInfo& one : observe::stages) recorder.add(one.stage, times[one.stage]);
    recorder.step({options.first_epoch + epochs, options.first_epoch * options.steps_per_epoch + recorder.steps(),
                   step.loss.value_or(unknown), static_cast<std::uint32_t>(step.samples), step.learning_rate,
                   std::nullopt, step.loss.has_value()});
  });
  found(step.loss, "training loss");
}

void RunWriter::State::epoch(const Test& test) {
  observe::StageTimes times = clock.take("an epoch ends");
  times[observe::Stage::other] = Duration(0);  // of no step
  count_bytes();
  run("an epoch's line", [&] {
    for (const observe::StageInfo& one : observe::stages) recorder.add(one.stage, times[one.stage]);
    recorder.epoch({options.first_epoch + epochs, test.accuracy.value_or(unknown), test.loss.value_or(unknown),
                    digest(parameters), unknown, test.loss.has_value()});
  });
  found(test.loss, "test loss");
  ++epochs;
  steps_in_epochs = recorder.steps();
}

report::Summary RunWriter::State::summary() {
  report::Summary run = loop.known;
  report::RankSummary own;
  own.rank = ranks.rank();
  own.host = asio::ip::host_name();
  for (const observe::EpochRecord& epoch : recorder.epochs()) {
    if (std::isnan(epoch.accuracy)) continue;
    run.test = report::TestResult{epoch.accuracy, std::nullopt};
    if (epoch.has_loss) run.test->loss = epoch.loss;
    own.test = run.test;
  }
  own.seconds.total = seconds(runtime->now());
  for (const Duration one : recorder.epoch_times()) own.seconds.epoch.push_back(seconds(one));
  for (const observe::StageInfo& one : observe::stages)
    own.seconds.stages[one.stage] = seconds(recorder.totals()[one.stage]);
  own.images_per_second = recorder.rate();
  const observe::Traffic all = ledger.total();
  own.bytes = {all.payload_sent, all.payload_received, all.framing_sent, all.framing_received};
  own.exchange_payload_sent = ledger.total(observe::Purpose::exchange).payload_sent;
  const observe::CpuSeconds cpu = observe::cpu_seconds();
  own.process =
      report::ProcessUse{cpu.user, cpu.system, observe::proportional_memory(), observe::peak_resident_memory()};
  if (options.sample_every > Duration(0)) own.machine_busy = machine_busy;
  own.parameters_hash = digest(parameters);
  if (c10d::Backend* group = counting(ranks.group())) own.ways = group->ways();
  if (!own.ways.empty()) own.ways.insert(own.ways.begin() + own.rank, "");
  run.launcher = started_by();
  run.parameters = options.parameters;
  for (const torch::Tensor& one : parameters) {
    if (options.parameters == 0 && one.requires_grad()) run.parameters += static_cast<std::uint64_t>(one.numel());
  }
  run.epochs = static_cast<int>(epochs);
  run.steps = recorder.steps();
  run.not_finite = not_finite;
  run.seconds = own.seconds;
  run.images_per_second = own.images_per_second;
  run.bytes = own.bytes;
  run.exchange_payload_sent = own.exchange_payload_sent;
  run.ranks = {own};
  return run;
}

RunWriter::RunWriter(c10::intrusive_ptr<::c10d::Backend> group, RunWriterOptions options, at::Device device)
    : state_(std::make_unique<State>(std::move(group), std::move(options), device)) {
  state_->start();
}

RunWriter::~RunWriter() {
  if (state_->process != ::getpid()) {  // a fork has none of its threads
    [[maybe_unused]] State* const left = state_.release();
    return;
  }
  try {
    state_->run("a run's end", [this] { state_->end_sampling(); });
  } catch (...) {  // a sample that cannot be written: the run is shown as far as it is
  }
}

void RunWriter::watch(const std::vector<torch::Tensor>& parameters) {
  keep_digest_of(parameters);
  for (const torch::Tensor& parameter : parameters) {
    state_->hooks.emplace_back(parameter, AccumulationHook::Owner::run,
                               [clock = &state_->clock] { clock->gradient_is_there(); });
  }
}

void RunWriter::keep_digest_of(std::vector<torch::Tensor> parameters) { state_->parameters = std::move(parameters); }
void RunWriter::gradient_is_there() { state_->clock.gradient_is_there(); }
void RunWriter::follow(Agreement& agreement) {
  state_->agreement = &agreement;
  state_->agreed = agreement.times();
}

void RunWriter::enter(std::string_view stage) { state_->clock.enter(stage_named(stage)); }
void RunWriter::leave() { state_->clock.leave(); }

void RunWriter::step(const Step& step) {
  state_->check_goes_on("step()");
  if (step.samples < 0 || step.samples > UINT32_MAX)
    fail(ErrorKind::usage, "a step of ", step.samples, " samples; it must be 0 or more");
  state_->step(step);
}

void RunWriter::epoch(const Test& test) {
  state_->check_goes_on("epoch()");
  if (test.accuracy && !(*test.accuracy >= 0 && *test.accuracy <= 1))
    fail(ErrorKind::usage, "an accuracy of ", *test.accuracy, "; it must be from 0 to 1");
  if (test.loss && !test.accuracy) fail(ErrorKind::usage, "an epoch with a test loss and no accuracy; give both");
  state_->epoch(test);
}

void RunWriter::finish() {
  State& state = *state_;
  if (state.is_finished) return;
  state.check_goes_on("finish()");
  if (state.recorder.steps() > state.steps_in_epochs) state.epoch({});
  state.clock.take("the run ends");
  state.count_bytes();
  std::string own;
  std::exception_ptr trouble;
  try {
    state.run("a run's end", [&] {
      if (state.sampler) state.machine_busy = state.sampler->machine_busy();
      state.end_sampling();
      state.recorder.end();
      own = report::to_json(state.summary());
    });
  } catch (...) {
    trouble = std::current_exception();
  }
  meet_by_texts(state.ranks, trouble);
  const std::vector<std::string> all = state.place.gather(state.ranks, own);
  if (state.ranks.rank() == 0) {
    try {
      std::vector<report::Summary> summaries;
      for (const std::string& one : all) summaries.push_back(report::from_json(one, "a rank's summary"));
      write_file(state.place.folder().summary(), report::to_json(report::merge_ranks(std::move(summaries))));
    } catch (...) {
      trouble = std::current_exception();
    }
  }
  meet_by_texts(state.ranks, trouble);
  state.is_finished = true;
}

const std::filesystem::path& RunWriter::folder() const { return state_->place.folder().path(); }
std::uint64_t RunWriter::steps() const { return state_->recorder.steps(); }

}  // namespace ripieno::loop
