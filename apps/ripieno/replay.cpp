#include "apps/ripieno/replay.h"

#include "apps/ripieno/job.h"
#include "apps/ripieno/kept_numbers.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno::program {
namespace {

constexpr int warmup = 3, steps = 7;
constexpr std::size_t most_numbers = 1 << 16;  // of a kept profile

/// The sizes of its gradients' buckets, in words.
std::string buckets_of(const Settings& settings) {
  const std::string size = text("buckets of ", static_cast<double>(settings->compute.bucket_bytes) * 1e-6, " MB");
  return size + (divides_buckets(settings) ? ", the first in halves" : "");
}

Task<strategy::ComputeProfile> measured(Settings settings, const model::Zoo* zoo, Runtime* runtime) {
  observe::Recorder scratch(*runtime, nullptr, nullptr);
  const auto learner = make_learner(settings, *zoo, 0, 0, *runtime, scratch, own_memory);
  Task<strategy::ComputeProfile> measuring = strategy::measure_profile(learner.get(), &scratch, runtime, warmup, steps);
  co_return co_await std::move(measuring);
}

/// The kept profile, or one measured now and then kept. `runtime` must be in real time.
Task<strategy::ComputeProfile> known_profile(Settings settings, const model::Zoo* zoo, Runtime* runtime) {
  const KeptNumbers kept(settings, text(pass_of(settings), ", ", buckets_of(settings)));
  if (const auto before = kept.read()) co_return strategy::profile_of(*before);
  const strategy::ComputeProfile profile = co_await measured(settings, zoo, runtime);
  kept.write(strategy::numbers_of(profile));
  co_return profile;
}

Task<> put(Task<strategy::ComputeProfile> making, strategy::ComputeProfile* profile) {
  *profile = co_await std::move(making);
}

}  // namespace

std::string pass_of(const Settings& s) {
  const auto workers = s->workers;
  const bool shared = strategy_of(s).data == strategy::DataUse::global_batches;
  std::string images = std::to_string(shared ? (batch_of(s) + workers - 1) / workers : batch_of(s));
  for (const double share : s->sampling.shares) images += text(" : ", share);
  return text("model ", s->model, ", data ", s->data_name, ", images ", images, ", ", s->compute.precision, " on ",
              s->compute.device, ", channels last ", s->compute.channels_last, ", threads ", compute_threads(s),
              ", crops ", s->augmentation.crop_padding, ", flips ", s->augmentation.flip, ", in ",
              s->compute.accumulate, " parts");
}

strategy::ComputeProfile profile_here(const Settings& settings, const model::Zoo& zoo) {
  const auto runtime = real_runtime(settings->seed);
  strategy::ComputeProfile profile;
  runtime->spawn("a profile", put(known_profile(settings, &zoo, runtime.get()), &profile));
  runtime->run();
  return profile;
}

Task<strategy::ComputeProfile> common_profile(Settings settings, const model::Zoo* zoo, collective::Communicator comm) {
  std::vector<double> numbers;
  if (comm.rank() == 0) {
    const strategy::ComputeProfile profile = co_await known_profile(settings, zoo, &comm.runtime());
    numbers = strategy::numbers_of(profile);
    require(numbers.size() <= most_numbers, "a profile of ", numbers.size(), " numbers");
  }
  numbers = co_await comm.broadcast(numbers);
  if (numbers.size() < 4 || numbers.size() > most_numbers) {
    fail(ErrorKind::mismatch, "rank ", comm.rank(), ": rank 0 sent a profile of ", numbers.size(), " numbers");
  }
  co_return strategy::profile_of(numbers);
}

}  // namespace ripieno::program
