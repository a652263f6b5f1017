#include "ripieno/loop/replica_check.h"

#include <cmath>
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

/// A number of the tensor as a double; the element is of its storage's order.
double element_of(const torch::Tensor& tensor, std::int64_t element) {
  if (!tensor.is_cpu() || !tensor.is_non_overlapping_and_dense()) return 0;
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
    case torch::kFloat32:
      return static_cast<const float*>(data)[element];
    case torch::kFloat64:
      return static_cast<const double*>(data)[element];
    case torch::kBFloat16:
      return static_cast<float>(static_cast<const c10::BFloat16*>(data)[element]);
    case torch::kHalf:
      return static_cast<float>(static_cast<const c10::Half*>(data)[element]);
    default:
      return 0;
  }
}

/// As a finite number that the exchange can carry.
float carried(double value) {
  constexpr double largest = std::numeric_limits<float>::max();
  if (std::isnan(value)) return static_cast<float>(largest / 2);
  return static_cast<float>(std::min(largest, std::max(-largest, value)));
}

}  // namespace

ReplicaCheck::ReplicaCheck(c10d::Backend& group, collective::Communicator comm, std::uint32_t channel,
                           const std::vector<NamedParameter>& parameters, ReplicaState state, bool present)
    : comm_(std::move(comm)), state_(std::move(state)), present_(present) {
  const std::uint64_t code = state_.code ^ hash(state_.doing);
  const auto turn = static_cast<std::int64_t>(state_.pass * 0x9E3779B97F4A7C15ull >> 33);
  extremes_ = group.allocateTensor(2 * (code_bytes + most_parameters), torch::kFloat32);
  extremes_.zero_();
  auto* into = extremes_.data_ptr<float>();
  for (std::size_t byte = 0; byte < code_bytes; ++byte) {
    const auto value = static_cast<float>(code >> (8 * byte) & 0xFF);
    *into++ = value;
    *into++ = -value;
  }
  const std::size_t compared = std::min(parameters.size(), most_parameters);
  for (std::size_t i = 0; i < compared; ++i) {
    const NamedParameter& parameter = parameters[(state_.pass * compared + i) % parameters.size()];
    const std::int64_t size = parameter.tensor.numel();
    names_.push_back(parameter.name);
    const std::int64_t element = size == 0 ? 0 : turn % size;
    elements_.push_back(parameter.tensor.dim() == 0 ? "" : text("[", element, "]"));
    values_.push_back(size == 0 ? 0 : element_of(parameter.tensor, element));
    const float value = carried(values_.back());
    *into++ = value;
    *into++ = -value;
  }
  if (!present) extremes_.fill_(-std::numeric_limits<float>::infinity());
  reducing_ = group.progress().submit(
      "the comparison of ranks", c10d::within_limit(group, comm_, state_.doing, reduce(comm_, channel, extremes_)));
}

Task<> ReplicaCheck::reduce(collective::Communicator comm, std::uint32_t channel, torch::Tensor extremes) {
  const NumberSpan numbers(extremes.data_ptr(), static_cast<std::size_t>(extremes.numel()), DType::fp32);
  collective::ExecuteOptions options{DType::fp32, observe::Purpose::control, channel};
  options.reduction = collective::Reduction::maximum;
  Task<> reducing = collective::all_reduce(collective::find_route("reduce-broadcast"), comm, numbers, options);
  co_await std::move(reducing);
}

bool ReplicaCheck::ranks_do_the_same() const {
  const auto* largest = extremes_.const_data_ptr<float>();
  for (std::size_t byte = 0; byte < code_bytes; ++byte) {
    if (largest[2 * byte] != -largest[2 * byte + 1]) return false;
  }
  return true;
}

std::optional<std::size_t> ReplicaCheck::first_apart() const {
  const auto* largest = extremes_.const_data_ptr<float>() + 2 * code_bytes;
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

void ReplicaCheck::conclude(c10d::Backend& group) {
  reducing_.wait();
  if (!ranks_do_the_same()) {
    std::vector<std::string> lines{state_.doing};
    if (state_.lines) lines.insert(lines.end(), state_.lines->begin(), state_.lines->end());
    Task<> comparing = compare_lines(comm_, std::move(lines), "all ranks must take the same steps with the same model");
    group.progress().run("the comparison of ranks",
                         c10d::within_limit(group, comm_, state_.doing, std::move(comparing)));
  }
  const std::optional<std::size_t> apart = first_apart();
  if (!apart) return;
  group.progress().run("the comparison of parameters",
                       c10d::within_limit(group, comm_, state_.doing, tell_apart(comm_, *apart)));
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
       elements_[parameter], " where rank ", first, " holds ", all[first].value, ", in ", state_.doing,
       ": whatever changes parameters (the optimiser, its learning rate, clipping, loading) must be the same on all "
       "ranks");
}

}  // namespace ripieno::loop
