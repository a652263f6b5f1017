#include "apps/ripieno/replay.h"

#include <algorithm>

#include "apps/ripieno/job.h"
#include "ripieno/observe/others.h"
#include "ripieno/report/format.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno::program {
namespace {

constexpr int warmup = 3, steps = 7;
constexpr Duration long_enough = std::chrono::milliseconds(200);  // for the system's count of CPU time
constexpr std::size_t most_rounds = 16;
constexpr std::size_t most_numbers = 1 << 16;  // of a kept profile

/// The sizes of its gradients' buckets, in words.
std::string buckets_of(const Settings& settings) {
  const std::string size = text("buckets of ", static_cast<double>(settings->compute.bucket_bytes) * 1e-6, " MB");
  return size + (divides_buckets(settings) ? ", the first in halves" : "");
}

double pass_s(const strategy::ComputeProfile& profile) {
  return seconds(profile.read + profile.forward + profile.backward);
}

/// The round of the median pass. Rounds are repeated, so that they can be compared, and others' load be seen.
Task<KeptProfile> measured(Settings settings, const model::Zoo* zoo, Runtime* runtime) {
  observe::Recorder scratch(*runtime, nullptr, nullptr);
  const auto learner = make_learner(settings, *zoo, 0, 0, *runtime, scratch, own_memory);
  const observe::OthersWatch others;
  const Duration start = runtime->now();
  std::vector<strategy::ComputeProfile> rounds;
  do {
    Task<strategy::ComputeProfile> measuring =
        strategy::measure_profile(learner.get(), &scratch, runtime, rounds.empty() ? warmup : 0, steps);
    rounds.push_back(co_await std::move(measuring));
  } while (runtime->now() - start < long_enough && rounds.size() < most_rounds);
  std::sort(rounds.begin(), rounds.end(), [](const auto& a, const auto& b) { return pass_s(a) < pass_s(b); });
  const auto at = [&rounds](std::size_t quarter) -> const strategy::ComputeProfile& {
    return rounds[quarter * (rounds.size() - 1) / 4];
  };
  const double variation = (pass_s(at(3)) - pass_s(at(1))) / std::max(pass_s(at(2)), 1e-9);
  co_return KeptProfile{at(2), Circumstances::now(others.share(), variation)};
}

/// The kept profile, or one measured now and then kept. `runtime` must be in real time.
Task<KeptProfile> known_profile(Settings settings, const model::Zoo* zoo, Runtime* runtime) {
  const KeptNumbers kept(settings, text(pass_of(settings), ", ", buckets_of(settings)));
  const std::optional<Kept> before = kept.read();
  const auto as_before = [&before] { return KeptProfile{strategy::profile_of(before->numbers), before->when}; };
  if (before && before->when.doubt().empty()) co_return as_before();
  Task<KeptProfile> measuring = measured(settings, zoo, runtime);
  const KeptProfile fresh = co_await std::move(measuring);
  if (before && !fresh.when.doubt().empty() && pass_s(as_before().profile) < pass_s(fresh.profile))
    co_return as_before();
  kept.write({strategy::numbers_of(fresh.profile), fresh.when});
  co_return fresh;
}

Task<> put(Task<KeptProfile> making, KeptProfile* profile) { *profile = co_await std::move(making); }

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

KeptProfile profile_here(const Settings& settings, const model::Zoo& zoo) {
  const auto runtime = real_runtime(settings->seed);
  KeptProfile profile;
  runtime->spawn("a profile", put(known_profile(settings, &zoo, runtime.get()), &profile));
  runtime->run();
  return profile;
}

Task<KeptProfile> common_profile(Settings settings, const model::Zoo* zoo, collective::Communicator comm) {
  std::vector<double> numbers;
  Circumstances when;
  if (comm.rank() == 0) {
    const KeptProfile kept = co_await known_profile(settings, zoo, &comm.runtime());
    numbers = strategy::numbers_of(kept.profile);
    when = kept.when;
    require(numbers.size() <= most_numbers, "a profile of ", numbers.size(), " numbers");
  }
  numbers = co_await comm.broadcast(numbers);
  if (numbers.size() < 4 || numbers.size() > most_numbers) {
    fail(ErrorKind::mismatch, "rank ", comm.rank(), ": rank 0 sent a profile of ", numbers.size(), " numbers");
  }
  co_return KeptProfile{strategy::profile_of(numbers), when};
}

std::string doubt_of(const KeptProfile& kept) {
  const std::string why = kept.when.doubt();
  if (why.empty()) return "";
  return text("a pass was measured ", kept.when.age(), ", as ", report::format_seconds(pass_s(kept.profile)), ", but ",
              why, ": not believed, but taken; it is measured anew next time");
}

}  // namespace ripieno::program
