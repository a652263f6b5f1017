// An endpoint around another one that makes its links slower, in user space. All messages leave through one card, which
// sends one after the other at a rate; each arrives a delay later, and more can be sent meanwhile, as on a long wire.
// For an emulated cluster on one machine (launch/lab.h), even without network namespaces. The peers' own shaped
// endpoints delay their messages.
#pragma once

#include <memory>

#include "ripieno/transport/endpoint.h"

namespace ripieno::transport {

struct Shape {
  Duration delay{0};  ///< one way
  double mbit_s = 0;  ///< 10^6 bits a second, for everything that this rank sends; 0: no limit
};

/// An abort ends its scope here at once, also for messages in flight; peers are told without delay. There is no engine:
/// every byte goes over the shaped links. A payload is copied, and send() returns when the card has sent it (for a
/// control message, when it has arrived); it uses the inner endpoint's credit only once its delay is over.
std::shared_ptr<Endpoint> shaped(std::shared_ptr<Endpoint> inner, Shape shape);

}  // namespace ripieno::transport
