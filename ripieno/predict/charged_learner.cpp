#include "ripieno/predict/charged_learner.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <numeric>

#include "ripieno/core/async.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::predict {
namespace {

numeric::Numbers numbers_of(const ChargedOptions& options, std::size_t count) {
  return numeric::Numbers(count, options.layout.type, options.numbers ? Memory(own_memory) : Memory(no_memory));
}

}  // namespace

ChargedLearner::ChargedLearner(Runtime& runtime, ChargedOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      gates_(runtime, options_.layout.buckets.size()),
      parameters_(numbers_of(options_, options_.layout.parameters)),
      gradients_(numbers_of(options_, options_.layout.parameters)),
      buffers_(numbers_of(options_, options_.layout.buffers)),
      drawn_(numbers_of(options_, options_.layout.parameters)) {
  require(runtime.is_virtual(), "time is charged where it is virtual only");
  require(options_.profile.ready.size() == options_.layout.buckets.size(), "a profile of ",
          options_.profile.ready.size(), " buckets for a layout of ", options_.layout.buckets.size());
  if (options_.loss_scale) loss_scale_.emplace();
  if (!options_.numbers) return;
  Random random(options_.seed, 0);
  std::vector<float> draws(options_.layout.parameters);
  for (float& draw : draws) draw = static_cast<float>(random.uniform(-1e-3, 1e-3));
  numeric::convert(drawn_.span(), NumberSpan(draws));
}

Task<std::unique_ptr<strategy::Pass>> ChargedLearner::begin(data::BatchId batch, strategy::Weighting) {
  const auto progress = std::make_shared<strategy::PassProgress>(runtime_, options_.layout.buckets.size());
  progress->result.samples = options_.samples;
  progress->result.global_samples = options_.global_samples;
  asio::co_spawn(runtime_.context(), pass(batch, progress), asio::detached);
  co_return std::make_unique<strategy::ProgressPass>(progress);
}

Task<> ChargedLearner::pass(data::BatchId batch, std::shared_ptr<strategy::PassProgress> progress) {
  std::exception_ptr error;
  try {
    co_await charge(batch, progress);
  } catch (...) {
    error = std::current_exception();
  }
  progress->end(error);
}

strategy::ComputeProfile ChargedLearner::profile_of(data::BatchId batch) const {
  const std::size_t step = std::size_t{batch.epoch} * options_.steps + batch.step;
  const double factor = options_.factors.empty() ? 1 : options_.factors[step % options_.factors.size()];
  return strategy::slowed(options_.profile.of(options_.samples), factor);
}

/// Charges as train/torch_learner.cpp does in a replay: forward bucket by bucket, from the first parameters to the
/// last, each once its gate is open.
Task<> ChargedLearner::charge(data::BatchId batch, std::shared_ptr<strategy::PassProgress> progress) {
  const strategy::ComputeProfile profile = profile_of(batch);
  const std::size_t buckets = options_.layout.buckets.size();
  const bool is_first = batch.epoch == 0 && batch.step == 0;
  co_await runtime_.sleep((is_first ? options_.before_all : Duration(0)) + options_.before_pass + profile.read);
  for (std::size_t bucket = buckets; bucket-- > 0;) {
    const Duration asked = runtime_.now();
    co_await gates_.passed(bucket);
    progress->result.waited += runtime_.now() - asked;
    co_await runtime_.sleep(profile.forward / static_cast<std::int64_t>(buckets));
  }
  numeric::convert(gradients_.span(), drawn_.span());
  for (Event& released : progress->released) released.set();
  const Duration turn = runtime_.now();
  std::vector<std::size_t> order(buckets);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return profile.ready[a] < profile.ready[b]; });
  for (const std::size_t bucket : order) {
    co_await runtime_.sleep(std::max(Duration{0}, turn + profile.ready[bucket] - runtime_.now()));
    progress->ready.push(bucket);
  }
  co_await runtime_.sleep(std::max(Duration{0}, turn + profile.backward - runtime_.now()));
}

}  // namespace ripieno::predict
