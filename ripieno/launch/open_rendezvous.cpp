#include "ripieno/launch/open_rendezvous.h"

#include "ripieno/core/error.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/interfaces.h"

namespace ripieno::launch {
namespace {

using rendezvous::parse_address, rendezvous::with_port;

bool is_any(const std::string& host) { return host == "0.0.0.0" || host == "::"; }

/// At the job's address, or, where an invitation says the address, at any port. Where workers do not listen on the
/// loopback, the rendezvous listens on all of the host's addresses: the name that the others know may be another one's
/// here (Debian's /etc/hosts has 127.0.1.1 for the host's own).
std::string listens_at(const Placement& place) {
  if (place.rendezvous.empty()) return with_port(place.listen, 0);
  const asio::ip::tcp::endpoint named = rendezvous::resolve(place.rendezvous);  // else the others wait in vain, too
  if (is_any(place.listen)) return with_port(place.listen, named.port());
  const bool is_here = rendezvous::resolve(with_port(place.listen, 0)).address().is_loopback();
  return is_here ? place.rendezvous : with_port(rendezvous::all_addresses(), named.port());
}

}  // namespace

OpenRendezvous::OpenRendezvous(Runtime& runtime, const Placement& place, Duration timeout)
    : token_(place.invitation ? rendezvous::random_token() : place.token),
      rendezvous_(runtime, listens_at(place), token_, place.world_size, timeout) {
  if (!place.invitation) return;
  rendezvous::Invitation invitation{{rendezvous_.address()}, token_};
  const rendezvous::Address here = parse_address(rendezvous_.address());
  if (is_any(here.host)) {
    invitation.addresses.clear();
    for (const rendezvous::Interface& one : rendezvous::interfaces_of_host())
      invitation.addresses.push_back(with_port(one.address, here.port));
    if (invitation.addresses.empty()) invitation.addresses.push_back(with_port("127.0.0.1", here.port));
  }
  place.invitation->leave(invitation);
  invitation_ = place.invitation;
}

OpenRendezvous::~OpenRendezvous() {
  if (invitation_) invitation_->remove();
}

void OpenRendezvous::invite(rendezvous::Meeting* rank0) const {
  const rendezvous::Address here = parse_address(rendezvous_.address());
  rank0->address = here.host == "::"   ? with_port("::1", here.port)
                   : is_any(here.host) ? with_port("127.0.0.1", here.port)
                                       : rendezvous_.address();
  rank0->token = token_;
  rank0->invitation = nullptr;
}

}  // namespace ripieno::launch
