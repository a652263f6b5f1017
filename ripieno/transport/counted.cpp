#include "ripieno/transport/counted.h"

#include "ripieno/core/range.h"

namespace ripieno::transport {

Task<> CountedEndpoint::run_engine(Collective collective, Message message, NumberSpan numbers, EngineTerms terms) {
  const std::optional<observe::CarriedMessage> began = begin(name(collective), -1, message);
  co_await inner_->run_engine(collective, message, numbers, terms);
  tell(began, numbers.count * size_of(message.type));
  if (engine().front().handed_over) {
    count_handed_over(collective, message, terms.root);
  } else {
    count_two_phase(message);
  }
}

/// The messages of the route two-phase.
void CountedEndpoint::count_two_phase(const Message& message) {
  const auto bytes = [&](int owner) { return chunk(message.count, size(), owner).size() * size_of(message.type); };
  const auto own = bytes(rank());
  const observe::Purpose purpose = message.channel.purpose;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    const auto its = bytes(peer);
    for (int phase = 0; phase < 2; ++phase) {
      const auto out = phase == 0 ? its : own, in = phase == 0 ? own : its;
      if (out > 0) ledger_.sent(purpose, out, inner_->framing_bytes(peer));
      if (in > 0) ledger_.received(purpose, in, inner_->framing_bytes(peer));
    }
  }
}

/// The numbers of this rank that others need, and those that it gets of others, as one message each without framing.
void CountedEndpoint::count_handed_over(Collective collective, const Message& message, int root) {
  if (size() == 1) return;
  const std::uint64_t all = message.count * size_of(message.type),
                      own = chunk(message.count, size(), rank()).size() * size_of(message.type),
                      block = message.count / static_cast<std::uint64_t>(size()) * size_of(message.type);
  const bool is_root = rank() == root;
  std::uint64_t out = 0, in = 0;
  switch (collective) {
    case Collective::all_reduce:
      out = in = all;
      break;
    case Collective::reduce_scatter:
      out = all - own, in = own;
      break;
    case Collective::all_gather:
      out = own, in = all - own;
      break;
    case Collective::broadcast:
      (is_root ? out : in) = all;
      break;
    case Collective::reduce:
      (is_root ? in : out) = all;
      break;
    case Collective::gather:
      (is_root ? in : out) = is_root ? all - own : own;
      break;
    case Collective::scatter:
      (is_root ? out : in) = is_root ? all - own : own;
      break;
    case Collective::all_to_all:
      out = in = block * static_cast<std::uint64_t>(size() - 1);
      break;
  }
  const observe::Purpose purpose = message.channel.purpose;
  if (out > 0) ledger_.sent(purpose, out, 0);
  if (in > 0) ledger_.received(purpose, in, 0);
}

}  // namespace ripieno::transport
