// The rendezvous of a job that no launcher of ours serves: it is in rank 0's process.
#pragma once

#include <memory>
#include <string>

#include "ripieno/launch/placement.h"
#include "ripieno/rendezvous/meet.h"
#include "ripieno/rendezvous/rendezvous.h"

namespace ripieno::launch {

class OpenRendezvous {
 public:
  /// Listens, and writes the invitation if the others need one. Error(network): it cannot listen there; those of
  /// InvitationPlace::leave().
  OpenRendezvous(Runtime& runtime, const Placement& place, Duration timeout);
  /// Removes the invitation.
  ~OpenRendezvous();
  OpenRendezvous(const OpenRendezvous&) = delete;
  OpenRendezvous& operator=(const OpenRendezvous&) = delete;

  /// As Rendezvous::serve().
  Task<> serve() { return rendezvous_.serve(); }
  void close() { rendezvous_.close(); }
  /// Where rank 0 itself comes to it.
  void invite(rendezvous::Meeting* rank0) const;

 private:
  const std::string token_;
  rendezvous::Rendezvous rendezvous_;
  std::shared_ptr<rendezvous::InvitationPlace> invitation_;
};

}  // namespace ripieno::launch
