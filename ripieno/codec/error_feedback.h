// Error feedback: what an encoding loses is kept and added to the numbers that are encoded next, so that in the long
// run nothing is lost: after T rounds, the sum of what was decoded plus the residual is the sum of what was to be sent.
//
// 1. x <- x + e
// 2. send C(x)
// 3. e <- x - D(C(x))
//
// The new e is staged, and becomes the residual with commit(): an attempt to send that is dropped changes nothing, and
// one that follows it begins from the same e. Memory: two residuals.
//
// Source: Karimireddy et al., Error feedback fixes SignSGD and other gradient compression schemes, ICML 2019.
#pragma once

#include <string>
#include <vector>

#include "ripieno/codec/codec.h"
#include "ripieno/core/range.h"
#include "ripieno/core/state.h"

namespace ripieno::codec {

class ErrorFeedback {
 public:
  /// Of `elements` numbers, all of them without error at first. Switched off, it encodes and keeps nothing.
  ErrorFeedback(std::size_t elements, DType type, bool on);

  /// Begins an attempt: what was staged and not committed is forgotten.
  void begin() { staged_ranges_.clear(); }
  /// Encodes `numbers`, which are those from element `offset` on, and replaces them by what their receivers will
  /// decode: D(C(x)). Each element once in an attempt. Numbers without data (simulation) are counted: `into` is left
  /// empty.
  void encode(const Codec& codec, std::size_t offset, NumberSpan numbers, Random& random, ByteVector& into);

  /// What was staged since begin() becomes the residual; elsewhere it stays as it is.
  void commit();

  NumberSpan residual() { return NumberSpan(residual_.data(), on_ ? elements_ : 0, type_); }
  /// Shows the residual under the name, where it is kept at all.
  void visit(StateVisitor& visitor, const std::string& name);

 private:
  std::size_t elements_;
  DType type_;
  bool on_;
  std::vector<std::byte> residual_, staged_;  // taken at the first use
  std::vector<Range> staged_ranges_;
};

}  // namespace ripieno::codec
