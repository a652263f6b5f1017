// Decorates any endpoint: makes its links slower, in user space. A message leaves through one card, which sends one
// message after the other at a rate, and arrives a delay later, as over a long wire: while it is on its way more can be
// sent. For an emulated cluster on one machine (launch/lab.h), also where no network namespaces can be had. What peers
// send is delayed by their own.
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"

namespace ripieno::transport {

struct Shape {
  Duration delay{0};  ///< one way
  double mbit_s = 0;  ///< 10^6 bits a second, of all that this rank sends; 0: no limit
};

/// A scope that is aborted ends here at once, also for what is on its way; peers are told without delay.
/// There is no all_reduce() of the engine's own: every byte goes over the shaped links. A payload is copied, and send()
/// returns when the card has sent it (of a control message, when it has arrived); it counts for the credit of the
/// endpoint below only when its delay is over.
std::shared_ptr<Endpoint> shaped(std::shared_ptr<Endpoint> inner, Shape shape);

}  // namespace ripieno::transport
