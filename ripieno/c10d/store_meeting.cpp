#include "ripieno/c10d/store_meeting.h"

#include <algorithm>

#include "ripieno/launch/join.h"
#include "ripieno/membership/invitation.h"
#include "ripieno/transport/shared/hello.h"

namespace ripieno::c10d {
namespace {

constexpr const char* invitation_key = "ripieno/invitation";

std::string host_key(int rank) { return text("ripieno/host/", rank); }

class StoreInvitation final : public membership::InvitationPlace {
 public:
  explicit StoreInvitation(::c10d::Store& store) : store_(store) {}

  std::string name() const override { return text("the key ", invitation_key, " in the group's store"); }
  void leave(const membership::Invitation& invitation) override { store_.set(invitation_key, to_text(invitation)); }
  std::optional<membership::Invitation> find() const override {
    if (!store_.check({invitation_key})) return std::nullopt;
    return membership::invitation_of(store_.get_to_str(invitation_key), name());
  }
  void remove() noexcept override {
    try {
      store_.deleteKey(invitation_key);
    } catch (...) {  // not every store can: the token is of no use any more
    }
  }

 private:
  ::c10d::Store& store_;
};

/// Waits for keys of some ranks. Error(peer) names the ranks whose keys are not there in time.
void await_keys(::c10d::Store& store, const GroupPlace& place, const std::vector<std::string>& keys,
                const std::vector<int>& ranks, std::chrono::milliseconds timeout) {
  try {
    store.wait(keys, timeout);
  } catch (const std::exception& error) {
    std::string missing;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!store.check({keys[i]})) missing += text(missing.empty() ? "" : ", ", ranks[i]);
    }
    if (missing.empty()) throw;
    fail(ErrorKind::peer, "rank ", place.rank, " of ", place.name, ": of its ", place.size, " ranks, ", missing,
         " have not come within ", static_cast<double>(timeout.count()) / 1e3, " s");
  }
}

const std::string refusal = "refused: ";

/// Error(usage): ranks think of groups of different sizes. Those that came first learn of it by is_one_host().
void check_size(::c10d::Store& store, const GroupPlace& place) {
  if (place.rank < 0 || place.rank >= place.size) {
    const std::string why = text("rank ", place.rank, " of ", place.name, " in a world of ", place.size,
                                 ": ranks begin at 0; start all with one world size");
    if (place.rank >= 0) store.set(host_key(place.rank), refusal + why);  // for ranks that know of more
    fail(ErrorKind::usage, why);
  }
  const std::string own = text(place.size, " ranks, says rank ", place.rank);
  const std::string first = store.compareSet("ripieno/size", std::string(), own);
  if (first.substr(0, first.find(',')) == own.substr(0, own.find(','))) return;
  const std::string why = text(place.name, " has ", own, ", and ", first, ": start all with one world size");
  for (int rank = 0; rank < std::max(place.size, std::atoi(first.c_str())); ++rank)  // whichever one waits for
    store.set(host_key(rank), refusal + why);
  fail(ErrorKind::usage, why);
}

/// Whether all ranks are on this host.
bool is_one_host(::c10d::Store& store, const GroupPlace& place, std::chrono::milliseconds timeout) {
  const std::string here = transport::host_identity();
  store.set(host_key(place.rank), here);
  std::vector<std::string> keys;
  std::vector<int> ranks;
  for (int rank = 0; rank < place.size; ++rank) {
    keys.push_back(host_key(rank));
    ranks.push_back(rank);
  }
  await_keys(store, place, keys, ranks, timeout);
  bool is_one = !here.empty();
  for (const std::string& key : keys) {
    const std::string host = store.get_to_str(key);
    if (host.starts_with(refusal)) fail(ErrorKind::usage, host.substr(refusal.size()));
    is_one = is_one && host == here;
  }
  return is_one;
}

}  // namespace

transport::Cluster meet_by_store(::c10d::Store& store, const GroupPlace& group, std::chrono::milliseconds timeout) {
  check_size(store, group);
  const bool one_host = group.size == 1 || is_one_host(store, group, timeout);
  launch::Placement place = launch::ways_to_peers(one_host);
  place.rank = group.rank;
  place.world_size = group.size;
  place.launcher = "a c10d store";
  place.opens_rendezvous = group.rank == 0;
  if (group.size > 1) {
    if (group.rank > 0) await_keys(store, group, {invitation_key}, {0}, timeout);
    place.invitation = std::make_shared<StoreInvitation>(store);
  }
  launch::JoinOptions options;
  options.meeting = std::min(longest_limit, timeout);
  options.timeout = longest_limit;  // operations have limits of their own
  return launch::join(place, options);
}

}  // namespace ripieno::c10d
