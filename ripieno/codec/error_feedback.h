// Error feedback: what an encoding loses is kept and added to the numbers that are encoded next. So nothing is lost in
// the long run: after T rounds, the sum of the decoded numbers plus the residual is the sum of the numbers to send.
//
// 1. x <- x + e
// 2. send C(x)
// 3. e <- x - D(C(x))
//
// The new e is staged, and becomes the residual with commit(): a dropped attempt changes nothing, and the next one
// begins from the same e. Memory: two residuals.
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
  /// For `elements` numbers, with residuals of 0 at first. If not `on`, it encodes without keeping residuals.
  ErrorFeedback(std::size_t elements, DType type, bool on);

  /// Begins an attempt and drops staged residuals that were not committed.
  void begin() { staged_ranges_.clear(); }
  /// Encodes `numbers`, the elements from `offset` on, and replaces them by what receivers will decode: D(C(x)). Each
  /// element at most once in an attempt. Numbers without data (simulation) leave `into` empty.
  void encode(const Codec& codec, std::size_t offset, NumberSpan numbers, Random& random, ByteVector& into);

  /// Residuals staged since begin() become the residual; other elements keep theirs.
  void commit();

  NumberSpan residual() { return NumberSpan(residual_.data(), on_ ? elements_ : 0, type_); }
  /// Shows the residual under the name, if one is kept.
  void visit(StateVisitor& visitor, const std::string& name);

 private:
  std::size_t elements_;
  DType type_;
  bool on_;
  std::vector<std::byte> residual_, staged_;  // allocated at the first use
  std::vector<Range> staged_ranges_;
};

}  // namespace ripieno::codec
