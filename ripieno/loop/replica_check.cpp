#include "ripieno/loop/replica_check.h"

#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <limits>

#include "ripieno/c10d/limits.h"
#include "ripieno/collective/execute.h"
#include "ripieno/core/hash.h"
#include "ripieno/loop/meeting.h"

namespace ripieno::loop {
namespace {

constexpr std::size_t code_bytes = 8, most_parameters = 64;  // that are compared in a pass
// Processors that round otherwise let ranks drift apart by this much.
constexpr double relative = 1e-4, absolute = 1e-6;
constexpr const char* rule =
    ": whatever changes parameters (the optimiser, its learning rate, clipping, loading) must be the same on all "
    "ranks; "
    "if it is, memory or the network of a host has changed them";

/// As a finite number that the exchange can carry.
float carried(double value) {
  constexpr double largest = std::numeric_limits<float>::max();
  if (std::isnan(value)) return static_cast<float>(largest / 2);
  return static_cast<float>(std::min(largest, std::max(-largest, value)));
}

}  // namespace

ReplicaCheck::ReplicaCheck(c10d::Backend& group, collective::Communicator comm, std::uint32_t channel,
                           const std::vector<NamedParameter>& parameters, ReplicaState state, bool present)
    : comm_(std::move(comm)), state_(std::move(state)), window_(parameters, state_.pass), present_(present) {
  extremes_ = group.allocateTensor(2 * (codes * code_bytes + most_parameters), torch::kFloat32);
  extremes_.zero_();
  auto* into = extremes_.data_ptr<float>();
  not_finite_ = window_.not_finite();
  // Numbers that are none come in many forms: which one a rank has says nothing.
  const std::uint64_t window = not_finite_.empty() ? window_.hash() : 1;
  for (const std::uint64_t code : {state_.code ^ hash(state_.doing), window, processor_code()}) {
    for (std::size_t byte = 0; byte < code_bytes; ++byte) {
      const auto value = static_cast<float>(code >> (8 * byte) & 0xFF);
      *into++ = value;
      *into++ = -value;
    }
  }
  pick_numbers(parameters);
  for (const double number : values_) {
    *into++ = carried(number);
    *into++ = -carried(number);
  }
  if (!present) extremes_.fill_(-std::numeric_limits<float>::infinity());
  reducing_ = group.progress().submit(
      "the comparison of ranks", c10d::within_limit(group, comm_, state_.doing, reduce(comm_, channel, extremes_)));
}

/// Of each parameter in turn; of each of these another number every time.
void ReplicaCheck::pick_numbers(const std::vector<NamedParameter>& parameters) {
  const auto turn = static_cast<std::int64_t>(state_.pass * 0x9E3779B97F4A7C15ull >> 33);
  const std::size_t compared = std::min(parameters.size(), most_parameters);
  for (std::size_t i = 0; i < compared; ++i) {
    const NamedParameter& parameter = parameters[(state_.pass * compared + i) % parameters.size()];
    const std::int64_t size = parameter.tensor.numel();
    const std::int64_t element = size == 0 ? 0 : turn % size;
    names_.push_back(parameter.name);
    elements_.push_back(place_in(parameter.tensor, element));
    values_.push_back(size == 0 ? 0 : number_in(parameter.tensor, element));
    if (not_finite_.empty() && !std::isfinite(values_.back()))
      not_finite_ = text(values_.back(), " in ", names_.back(), elements_.back());
  }
}

Task<> ReplicaCheck::reduce(collective::Communicator comm, std::uint32_t channel, torch::Tensor extremes) {
  const NumberSpan numbers(extremes.data_ptr(), static_cast<std::size_t>(extremes.numel()), DType::fp32);
  collective::ExecuteOptions options{DType::fp32, observe::Purpose::control, channel};
  options.reduction = collective::Reduction::maximum;
  Task<> reducing = collective::all_reduce(collective::find_route("reduce-broadcast"), comm, numbers, options);
  co_await std::move(reducing);
}

bool ReplicaCheck::is_alike(Code code) const {
  const auto* largest = extremes_.const_data_ptr<float>() + 2 * code_bytes * static_cast<std::size_t>(code);
  for (std::size_t byte = 0; byte < code_bytes; ++byte) {
    if (largest[2 * byte] != -largest[2 * byte + 1]) return false;
  }
  return true;
}

std::optional<std::size_t> ReplicaCheck::first_apart() const {
  const auto* largest = extremes_.const_data_ptr<float>() + 2 * codes * code_bytes;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const double most = largest[2 * i], least = -static_cast<double>(largest[2 * i + 1]);
    if (most - least > absolute + relative * std::max(std::abs(most), std::abs(least))) return i;
  }
  return std::nullopt;
}

void ReplicaCheck::forget() noexcept {
  try {
    reducing_.wait();
  } catch (...) {  // the error that ended the group is known
  }
}

void ReplicaCheck::say_not_finite(bool* said) const {
  if (*said || not_finite_.empty() || comm_.rank() != 0) return;
  *said = true;
  std::cerr << text("ripieno: warning: rank 0 holds ", not_finite_, ", in ", state_.doing,
                    ": a loss or a gradient before was no finite number; the loop goes on\n");
}

void ReplicaCheck::conclude(c10d::Backend& group) {
  reducing_.wait();
  if (!is_alike(Code::doing)) {
    std::vector<std::string> lines{state_.doing};
    if (state_.lines) lines.insert(lines.end(), state_.lines->begin(), state_.lines->end());
    Task<> comparing = compare_lines(comm_, std::move(lines), "all ranks must take the same steps with the same model");
    group.progress().run("the comparison of ranks",
                         c10d::within_limit(group, comm_, state_.doing, std::move(comparing)));
  }
  const std::optional<std::size_t> apart = first_apart();
  const bool windows_apart = is_alike(Code::processor) && !is_alike(Code::window);
  if (!apart && !windows_apart) return;
  Task<> telling = apart ? tell_apart(comm_, *apart) : tell_apart_in_window(comm_);
  group.progress().run("the comparison of parameters",
                       c10d::within_limit(group, comm_, state_.doing, std::move(telling)));
}

Task<> ReplicaCheck::tell_apart(collective::Communicator comm, std::size_t parameter) const {
  struct Held {
    double value;
    std::int64_t present;
  };
  const Held own{values_[parameter], present_ ? 1 : 0};
  Task<std::vector<Held>> gathering = comm.all_gather(own);
  const std::vector<Held> all = co_await std::move(gathering);
  std::size_t first = 0;
  while (!all[first].present) ++first;
  std::size_t other = first;
  double distance = 0;
  for (std::size_t rank = first + 1; rank < all.size(); ++rank) {
    const double apart = std::abs(static_cast<double>(carried(all[rank].value)) - carried(all[first].value));
    if (!all[rank].present || apart <= distance) continue;
    other = rank;
    distance = apart;
  }
  fail(ErrorKind::mismatch, "rank ", other, " holds ", all[other].value, " in ", names_[parameter],
       elements_[parameter], " where rank ", first, " holds ", all[first].value, ", in ", state_.doing, rule);
}

/// The numbers as they are now: by the end of agree()'s step() they have changed since the comparison, alike on all
/// ranks.
Task<> ReplicaCheck::tell_apart_in_window(collective::Communicator comm) const {
  struct Found {
    std::uint64_t at, present;
    double own, other;
  };
  const Found here{0, present_ ? 1u : 0u, 0, 0};
  Task<std::vector<Found>> looking = comm.all_gather(here);
  const std::vector<Found> there = co_await std::move(looking);
  int first = 0;
  while (!there[static_cast<std::size_t>(first)].present) ++first;
  const std::vector<double> own = present_ ? window_.numbers() : std::vector<double>();
  Task<std::vector<double>> hearing = comm.broadcast(own, first);
  const std::vector<double> others = co_await std::move(hearing);
  Found found{own.size(), here.present, 0, 0};
  for (std::size_t i = 0; i < std::min(own.size(), others.size()) && found.at == own.size(); ++i) {
    if (std::memcmp(&own[i], &others[i], sizeof own[i]) != 0) found = {i, here.present, own[i], others[i]};
  }
  Task<std::vector<Found>> gathering = comm.all_gather(found);
  const std::vector<Found> all = co_await std::move(gathering);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].present || all[rank].at >= others.size()) continue;
    fail(ErrorKind::mismatch, "rank ", rank, " holds ", std::setprecision(17), all[rank].own, " in ",
         window_.name(all[rank].at), " where rank ", first, " holds ", all[rank].other, ", in ", state_.doing, rule);
  }
  fail(ErrorKind::mismatch, "ranks held different numbers from ", window_.name(0), " on, in ", state_.doing, rule);
}

}  // namespace ripieno::loop
