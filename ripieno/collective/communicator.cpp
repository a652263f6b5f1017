#include "ripieno/collective/communicator.h"

#include <algorithm>
#include <numeric>

#include "ripieno/collective/execute.h"

namespace ripieno::collective {
namespace {

// Keys of random numbers, by purpose.
constexpr std::uint64_t for_parts = 0x7061727473;            // "parts"
constexpr std::uint64_t for_renewed = 0x72656E6577656421;    // "renewed!"
constexpr std::uint64_t for_survivors = 0x7375727669766F72;  // "survivor"

bool are_all(const std::vector<int>& members, int size) {
  if (static_cast<int>(members.size()) != size) return false;
  for (int i = 0; i < size; ++i) {
    if (members[static_cast<std::size_t>(i)] != i) return false;
  }
  return true;
}

/// A distinct scope for each number: with so many scopes, collisions do not happen by chance.
transport::Scope scope_under(transport::Scope parent, std::uint64_t what_for, std::uint64_t number) {
  return Random(parent ^ what_for, number).next();
}

/// How many consecutive members of a part are on each of its nodes, if all nodes but the last have the same number;
/// else 1.
int per_node_of(const std::vector<int>& part, int per_node) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const bool goes_on = i > 0 && part[i] / per_node == part[i - 1] / per_node;
    if (!goes_on) sizes.push_back(0);
    ++sizes.back();
  }
  const bool even = std::all_of(sizes.begin(), sizes.end() - 1, [&](std::size_t one) { return one == sizes.front(); });
  return even && sizes.back() <= sizes.front() ? static_cast<int>(sizes.front()) : 1;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<transport::Endpoint> endpoint, int per_node)
    : state_(std::make_shared<State>()), per_node_(per_node) {
  require(per_node >= 1, "a communicator with ", per_node, " members a node: at least 1");
  state_->rank = endpoint->rank();
  state_->size = endpoint->size();
  state_->endpoint = std::move(endpoint);
}

Communicator::Communicator(std::shared_ptr<transport::Endpoint> endpoint, std::vector<int> members,
                           transport::Scope scope, int per_node)
    : Communicator(std::move(endpoint), per_node) {
  const auto me = std::find(members.begin(), members.end(), state_->rank);
  require(me != members.end(), "rank ", state_->rank, " is not a member of its communicator");
  state_->rank = static_cast<int>(me - members.begin());
  state_->size = static_cast<int>(members.size());
  state_->scope = state_->whole = scope;
  if (!are_all(members, state_->endpoint->size())) state_->members = std::move(members);
}

Communicator Communicator::on_nodes(int per_node) const {
  require(per_node >= 1, "a communicator with ", per_node, " members a node: at least 1");
  Communicator other = *this;
  other.per_node_ = per_node;
  return other;
}

std::uint32_t Communicator::take_channels(std::uint32_t count) const {
  const std::uint32_t first = state_->next_channel;
  state_->next_channel += count;
  return first;
}

Communicator::Use Communicator::use(transport::Channel channel) const {
  std::vector<transport::Channel>& in_use = state_->in_use;
  if (std::find(in_use.begin(), in_use.end(), channel) != in_use.end()) {
    fail(ErrorKind::internal, "rank ", state_->endpoint->rank(), ": two operations at once on ",
         observe::name(channel.purpose), " channel ", channel.id,
         " of a communicator: take channels for what goes on at once");
  }
  in_use.push_back(channel);
  return Use(state_, channel);
}

void Communicator::abort(std::exception_ptr error) const { abort(*state_, error); }

void Communicator::abort(State& state, std::exception_ptr error) {
  if (std::exchange(state.aborted, true)) return;
  for (const auto& one : state.taken_along) {
    if (const auto part = one.lock()) abort(*part, error);
  }
  std::vector<int> members = state.members;
  if (members.empty()) {
    members.resize(static_cast<std::size_t>(state.size));
    std::iota(members.begin(), members.end(), 0);
  }
  state.endpoint->abort(state.scope, members, error);
}

Task<std::string> Communicator::broadcast(std::string value, int root, observe::Purpose purpose) const {
  return broadcast_text(*this, std::move(value), root, purpose);
}

Task<std::string> Communicator::broadcast_text(Communicator comm, std::string value, int root,
                                               observe::Purpose purpose) {
  std::vector<char> letters(value.begin(), value.end());
  letters = co_await broadcast_values(comm, std::move(letters), root, purpose);
  co_return std::string(letters.begin(), letters.end());
}

Task<std::vector<std::string>> Communicator::all_gather(std::string value, observe::Purpose purpose) const {
  return gather_texts(*this, std::move(value), purpose);
}

Task<std::vector<std::string>> Communicator::gather_texts(Communicator comm, std::string value,
                                                          observe::Purpose purpose) {
  const std::vector<std::uint64_t> sizes = co_await gather_values<std::uint64_t>(comm, value.size(), purpose);
  const std::size_t longest = *std::max_element(sizes.begin(), sizes.end());
  std::vector<std::string> values(sizes.size());
  if (longest == 0) co_return values;
  std::vector<char> letters(sizes.size() * longest);
  std::copy(value.begin(), value.end(),
            letters.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(comm.rank()) * longest));
  co_await gather_bytes(comm, std::as_writable_bytes(std::span<char>(letters)), purpose);
  for (std::size_t i = 0; i < values.size(); ++i) values[i].assign(letters.data() + i * longest, sizes[i]);
  co_return values;
}

Task<> Communicator::barrier() const { return meet(*this); }

Task<> Communicator::meet(Communicator comm) {
  co_await gather_values<std::uint8_t>(comm, 0, observe::Purpose::control);
}

Task<std::optional<Communicator>> Communicator::split(int colour, int key) const {
  return part_of(*this, colour, key,
                 scope_under(state_->scope, for_parts, ++state_->splits));  // disjoint parts may share a scope
}

Task<std::optional<Communicator>> Communicator::part_of(Communicator comm, int colour, int key,
                                                        transport::Scope scope) {
  struct Wish {
    std::int32_t colour, key;
  };
  const Wish mine{colour, key};
  const std::vector<Wish> wishes = co_await gather_values(comm, mine, observe::Purpose::control);
  if (colour < 0) co_return std::nullopt;
  std::vector<int> part;
  for (int i = 0; i < comm.size(); ++i) {
    if (wishes[static_cast<std::size_t>(i)].colour == colour) part.push_back(i);
  }
  std::stable_sort(part.begin(), part.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  const int per_node = per_node_of(part, comm.per_node_);
  for (int& one : part) one = comm.member(one);
  co_return Communicator(comm.state_->endpoint, std::move(part), scope, per_node);
}

Task<> Communicator::duplicate_of(Communicator comm, std::optional<Communicator>* into) {
  Task<std::optional<Communicator>> splitting = comm.split(0);
  *into = co_await std::move(splitting);
  std::erase_if(comm.state_->taken_along, [](const std::weak_ptr<State>& one) { return one.expired(); });
  comm.takes_along(**into);
}

Task<> Communicator::broadcast_bytes(Communicator comm, Bytes bytes, int root, observe::Purpose purpose) {
  ExecuteOptions options{DType::uint8, purpose};
  options.root = root;
  const NumberSpan numbers(bytes.data(), bytes.size(), DType::uint8);
  return run_collective(default_route(transport::Collective::broadcast), comm, numbers, options);
}

Task<> Communicator::gather_bytes(Communicator comm, Bytes all, observe::Purpose purpose) {
  const ExecuteOptions options{DType::uint8, purpose};
  const NumberSpan numbers(all.data(), all.size(), DType::uint8);
  return run_collective(default_route(transport::Collective::all_gather), comm, numbers, options);
}

Task<> Communicator::reduce_numbers(Communicator comm, NumberSpan numbers, Reduction reduction,
                                    observe::Purpose purpose) {
  ExecuteOptions options{numbers.type, purpose};
  options.reduction = reduction;
  return run_collective(find_route("reduce-broadcast"), comm, numbers, options);
}

Communicator Communicator::with_scope_for(std::uint64_t what_for, std::uint64_t number) const {
  std::vector<int> members;
  for (int i = 0; i < size(); ++i) members.push_back(member(i));
  return {state_->endpoint, std::move(members), scope_under(state_->scope, what_for, number), per_node_};
}

Communicator Communicator::renewed() const {
  Communicator anew = with_scope_for(for_renewed, 0);
  anew.state_->whole = state_->whole;
  return anew;
}

Task<Communicator> Communicator::survivors_of(Communicator comm) {
  const std::vector<int> alive = co_await comm.endpoint().survivors();
  const auto lost = static_cast<std::uint64_t>(comm.endpoint().size()) - alive.size();
  if (lost == 0) co_return comm;
  std::vector<int> members;
  for (int i = 0; i < comm.size(); ++i) {
    if (std::binary_search(alive.begin(), alive.end(), comm.member(i))) members.push_back(comm.member(i));
  }
  // All members compute the same scope, even those that learn of several losses at once.
  const transport::Scope whole = comm.state_->whole;
  Communicator alive_ones(comm.shared_endpoint(), std::move(members), scope_under(whole, for_survivors, lost));
  alive_ones.state_->whole = whole;
  co_return alive_ones;
}

}  // namespace ripieno::collective
