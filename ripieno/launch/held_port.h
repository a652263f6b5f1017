// A port of this host that nobody else is given while it is held, and that a process of the job can still listen on:
// it is bound, and does not listen. So a port that is told to several processes is not lost to another program before
// the first of them uses it.
#pragma once

#include "ripieno/core/descriptor.h"

namespace ripieno::launch {

class HeldPort {
 public:
  /// Error(network): there is no port left.
  HeldPort();
  int number() const { return number_; }

 private:
  Descriptor socket_;
  int number_ = 0;
};

}  // namespace ripieno::launch
