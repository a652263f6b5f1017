#include "apps/ripieno/replay.h"

#include <functional>
#include <iomanip>
#include <nlohmann/json.hpp>

#include "apps/ripieno/job.h"
#include "apps/ripieno/run_folder.h"
#include "ripieno/collective/execute.h"
#include "ripieno/core/file.h"
#include "ripieno/train/torch_learner.h"

namespace ripieno {
namespace {

constexpr int warmup = 3, steps = 7;
constexpr std::size_t most_numbers = 1 << 16;  // of a profile

/// All that a pass's time and its buckets depend on.
std::string what_is_measured(const Settings& s) {
  const std::string processor = nlohmann::json::parse(environment_json()).value("processor", "");
  const auto workers = s.get<std::uint32_t>("workers");
  const bool shared = strategy_of(s).data == DataUse::global_batches;
  std::string images = std::to_string(shared ? (batch_of(s) + workers - 1) / workers : batch_of(s));
  for (const double share : s.get<std::vector<double>>("batch.shares")) images += text(" : ", share);
  return text(processor, ", model ", s.get<std::string>("model"), ", data ", s.get<std::string>("data.name"), ", images ", images, ", ", s.get<std::string>("train.precision"), " on ", s.get<std::string>("train.device"),
              ", channels last ", s.get<bool>("train.channels_last"), ", threads ", compute_threads(s), ", crops ", s.get<int>("data.crop_padding"), ", flips ", s.get<bool>("data.flip"), ", in ", s.get<int>("train.accumulate"), " parts, buckets of ",
              s.get<double>("exchange.bucket_mb"), " MB");
}

/// Where it is kept; "" where nothing is.
std::filesystem::path place_of(const std::string& what, const Settings& settings) {
  const auto cache = settings.get<std::string>("data.cache");
  if (cache.empty()) return {};
  return std::filesystem::path(cache) / "profiles" / text(std::hex, std::setw(16), std::setfill('0'), std::hash<std::string>()(what), ".json");
}

std::optional<ComputeProfile> kept(const std::filesystem::path& place, const std::string& what) {
  if (place.empty() || !std::filesystem::exists(place)) return {};
  const nlohmann::json json = nlohmann::json::parse(read_file(place), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("of", "") != what || !json.contains("numbers")) return {};
  return profile_of(json["numbers"].get<std::vector<double>>());
}

Task<ComputeProfile> measured(Settings settings, const Zoo* zoo, Runtime* runtime) {
  Recorder scratch(*runtime, nullptr, nullptr);
  const auto learner = make_learner(settings, *zoo, 0, *runtime, scratch, own_memory);
  Task<ComputeProfile> measuring = measure_profile(learner.get(), &scratch, runtime, warmup, steps);
  co_return co_await std::move(measuring);
}

/// Kept from before, or measured now and kept. `runtime`: of the real clock.
Task<ComputeProfile> known_profile(Settings settings, const Zoo* zoo, Runtime* runtime) {
  const std::string what = what_is_measured(settings);
  const std::filesystem::path place = place_of(what, settings);
  if (const auto before = kept(place, what)) co_return *before;
  const ComputeProfile profile = co_await measured(settings, zoo, runtime);
  if (!place.empty()) {
    create_folders(place.parent_path());
    write_file(place, nlohmann::json{{"of", what}, {"numbers", numbers_of(profile)}}.dump(1) + "\n");
  }
  co_return profile;
}

Task<> put(Task<ComputeProfile> making, ComputeProfile* profile) { *profile = co_await std::move(making); }

}  // namespace

ComputeProfile profile_here(const Settings& settings, const Zoo& zoo) {
  const auto runtime = real_runtime(settings.get<std::uint64_t>("seed"));
  ComputeProfile profile;
  runtime->spawn("a profile", put(known_profile(settings, &zoo, runtime.get()), &profile));
  runtime->run();
  return profile;
}

Task<ComputeProfile> common_profile(Settings settings, const Zoo* zoo, Group group) {
  std::vector<double> numbers;
  if (group.rank() == 0) {
    const ComputeProfile profile = co_await known_profile(settings, zoo, &group.runtime());
    numbers = numbers_of(profile);
    require(numbers.size() <= most_numbers, "a profile of ", numbers.size(), " numbers");
  }
  const ExecuteOptions options{DType::fp64, Purpose::control};
  double count = static_cast<double>(numbers.size());
  co_await broadcast(group, FloatSpan(&count, 1, DType::fp64), options);
  if (!(count >= 4 && count <= most_numbers)) fail(ErrorKind::mismatch, "rank ", group.rank(), ": rank 0 sent a profile of ", count, " numbers");
  numbers.resize(static_cast<std::size_t>(count));
  co_await broadcast(group, FloatSpan(std::span<double>(numbers)), options);
  co_return profile_of(numbers);
}

}  // namespace ripieno
