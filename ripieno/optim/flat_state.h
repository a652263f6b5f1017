// The state of an optimiser: the number of steps begun, and numbers for each parameter. Internal to optim/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ripieno/core/span.h"
#include "ripieno/core/state.h"

namespace ripieno::optim {

class FlatState {
 public:
  /// One buffer of `elements` zeros for each name ("optimiser.momentum"). Memory is allocated at the first use, so that
  /// a simulation, which never updates, needs none.
  FlatState(std::size_t elements, DType type, const std::vector<const char*>& names,
            const char* step_name = "optimiser.step");

  void begin_step() { ++step_; }
  /// 1 in the first step.
  std::int64_t step() const { return step_; }

  /// Asserts that [offset, offset + weights.count) is inside the elements, has their type, and that a step was begun.
  /// False if the spans have no data.
  bool accepts(std::size_t offset, const NumberSpan& weights, const NumberSpan& gradients) const;

  /// `count` numbers of a buffer from `offset`; T is the type given to the constructor.
  template <class T>
  T* part(std::size_t buffer, std::size_t offset, std::size_t count) {
    return whole(buffer).slice(offset, offset + count).as<T>().data();
  }

  void visit(StateVisitor& visitor);

 private:
  struct Buffer {
    std::string name;
    std::vector<std::byte> bytes;  // empty until first used
  };
  NumberSpan whole(std::size_t buffer);

  std::size_t elements_;
  DType type_;
  const char* step_name_;
  std::int64_t step_ = 0;
  std::vector<Buffer> buffers_;
};

}  // namespace ripieno::optim
