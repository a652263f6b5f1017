// Notices ranks that have parted: that are in different backward passes, train different parameters, or hold different
// weights.
//
// Each pass (of agree(), with strategies by which all ranks hold the same weights, each exchange) begins with one
// all-reduce (maximum) of 704 bytes, beside the computation:
// - a code of what the rank does and which parameters it trains;
// - a number of each parameter, another one in each pass; of a model with more than 64 parameters, of 64 of them in
//   turn. It shows at once what changes many numbers;
// - a hash of a window of the parameters, the next one in each pass: within 256 passes it shows each bit of each number
//   (windows of at least 4,096 numbers; where that is more than 1/256 of the model, sooner);
// - a code of the processor and its threads. Where ranks differ in these, they may round in different ways: then
// windows
//   are not compared, and numbers only to 1e-4.
// All also with the opposite sign. Where maximum and minimum are apart, all ranks see it, and ask each other who holds
// what. (Its size is the same whatever a rank trains, or it could not tell.) Parameters on other devices than the CPU
// are not looked at.
#pragma once

#include "ripieno/loop/gradient_buckets.h"
#include "ripieno/loop/parameter_window.h"

namespace ripieno::loop {

/// What must be the same on all ranks in a backward pass.
struct ReplicaState {
  std::uint64_t pass = 0;  ///< counted by one; picks the numbers
  std::string doing;       ///< "backward pass 3 of model 1", or "mean() after ..", which has no lines
  std::shared_ptr<const std::vector<std::string>>
      lines;               ///< a line for each parameter: name, shape, type, trained or not
  std::uint64_t code = 0;  ///< a hash of the lines
};

class ReplicaCheck {
 public:
  /// Begins the all-reduce. `present` is false on a rank that only completes other ranks' exchanges; it contributes
  /// nothing.
  ReplicaCheck(c10d::Backend& group, collective::Communicator comm, std::uint32_t channel,
               const std::vector<NamedParameter>& parameters, ReplicaState state, bool present = true);

  /// After the end of the group: waits for it, and for no error.
  void forget() noexcept;
  bool is_complete() const { return reducing_.test(); }
  /// Waits for it. Error(mismatch), on all ranks: the first thing in which a rank differs from another, with both
  /// values.
  void conclude(c10d::Backend& group);
  /// Where a number that was looked at is not finite: rank 0 says so on standard error, unless it has `said` so before.
  /// That is a result of the training, and ends nothing.
  void say_not_finite(bool* said) const;

 private:
  /// The codes that ranks compare, in the order of the exchange.
  enum class Code : std::uint8_t { doing, window, processor };
  static constexpr std::size_t codes = 3;

  static Task<> reduce(collective::Communicator comm, std::uint32_t channel, torch::Tensor extremes);
  void pick_numbers(const std::vector<NamedParameter>& parameters);
  bool is_alike(Code code) const;
  /// The first parameter of which ranks hold different numbers.
  std::optional<std::size_t> first_apart() const;
  Task<> tell_apart(collective::Communicator comm, std::size_t parameter) const;
  Task<> tell_apart_in_window(collective::Communicator comm) const;

  collective::Communicator comm_;
  ReplicaState state_;
  std::vector<std::string> names_;
  std::vector<std::string> elements_;  // which one of each parameter: "[14]"; none of a tensor that is one number
  std::vector<double> values_;
  ParameterWindow window_;
  std::string not_finite_;  // "nan in 0.weight[14]", or ""
  bool present_;
  torch::Tensor extremes_;  // each number, then its opposite
  ripieno::Work reducing_;
};

}  // namespace ripieno::loop
