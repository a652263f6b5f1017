#include "ripieno/c10d/store_meeting.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <iostream>
#include <numeric>
#include <optional>

#include "ripieno/c10d/backend.h"
#include "ripieno/launch/join.h"
#include "ripieno/rendezvous/invitation.h"
#include "ripieno/transport/shared/hello.h"

namespace ripieno::c10d {
namespace {

constexpr const char* invitation_key = "ripieno/invitation";

using KeyOf = std::function<std::string(int rank)>;

std::string host_key(int rank) { return text("ripieno/host/", rank); }

class StoreInvitation final : public rendezvous::InvitationPlace {
 public:
  explicit StoreInvitation(::c10d::Store& store) : store_(store) {}

  std::string name() const override { return text("the key ", invitation_key, " in the group's store"); }
  void leave(const rendezvous::Invitation& invitation) override { store_.set(invitation_key, to_text(invitation)); }
  std::optional<rendezvous::Invitation> find() const override {
    if (!store_.check({invitation_key})) return std::nullopt;
    return rendezvous::invitation_of(store_.get_to_str(invitation_key), name());
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

double in_seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

/// Waits until all ranks have left their key, or `limit` is over; returns those that have not.
std::vector<int> missing(::c10d::Store& store, const std::vector<int>& ranks, KeyOf key_of,
                         std::chrono::milliseconds limit) {
  std::vector<std::string> keys;
  std::transform(ranks.begin(), ranks.end(), std::back_inserter(keys), key_of);
  try {
    store.wait(keys, limit);
    return {};
  } catch (const std::exception&) {
    std::vector<int> found;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!store.check({keys[i]})) found.push_back(ranks[i]);
    }
    return found;
  }
}

/// Waits for keys of some ranks. Error(peer) names those that have not come in time. Before, the first one that is
/// there says for whom it waits.
void await_keys(::c10d::Store& store, const GroupPlace& place, const std::vector<int>& ranks, KeyOf key_of,
                std::chrono::milliseconds timeout) {
  const auto quiet = std::min(timeout, place.quiet);
  std::vector<int> awaited = missing(store, ranks, key_of, quiet);
  if (awaited.empty()) return;
  if (quiet < timeout) {
    int first = 0;
    while (std::find(awaited.begin(), awaited.end(), first) != awaited.end()) ++first;
    if (place.rank == first) {
      std::cerr << text("ripieno: rank ", place.rank, " of ", place.name, " waits for ", list_of(awaited), " of its ",
                        place.size, ", for up to ", in_seconds(timeout), " s\n");
    }
    awaited = missing(store, awaited, key_of, timeout - quiet);
  }
  if (awaited.empty()) return;
  fail(Loss{awaited.front(), Lost::silent}, "rank ", place.rank, " of ", place.name, ": ", list_of(awaited), " of its ",
       place.size, awaited.size() > 1 ? " have" : " has", " not come within ", in_seconds(timeout), " s");
}

const std::string refusal = "refused: ";

/// Ends the group's meeting, for those too who have come before; they learn of it by is_one_host().
void refuse(::c10d::Store& store, int ranks, const std::string& why) {
  for (int rank = 0; rank < ranks; ++rank) store.set(host_key(rank), refusal + why);  // whichever one waits for
  fail(ErrorKind::usage, why);
}

/// Error(usage): ranks think of groups of different sizes.
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
  refuse(store, std::max(place.size, std::atoi(first.c_str())),
         text(place.name, " has ", own, ", and ", first, ": start all with one world size"));
}

/// That a rank is this process's, while the group meets. Two processes of one rank would wait for others that never
/// come. Error(usage): there is another one, unless it was on this host and has ended.
class Claim {
 public:
  Claim(::c10d::Store& store, const GroupPlace& place) : store_(store), key_(text("ripieno/claim/", place.rank)) {
    std::array<char, 64> host{};
    ::gethostname(host.data(), host.size() - 1);
    const std::string here = text(" on ", host.data(), "\n", transport::host_identity());
    const std::string own = text("process ", ::getpid(), here);
    const std::string first = store.compareSet(key_, std::string(), own);
    if (first == own) return;
    if (first.ends_with(here) && !is_alive(std::atoi(first.c_str() + std::strlen("process ")))) {
      store.set(key_, own);
      return;
    }
    const auto line = [](const std::string& claim) { return claim.substr(0, claim.find('\n')); };
    refuse(store, place.size,
           text("rank ", place.rank, " of ", place.name, " has come twice, as ", line(first), " and as ", line(own),
                ": give each process a rank of its own, and the group a store without keys of an earlier one"));
  }
  ~Claim() {
    try {
      store_.deleteKey(key_);
    } catch (...) {  // not every store can
    }
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  static bool is_alive(int process) { return ::kill(process, 0) == 0 || errno == EPERM; }

  ::c10d::Store& store_;
  const std::string key_;
};

/// Whether all ranks are on this host.
bool is_one_host(::c10d::Store& store, const GroupPlace& place, std::chrono::milliseconds timeout) {
  const std::string here = transport::host_identity();
  store.set(host_key(place.rank), here);
  std::vector<int> ranks(static_cast<std::size_t>(place.size));
  std::iota(ranks.begin(), ranks.end(), 0);
  await_keys(store, place, ranks, host_key, timeout);
  bool is_one = !here.empty();
  for (const int rank : ranks) {
    const std::string host = store.get_to_str(host_key(rank));
    if (host.starts_with(refusal)) fail(ErrorKind::usage, host.substr(refusal.size()));
    is_one = is_one && host == here;
  }
  return is_one;
}

}  // namespace

transport::Cluster meet_by_store(::c10d::Store& store, const GroupPlace& group, std::chrono::milliseconds timeout) {
  check_size(store, group);
  std::optional<Claim> claim;  // PyTorch makes groups of one rank of one name in several processes at once
  if (group.size > 1) claim.emplace(store, group);
  const bool one_host = group.size == 1 || is_one_host(store, group, timeout);
  launch::Placement place = launch::ways_to_peers(one_host);
  place.rank = group.rank;
  place.world_size = group.size;
  place.launcher = "a c10d store";
  place.opens_rendezvous = group.rank == 0;
  if (group.size > 1) {
    if (group.rank > 0)
      await_keys(
          store, group, {0}, [](int) { return std::string(invitation_key); }, timeout);
    place.invitation = std::make_shared<StoreInvitation>(store);
  }
  launch::JoinOptions options;
  options.meeting = std::min(longest_limit, timeout);
  options.timeout = longest_limit;  // operations have limits of their own
  return launch::join(place, options);
}

}  // namespace ripieno::c10d
