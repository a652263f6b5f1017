// A part of a model's parameters, taken in turn so that many passes together look at every number.
#pragma once

#include "ripieno/loop/gradient_buckets.h"

namespace ripieno::loop {

/// A number of a dense tensor on the CPU, as a double; the element is of its storage's order. 0 of other tensors.
double number_in(const torch::Tensor& tensor, std::int64_t element);

/// Where that is: "[14]"; "" in a tensor that is one number.
std::string place_in(const torch::Tensor& tensor, std::int64_t element);

/// Of this processor, as far as results may depend on it, and its number of threads.
std::uint64_t processor_code();

class ParameterWindow {
 public:
  /// 256 windows have all the numbers; fewer where each has 4,096. Tensors that are not dense, on the CPU and of a
  /// floating type have no numbers here.
  ParameterWindow(const std::vector<NamedParameter>& parameters, std::uint64_t turn);

  /// Of all bits.
  std::uint64_t hash() const;
  /// All numbers, as they are now.
  std::vector<double> numbers() const;
  /// The name of the window's `at`-th number: "0.weight[14]".
  std::string name(std::size_t at) const;
  /// "nan in 0.weight[14]": the first that is not finite; "" if all are.
  std::string not_finite() const;

 private:
  /// Numbers of one parameter.
  struct Part {
    NamedParameter parameter;
    std::int64_t begin, end;
    NumberSpan numbers() const;
  };
  std::vector<Part> parts_;
};

}  // namespace ripieno::loop
