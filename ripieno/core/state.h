// State for checkpoints: a class that keeps state across steps shows each piece, by name, to a visitor. The same walk
// writes a checkpoint, reads one back, and measures its size.
#pragma once

#include <cstdint>
#include <string_view>

#include "ripieno/core/span.h"

namespace ripieno {

class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  /// Numbers that the visitor reads or overwrites in place. Names are unique within one walk, e.g.
  /// "optimiser.momentum".
  virtual void span(std::string_view name, NumberSpan values) = 0;
  virtual void number(std::string_view name, std::int64_t& value) = 0;
};

}  // namespace ripieno
