#include "apps/ripieno/advise.h"

#include <algorithm>
#include <cmath>

#include "apps/ripieno/adviser_fit.h"
#include "apps/ripieno/choose_exchange.h"
#include "apps/ripieno/job.h"
#include "apps/ripieno/kept_numbers.h"
#include "apps/ripieno/replay.h"
#include "ripieno/codec/codec.h"
#include "ripieno/data/dataset.h"
#include "ripieno/model/classifier.h"
#include "ripieno/predict/costs.h"
#include "ripieno/predict/shrink.h"
#include "ripieno/train/flat_model.h"
#include "ripieno/transport/frame.h"
#include "ripieno/transport/link_options.h"
#include "ripieno/transport/tcp/endpoint.h"

namespace ripieno::program {
namespace {

constexpr double packet_bytes = 1514,
                 packet_payload = 1448;  // of Ethernet, IPv4 and TCP with timestamps, in packets of 1500 bytes

constexpr int many_buckets = 16;
constexpr std::uint32_t most_images = 512;  // in a measured pass; one of more takes as much longer
constexpr double most_spread = 0.9;         // with 1, some passes would take no time

/// The codec with the same numbers as in memory has two names; uses the one that names their type.
std::string plain_codec(const Settings& settings) { return numbers_type(settings) == DType::fp64 ? "auto" : "fp32"; }

/// The job's projection input, with passes as in the profile.
double spread_of(const strategy::ComputeProfile& profile) {
  const double pass_s = seconds(profile.read + profile.forward + profile.backward);
  return std::min(most_spread, adviser_fit.spread * std::sqrt(adviser_fit.pass_s / std::max(pass_s, 1e-9)));
}

void check_partition(const Settings& settings) {
  if (!data::needs_labels(settings->sampling.sharing)) return;
  fail(ErrorKind::usage, settings.shown("data.partition"),
       ": how many samples a worker has is known when the labels are read; "
       "advise counts for data.partition = even or reshuffled");
}

void check_route(const Settings& settings) {
  if (!settings->plan.exchange.is_native()) return;
  fail(ErrorKind::usage, settings.shown("exchange.route"),
       ": only MPI knows what it sends, and when; advise counts along Ripieno's own routes, such as auto");
}

/// One worker, which takes the steps of all of them.
void take_the_whole_batch(Settings* settings) {
  const std::int64_t workers = (*settings)->workers;
  const auto assign = [&](const char* key, Value value) {
    settings->assign(key, std::move(value), {"strategy single"});
  };
  if (const std::int64_t each = (*settings)->batch.per_worker; each > 0) {
    assign("batch.per_worker", std::int64_t{0});
    assign("batch.global", each * workers);
  }
  if ((*settings)->scale_rate)
    assign("learning_rate.base",
           std::get<double>(settings->value("learning_rate.base")) * static_cast<double>(workers));
  for (const char* key : {"batch.shares", "simulated.deaths_s"}) assign(key, std::vector<double>());  // of each worker
  assign("workers", std::int64_t{1});
}

bool asked_for(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

transport::LinkModel StatedLink::model() const {
  const double share = of_payload ? 1 : packet_bytes / packet_payload;
  return {from_seconds(latency_ms * 1e-3), from_seconds(8e-6 / mbit_s * share)};
}

std::vector<RecipeCell> all_ways(const Settings& base, const std::vector<std::string>& strategies_asked,
                                 const std::vector<std::string>& codecs_asked, std::vector<RefusedCell>* refused) {
  for (const std::string& name : strategies_asked) strategy::find_strategy(name);
  for (const std::string& name : codecs_asked) codec::find_codec(name);
  const std::string plain = plain_codec(base), other_plain = plain == "auto" ? "fp32" : "auto";
  std::vector<RecipeCell> cells;
  for (const strategy::StrategyInfo& strategy : strategy::strategies()) {
    if (!asked_for(strategies_asked, strategy.name)) continue;
    for (const codec::CodecInfo& codec : codec::codecs()) {
      const bool single = strategy.traits.alone, same = codecs_asked.empty() && codec.name == other_plain;
      if (same || (single && codec.name != plain) || (!single && !asked_for(codecs_asked, codec.name))) continue;
      RecipeCell cell;
      cell.name = single ? "single" : text(strategy.name, "-", codec.name);
      cell.settings = base;
      cell.settings.assign("strategy", std::string(strategy.name), {"ripieno advise"});
      cell.settings.assign("exchange.codec", std::string(single ? "auto" : codec.name), {"ripieno advise"});
      try {
        if (single) take_the_whole_batch(&cell.settings);
        check_choices(cell.settings);
        cell.idle = cell.settings.idle();
        cells.push_back(std::move(cell));
      } catch (const Error& error) {
        refused->push_back({cell.name, error.what(), error.kind()});
      }
    }
  }
  return cells;
}

/// Adds what a run chooses at its start after measuring its links (choose_exchange.h).
Settings Adviser::as_it_runs(Settings settings) const {
  settle_measure(&settings);
  if (settings->measure == MeasureLinks::off) return settings;
  strategy::Plan plan = plan_of(settings);
  plan.exchange.route = strategy_of(settings).route_of(plan);
  choose_for_links(&settings, zoo_, collective::World(ranks_of(settings), settings->per_node), link_.model(), plan);
  return settings;
}

const strategy::Layout& Adviser::layout(const Settings& settings) {
  const std::string key = text(settings->model, " ", settings->compute.bucket_bytes, " ", divides_buckets(settings),
                               " ", settings->compute.channels_last, " ", name(numbers_type(settings)));
  const auto known = layouts_.find(key);
  if (known != layouts_.end()) return known->second;
  strategy::Layout layout = train::FlatModel(zoo_.find(settings->model).make(), layout_of(settings)).layout();
  layout.type = numbers_type(settings);
  return layouts_[key] = std::move(layout);
}

/// A pass depends neither on the strategy nor on the links, so one is measured for all: as for ddp, in many buckets,
/// which give the time at which the gradient of any other bucket is ready.
const WorkersPass& Adviser::pass_of_cell(const Settings& settings) {
  if (stated_.time > Duration(0)) return passes_["stated"] = stated_pass(settings);
  Settings measured = settings;
  const auto assign = [&](const char* key, Value value) { measured.assign(key, std::move(value), {"ripieno advise"}); };
  const double model_mb = 4e-6 * static_cast<double>(zoo_.find(settings->model).parameters);
  assign("exchange.bucket_mb", std::clamp(std::round(model_mb / many_buckets * 1e3) * 1e-3, 0.001, 4096.0));
  assign("exchange.measure", std::string("off"));
  for (const char* key : {"exchange.codec", "exchange.route"}) assign(key, std::string("auto"));
  assign("simulated.deaths_s", std::vector<double>());
  if (settings->workers > 1) assign("strategy", std::string("ddp"));
  const auto workers = static_cast<std::uint32_t>(settings->workers);
  if (batch_of(measured) > most_images * workers) {
    assign("batch.per_worker", std::int64_t{0});
    assign("batch.global", std::int64_t{most_images} * workers);
  }
  const std::string key = pass_of(measured);
  const auto known = passes_.find(key);
  if (known != passes_.end()) return known->second;
  check_job(measured, zoo_);
  KeptProfile kept = profile_here(measured, zoo_);
  return passes_[key] = {std::move(kept.profile), layout(measured).buckets, compute_threads(measured), kept.when};
}

/// Forward a third of the time, backward evenly over the gradients.
WorkersPass Adviser::stated_pass(const Settings& settings) {
  const std::vector<Range>& buckets = layout(settings).buckets;
  WorkersPass pass{
      strategy::stated_profile(stated_.time, buckets.size()), buckets, compute_threads(settings), {}, true};
  pass.profile.images = stated_.images;
  return pass;
}

double WorkersPass::times() const { return is_stated ? 1 : adviser_fit.pass; }

double Adviser::coding(const Settings& settings, const codec::CodecOptions& codec, const strategy::Layout& layout) {
  const std::string of = text("coding by ", codec.name, ", block ", codec.block, ", bits ", codec.bits, ", fraction ",
                              codec.fraction, ", rank ", codec.rank, ", error feedback ", codec.error_feedback,
                              ", model ", settings->model, ", ", name(layout.type));
  return cost(settings, of, [&] { return predict::coding_cost(codec, layout); });
}

double Adviser::cost(const Settings& settings, const std::string& of, const std::function<double()>& measure) {
  const auto known = costs_.find(of);
  if (known != costs_.end()) return known->second;
  const KeptNumbers kept(settings, of);
  std::optional<Kept> found = kept.read();
  if (found && found->numbers.size() != 1) found.reset();
  if (!found || !found->when.doubt().empty()) {
    const double seconds = measure();
    const Circumstances when = Circumstances::now(others_.share(), 0);
    if (!found || when.doubt().empty() || seconds < found->numbers.front()) {
      found = {{seconds}, when};
      kept.write(*found);
    }
  }
  if (doubt_of_costs_.empty()) doubt_of_costs_ = found->when.doubt();
  return costs_[of] = found->numbers.front();
}

Duration Adviser::optimiser_step(const Settings& settings, optim::OptimiserOptions optimiser,
                                 const strategy::Layout& layout) {
  const std::string of =
      text("a step of ", optimiser.name, ", momentum ", optimiser.momentum, ", lookahead ", optimiser.lookahead_every,
           ", groups ", optimiser.vector_factor != 1 || optimiser.head_factor != 1, ", iterations ",
           optimiser.newton_schulz, ", model ", settings->model, ", ", name(layout.type));
  optimiser.first_layer_steps = 0;
  for (const strategy::Layout::Tensor& tensor : layout.tensors) {
    const auto rows = tensor.shape.size() < 2 ? std::size_t{0} : static_cast<std::size_t>(tensor.shape[0]);
    optimiser.tensors.push_back({tensor.range.begin, tensor.range.end, rows});
  }
  return from_seconds(
      cost(settings, of, [&] { return seconds(predict::optimiser_cost(optimiser, layout.parameters, layout.type)); }));
}

Advice Adviser::measure(const RecipeCell& cell) {
  check_choices(cell.settings);
  check_partition(cell.settings);
  check_route(cell.settings);
  const Settings settings = as_it_runs(cell.settings);
  const strategy::Layout& its_layout = layout(settings);
  const WorkersPass& pass = pass_of_cell(settings);
  const data::Sampler sampler(train_samples_of(settings), sampling_of(settings, 0));
  predict::ProjectedJob job;
  job.info = &strategy_of(settings);
  job.plan = plan_of(settings);
  job.workers = settings->workers;
  job.per_node = settings->per_node;
  job.layout = its_layout;
  const double all_slow = settings->in_virtual_time() ? settings->compute.virtual_slow_all : 1;
  job.profile = strategy::slowed(pass.profile, pass.times() * all_slow);
  job.profile.ready = predict::ready_in(its_layout.buckets, pass.buckets, job.profile.ready);
  job.spread = spread_of(job.profile);
  job.optimise = optimiser_step(settings, job.plan.optimiser, its_layout);
  job.steps = sampler.steps_of_all();
  job.images = sampler.counts_of_all(0);
  job.samples = sampler.samples_of_all();
  job.slow = settings->in_virtual_time() ? settings->compute.virtual_slow : settings->compute.slow;
  job.link = link_.model();
  if (settings->in_virtual_time()) {
    job.link_per_node = settings->simulated.per_node;
    job.node_link = settings->simulated.node_link;
  }
  job.framing_bytes = transport::tcp_framing_bytes;
  job.burst_bytes = link_.burst_bytes;
  job.window_bytes =
      settings->in_virtual_time() ? settings->simulated.window_bytes : transport::LinkOptions{}.unasked_bytes;
  job.loss_scale = settings->compute.precision == "fp16";
  if (job.workers > 1) job.plan.exchange.codec.number_s = coding(settings, job.plan.exchange.codec, its_layout);
  const codec::CodecInfo& codec = codec::find_codec(job.plan.exchange.codec.name);
  return {cell,
          std::string(job.info->name),
          job.workers > 1 ? std::string(codec.name) : "",
          is_exact(settings),
          job.info->agrees,
          sampler.steps(),
          job,
          {}};
}

}  // namespace ripieno::program
