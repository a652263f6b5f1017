#include "apps/ripieno/worker.h"

#include <asio/ip/host_name.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/replay.h"
#include "apps/ripieno/saved_states.h"
#include "ripieno/collective/execute.h"
#include "ripieno/core/file.h"
#include "ripieno/numeric/elementwise.h"
#include "ripieno/observe/usage.h"
#include "ripieno/launch/join.h"
#include "ripieno/membership/clocks.h"
#include "ripieno/observe/usage_sampler.h"
#include "ripieno/report/format.h"
#include "ripieno/train/checkpoint.h"
#include "ripieno/train/torch_error.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno {
namespace {

/// What a rank's checkpoint holds, in one walk for writing and reading; epochs_done first, as saved_states.h needs it.
void visit_state(StateVisitor& visitor, Learner& learner, Strategy& strategy, std::int64_t& epochs_done) {
  visitor.number("epochs_done", epochs_done);
  visitor.span("parameters", learner.parameters());
  visitor.span("buffers", learner.buffers());
  learner.visit(visitor);
  strategy.visit(visitor);
}

/// Has an endpoint's messages traced as long as it lives.
class MessageTrace {
 public:
  MessageTrace(CountedEndpoint& endpoint, Recorder& recorder) : endpoint_(endpoint) {
    endpoint.on_message = [&recorder](const CarriedMessage& message) { recorder.message(message); };
  }
  ~MessageTrace() { endpoint_.on_message = {}; }
  MessageTrace(const MessageTrace&) = delete;
  MessageTrace& operator=(const MessageTrace&) = delete;

 private:
  CountedEndpoint& endpoint_;
};

/// Messages for the progress bar, a few a second.
class Progress {
 public:
  /// `learns`: losses are computed, and one that is no finite number is told of.
  Progress(Recorder& recorder, const Runtime& runtime, const Plan& plan, std::uint64_t steps_per_epoch, int workers, int rank, bool learns,
           std::function<void(const nlohmann::json&)> report)
      : runtime_(runtime), plan_(plan), steps_(steps_per_epoch), workers_(workers), rank_(rank), learns_(learns), report_(std::move(report)), start_(runtime.now()) {
    recorder.on_step = [this](const StepRecord& record) { step(record); };
    recorder.on_epoch = [this](const EpochRecord& record) { epoch(record); };
  }

  const std::optional<NotFinite>& not_finite() const { return not_finite_; }

 private:
  /// The first loss that is not finite is told of at once.
  void watch(const char* what, double loss, std::uint64_t step, std::uint32_t epoch) {
    if (!learns_ || std::isfinite(loss) || not_finite_) return;
    not_finite_ = NotFinite{rank_, what, format_fixed(loss, 0), step, epoch};
    report_({{"type", "not_finite"}, {"text", described(*not_finite_)}});
  }

  void step(const StepRecord& record) {
    if (record.samples > 0) watch("training loss", record.loss, record.step, record.epoch);
    last_step_ = record.step;
    images_ += static_cast<double>(record.samples) * workers_;
    const Duration now = runtime_.now();
    if (now - last_ < from_seconds(0.1) && !runtime_.is_virtual()) return;
    last_ = now;
    const double elapsed = seconds(now - start_);
    const double all = static_cast<double>(steps_) * plan_.epochs;
    const double total = plan_.max_steps > 0 ? std::min(all, static_cast<double>(plan_.max_steps)) : all;
    const double first = static_cast<double>(steps_) * plan_.first_epoch;
    const double done = static_cast<double>(record.step) + 1;
    report_({{"type", "progress"},
             {"epoch", record.epoch + 1},
             {"epochs", plan_.epochs},
             {"fraction", done / total},
             {"images_per_second", images_ / elapsed},
             {"seconds_left", elapsed * (total - done) / (done - first)},
             {"samples", record.samples},
             {"loss", std::isfinite(record.loss) ? nlohmann::json(record.loss) : nlohmann::json()}});
  }

  void epoch(const EpochRecord& record) {
    if (std::isnan(record.accuracy)) return;
    watch("test loss", record.loss, last_step_, record.epoch);
    report_({{"type", "epoch"},
             {"epoch", record.epoch + 1},
             {"epochs", plan_.epochs},
             {"seconds", seconds(runtime_.now() - start_)},
             {"accuracy", record.accuracy},
             {"loss", std::isfinite(record.loss) ? nlohmann::json(record.loss) : nlohmann::json()}});
  }

  const Runtime& runtime_;
  Plan plan_;
  std::uint64_t steps_;
  int workers_, rank_;
  bool learns_;
  std::uint64_t last_step_ = 0;
  std::optional<NotFinite> not_finite_;
  std::function<void(const nlohmann::json&)> report_;
  Duration start_, last_{0};
  double images_ = 0;
};

Summary summarise(const Settings& settings, const Plan& plan, int rank, const TorchLearner& learner, const Recorder& recorder,
                  const Ledger& ledger, NumberSpan weights, double total_seconds) {
  Summary run;
  const StrategyInfo& info = strategy_of(settings);
  run.name = settings.get<std::string>("run.name");
  if (run.name.empty()) run.name = std::string(info.name);
  const bool simulated = settings.get<std::string>("transport.kind") == "simulated";
  run.kind = kind_of(settings);
  run.strategy = std::string(info.name);
  run.route = info.route_of(plan);
  run.codec = plan.exchange.codec.name;
  run.model = settings.get<std::string>("model");
  run.dataset = settings.get<std::string>("data.name");
  run.world_size = ranks_of(settings);
  run.parameters = learner.layout().parameters;
  run.epochs = static_cast<int>(plan.epochs - plan.first_epoch);
  run.steps = recorder.steps();
  run.seed = settings.get<std::int64_t>("seed");
  if (plan.max_steps == 0) {
    const Workload work = workload_of(settings, learner.sampler().steps_of_all(), static_cast<std::uint32_t>(run.epochs));
    const auto sent = info.bytes_sent(info, plan, learner.layout(), work, rank);
    if (sent) run.closed_form_payload_sent = *sent / static_cast<std::uint64_t>(run.epochs);
  }
  const auto& epochs = recorder.epochs();
  if (!epochs.empty() && !std::isnan(epochs.back().accuracy)) run.test = TestResult{epochs.back().accuracy, epochs.back().loss};

  RankSummary own;
  own.rank = rank;
  own.test = run.test;
  own.seconds.total = total_seconds;
  const bool learns = info.worker(plan, rank) >= 0;
  if (learns) {
    for (const Duration epoch : recorder.epoch_times()) own.seconds.epoch.push_back(seconds(epoch));
  }
  const auto stage = [&recorder](Stage s) { return seconds(recorder.totals()[static_cast<std::size_t>(s)]); };
  own.seconds.stages = {stage(Stage::read),     stage(Stage::forward),  stage(Stage::backward),
                        stage(Stage::exchange), stage(Stage::optimise), stage(Stage::evaluate), stage(Stage::hidden)};
  double trained = 0;
  for (const double epoch : own.seconds.epoch) trained += epoch;
  if (trained > 0) own.images_per_second = static_cast<double>(recorder.samples()) / trained;
  const Traffic all = ledger.total();
  own.bytes = {all.payload_sent, all.payload_received, all.framing_sent, all.framing_received};
  run.exchange_payload_sent = ledger.total(Purpose::exchange).payload_sent;
  own.exchange_payload_sent = run.exchange_payload_sent;
  if (ledger.dropped().payload_sent > 0) own.dropped_payload_sent = ledger.dropped().payload_sent;
  run.evaluation_payload_sent = own.evaluation_payload_sent = ledger.total(Purpose::evaluate).payload_sent;
  if (!epochs.empty() && !std::isnan(epochs.back().own_accuracy)) own.own_accuracy = epochs.back().own_accuracy;
  own.bytes_read = learner.bytes_read();
  if (!simulated) {
    const CpuSeconds cpu = cpu_seconds();
    own.process = ProcessUse{cpu.user, cpu.system, proportional_memory(), peak_resident_memory()};
  }
  own.parameters_hash = hash(weights);
  if (!recorder.ages().empty()) own.staleness = recorder.ages();
  run.seconds = own.seconds;
  run.bytes = own.bytes;
  run.images_per_second = own.images_per_second;
  run.ranks = {own};
  return run;
}

}  // namespace

Task<> run_rank(RankTask task, const Zoo* zoo, std::shared_ptr<CountedEndpoint> endpoint, Summary* summary) {
  const int rank = endpoint->rank();
  Runtime& runtime = endpoint->runtime();
  const StrategyInfo& info = strategy_of(task.settings);
  const Duration start = runtime.now();
  const Communicator comm = group_of(task.settings, endpoint);
  if (task.settings.get<std::string>("exchange.measure") != "off") {
    const std::string asked = task.settings.to_toml();
    const std::string chosen = co_await choose_exchange(&task.settings, zoo, comm);
    if (rank == 0 && !chosen.empty()) {
      if (!std::filesystem::exists(task.folder.asked())) write_file(task.folder.asked(), asked);
      write_file(task.folder.config(), task.settings.to_toml());
      task.report({{"type", "note"}, {"text", chosen}});
    }
  }
  const auto precision = task.settings.get<std::string>("train.precision");
  if (rank == 0 && task.settings.get<std::string>("train.device") == "cpu" && !has_instructions(find_precision(precision))) {
    task.report({{"type", "note"}, {"text", "this processor has no instructions for " + precision + ": train.precision = fp32 is faster here"}});
  }
  Plan plan = settled(info, plan_of(task.settings), comm);
  Recorder recorder(runtime, &endpoint->ledger(), std::make_unique<LineFile>(task.folder.metrics(rank)));
  std::optional<ComputeProfile> replay;
  if (is_replayed(task.settings) && task.profile) {
    replay = task.profile(task.settings);
  } else if (is_replayed(task.settings)) {
    replay = co_await common_profile(task.settings, zoo, comm);
  }
  const auto learner = make_learner(task.settings, *zoo, rank, runtime, recorder, comm.memory(), replay);
  know_model(&plan, task.settings, *learner);

  std::int64_t epochs_done = 0;
  std::optional<StateReader> saved;
  if (task.resume) {
    const auto file = SavedStates(RunFolder::open(*task.resume), endpoint->size()).newest_of(rank);
    saved.emplace(load_tensors(file), file);
    saved->number("epochs_done", epochs_done);
    if (epochs_done >= plan.epochs) {
      fail(ErrorKind::usage, file.string(), ": has ", epochs_done, " epochs done, and train.epochs is ", plan.epochs,
           "; raise it with --set train.epochs=N");
    }
    plan.first_epoch = static_cast<std::uint32_t>(epochs_done);
  }

  std::optional<MessageTrace> messages;
  if (task.settings.get<bool>("run.trace")) {
    ClockOffset clock;  // in virtual time there is one
    if (!runtime.is_virtual()) clock = co_await clock_offset(endpoint, comm.channel(comm.take_channels(), Purpose::setup));
    recorder.trace_to(std::make_unique<LineFile>(task.folder.trace(rank)), {rank, endpoint->size(), clock.ahead, clock.error});
    messages.emplace(*endpoint, recorder);
  }
  Strategy* trainer = nullptr;
  const bool keeps_weights = !is_replayed(task.settings);  // else there is nothing to keep
  const int every = keeps_weights ? task.settings.get<int>("run.checkpoint_every") : 0;
  SavedStates states(task.folder, endpoint->size());
  const auto save_state = [&] {
    StateWriter writer;
    visit_state(writer, *learner, *trainer, epochs_done);
    states.save(rank, epochs_done, writer.tensors);
  };
  const auto checkpoint = [&](std::uint32_t epoch) {
    const std::int64_t before = std::exchange(epochs_done, epoch + 1);
    const bool at_end = epochs_done == plan.epochs && plan.max_steps == 0;  // it is saved then
    if (every > 0 && epochs_done / every > before / every && !at_end) save_state();
  };
  const auto strategy = make_strategy(info, plan, {comm, *learner, recorder, checkpoint});
  trainer = strategy.get();
  if (saved) visit_state(*saved, *learner, *strategy, epochs_done);
  Progress progress(recorder, runtime, plan, learner->steps_per_epoch(), task.settings.get<int>("workers"), rank, keeps_weights, task.report);

  if (saved) {  // a job that still runs may have saved in between
    const std::int64_t first = co_await comm.broadcast(epochs_done);
    if (first != epochs_done) {
      fail(ErrorKind::mismatch, task.resume->string(), ": the state of rank ", rank, " has ", epochs_done, " epochs done, rank 0's ", first);
    }
  }
  recorder.start({rank, endpoint->size(), asio::ip::host_name(), network_namespace(), plan.first_epoch, plan.epochs, learner->steps_per_epoch(),
                  runtime.is_virtual() ? std::optional<double>() : unix_time()});
  std::optional<UsageSampler> sampler;
  const Duration between = from_seconds(task.settings.get<double>("run.sample_s"));
  if (between.count() > 0 && !runtime.is_virtual()) sampler.emplace(runtime, recorder, between);
  try {
    co_await strategy->run();
  } catch (const std::exception& error) {
    recorder.failed(error.what());
    throw;
  }
  const auto busy = sampler ? std::optional(sampler->machine_busy()) : std::nullopt;
  sampler.reset();

  if (keeps_weights && plan.max_steps == 0) {  // a run that was cut within an epoch cannot be resumed
    epochs_done = plan.epochs;
    save_state();  // before the consensus: where workers' parameters differ, each goes on from its own
  }
  convert(learner->parameters(), strategy->consensus());
  if (strategy->consensus_buffers().count > 0) convert(learner->buffers(), strategy->consensus_buffers());
  if (keeps_weights && rank == 0) save_tensors(task.folder.model(), state_dict(learner->model()));
  *summary = summarise(task.settings, plan, rank, *learner, recorder, endpoint->ledger(), learner->parameters(),
                       seconds(runtime.now() - start));
  summary->ranks[0].machine_busy = busy;
  summary->not_finite = progress.not_finite();
  for (int peer = 0; peer < endpoint->size(); ++peer) {
    summary->ranks[0].ways.push_back(peer == rank ? "" : endpoint->way(peer));
  }
  messages.reset();
  recorder.end();

  // Nobody closes before all have what they were sent; in virtual time nobody closes, and some may have died.
  if (runtime.is_virtual()) co_return;
  co_await comm.barrier();
}

void run_part(Control& control, const std::function<void()>& part) {
  const auto report = [&](const Error& error) {
    control.failed(error);
    if (control.has_listener()) throw Reported{error.kind()};
  };
  try {
    part();
  } catch (const Error& error) {
    report(error);
    throw;
  } catch (const std::exception& error) {
    report(Error(ErrorKind::internal, first_line(error)));
    throw;
  }
}

void run_worker(const std::filesystem::path& path, const std::string& resume, const Zoo& zoo) {
  Control control(control_descriptor_of_environment());
  std::optional<Cluster> cluster;  // is taken down once the launcher knows why
  run_part(control, [&] {
    const Placement place = placement();
    const RunFolder folder = RunFolder::open(path);
    Settings settings;
    settings.load(folder.config());
    JoinOptions options;
    options.digest = settings.digest();
    options.seed = settings.get<std::uint64_t>("seed");
    options.timeout = from_seconds(settings.get<double>("transport.timeout_s"));
    options.shape = {from_seconds(settings.get<double>("transport.delay_ms") * 1e-3), settings.get<double>("transport.mbit_s")};
    cluster.emplace(join(place, options));
    if (cluster->endpoint->size() != ranks_of(settings)) {
      fail(ErrorKind::mismatch, "the job has ", cluster->endpoint->size(), " ranks; its recipe needs ", ranks_of(settings));
    }
    RankTask task{settings, folder, {}, [&](const nlohmann::json& message) { control.send(message); }};
    if (!resume.empty()) task.resume = resume;
    Summary summary;
    cluster->runtime->spawn(text("rank ", place.rank), run_rank(task, &zoo, cluster->endpoint, &summary));
    cluster->runtime->run();
    control.send({{"type", "summary"}, {"summary", to_json(summary)}});
  });
}

}  // namespace ripieno
