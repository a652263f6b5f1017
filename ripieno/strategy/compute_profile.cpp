#include "ripieno/strategy/compute_profile.h"

#include <algorithm>
#include <string_view>

namespace ripieno::strategy {
namespace {

Duration median(std::vector<Duration> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

Task<ComputeProfile> measure_profile(Learner* learner, observe::Recorder* recorder, Runtime* runtime, int warmup,
                                     int steps) {
  const std::size_t buckets = learner->layout().buckets.size();
  if (learner->steps_per_epoch() == 0)
    fail(ErrorKind::usage, "there is no batch to measure a pass by: data.train_samples is too small for these workers");
  std::vector<Duration> read, forward, backward;
  std::vector<std::vector<Duration>> ready(buckets);
  ComputeProfile profile;
  for (int i = -warmup; i < steps; ++i) {
    Duration forwards{0}, backwards{0}, end{0};
    recorder->on_span = [&](const observe::Span& span) {
      const std::string_view what = span.what;
      if (what == "forward") forwards += span.end - span.begin;
      if (what != "backward") return;
      backwards += span.end - span.begin;
      end = span.end;
    };
    const Duration read_before = recorder->totals()[observe::Stage::read];
    const data::BatchId batch{0, static_cast<std::uint32_t>(i + warmup) % learner->steps_per_epoch()};
    const std::unique_ptr<Pass> pass = co_await learner->begin(batch, unweighted);
    std::vector<Duration> at(buckets);
    while (const auto bucket = co_await pass->next_bucket()) at[*bucket] = runtime->now();
    const PassResult result = co_await pass->finish();
    recorder->on_span = {};
    if (i < 0) continue;
    profile.images = std::max(profile.images, result.samples);
    read.push_back(recorder->totals()[observe::Stage::read] - read_before);
    forward.push_back(forwards);
    backward.push_back(backwards);
    for (std::size_t bucket = 0; bucket < buckets; ++bucket) {  // the last part of a batch announces
      ready[bucket].push_back(std::clamp(backwards - (end - at[bucket]), Duration(0), backwards));
    }
  }
  profile.read = median(read);
  profile.forward = median(forward);
  profile.backward = median(backward);
  for (const auto& times : ready) profile.ready.push_back(std::min(profile.backward, median(times)));
  co_return profile;
}

ComputeProfile ComputeProfile::of(std::uint32_t images_now) const {
  ComputeProfile pass = *this;
  const auto scale = [&](Duration& time) {
    time = time * std::int64_t{images_now} / std::max<std::int64_t>(1, images);
  };
  for (Duration* time : {&pass.read, &pass.forward, &pass.backward}) scale(*time);
  for (Duration& time : pass.ready) scale(time);
  pass.images = images_now;
  return pass;
}

ComputeProfile stated_profile(Duration cost, std::size_t buckets) {
  const auto parts = static_cast<std::int64_t>(buckets);
  ComputeProfile pass;
  pass.forward = cost / 3 / parts * parts;
  pass.backward = cost - pass.forward;
  Duration left = pass.backward;
  for (std::int64_t bucket = 0; bucket < parts; ++bucket) {
    left -= left / (parts - bucket);
    pass.ready.push_back(pass.backward - left);
  }
  return pass;
}

ComputeProfile slowed(ComputeProfile profile, double factor) {
  for (Duration* time : {&profile.read, &profile.forward, &profile.backward})
    *time = from_seconds(seconds(*time) * factor);
  for (Duration& time : profile.ready) time = from_seconds(seconds(time) * factor);
  return profile;
}

std::vector<double> numbers_of(const ComputeProfile& profile) {
  std::vector<double> numbers{static_cast<double>(profile.images), seconds(profile.read), seconds(profile.forward),
                              seconds(profile.backward)};
  for (const Duration time : profile.ready) numbers.push_back(seconds(time));
  return numbers;
}

ComputeProfile profile_of(const std::vector<double>& numbers) {
  require(numbers.size() >= 4, "a profile of ", numbers.size(), " numbers");
  ComputeProfile profile{static_cast<std::uint32_t>(numbers[0]),
                         from_seconds(numbers[1]),
                         from_seconds(numbers[2]),
                         from_seconds(numbers[3]),
                         {}};
  for (std::size_t i = 4; i < numbers.size(); ++i) profile.ready.push_back(from_seconds(numbers[i]));
  return profile;
}

}  // namespace ripieno::strategy
