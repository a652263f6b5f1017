#include "ripieno/strategy/evaluate.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <map>

#include "ripieno/collective/execute.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::strategy {
namespace {

constexpr std::size_t most_named = 8;

/// "ranks 0 and 2"; long lists are cut.
std::string list_of(const std::vector<int>& ranks) {
  std::string list = ranks.size() > 1 ? "ranks " : "rank ";
  const std::size_t named = std::min(ranks.size(), most_named);
  for (std::size_t i = 0; i < named; ++i) {
    const bool is_last = i + 1 == ranks.size();
    list += text(i == 0 ? "" : is_last ? " and " : ", ", ranks[i]);
  }
  return ranks.size() > named ? text(list, " and ", ranks.size() - named, " more") : list;
}

/// The ranks that hold each hash, those with the commonest last.
std::string who_holds_what(const collective::Communicator& comm, const std::vector<std::uint64_t>& hashes) {
  std::map<std::uint64_t, std::vector<int>> by_hash;
  for (std::size_t i = 0; i < hashes.size(); ++i) by_hash[hashes[i]].push_back(comm.member(static_cast<int>(i)));
  std::vector<std::pair<std::uint64_t, std::vector<int>>> sorted(by_hash.begin(), by_hash.end());
  const auto rarer = [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); };
  std::stable_sort(sorted.begin(), sorted.end(), rarer);
  if (sorted.size() > most_named) sorted.erase(sorted.begin() + most_named - 1, sorted.end() - 1);
  std::string all;
  for (const auto& [hash, ranks] : sorted)
    all += text(all.empty() ? "" : ", ", list_of(ranks), ranks.size() > 1 ? " hold " : " holds ", std::hex,
                std::setw(16), std::setfill('0'), hash);
  return all;
}

}  // namespace

std::vector<Held> held_by(Learner& learner) {
  return {{"parameters", numeric::hash(learner.parameters())},
          {"frozen parameters", numeric::hash(learner.frozen())},
          {"buffers", numeric::hash(learner.buffers())}};
}

Task<> compare_replicas(collective::Communicator comm, std::vector<Held> held, std::string where) {
  if (comm.size() == 1) co_return;
  std::uint64_t own = 0;
  for (const Held& one : held) own = own * 0x9E3779B97F4A7C15ull + one.hash;
  const std::vector<std::uint64_t> all = co_await comm.all_gather(own);
  if (std::count(all.begin(), all.end(), all.front()) == comm.size()) co_return;
  for (const Held& one : held) {
    const std::vector<std::uint64_t> hashes = co_await comm.all_gather(one.hash);
    if (std::count(hashes.begin(), hashes.end(), hashes.front()) == comm.size()) continue;
    fail(ErrorKind::mismatch, "the ranks' ", one.what, " differ ", where, ": ", who_holds_what(comm, hashes),
         ": memory or the network of a host has changed numbers, or processors round in different ways. What differs "
         "is ",
         "not saved: go on from an earlier checkpoint, without that host");
  }
}

Task<> sum_up(collective::Communicator comm, NumberSpan numbers, observe::Purpose purpose) {
  const collective::ExecuteOptions options{numbers.type, purpose};
  co_await collective::all_reduce(collective::find_route("reduce-broadcast"), comm, numbers, options);
}

Task<std::vector<bool>> are_alike(collective::Communicator comm, std::vector<NumberSpan> states,
                                  observe::Purpose purpose) {
  std::vector<bool> alike(states.size(), true);
  if (comm.size() == 1) co_return alike;
  std::vector<std::int64_t> hashes, others;
  for (const NumberSpan state : states) hashes.push_back(static_cast<std::int64_t>(numeric::hash(state)));
  std::vector<std::int64_t> first = hashes;
  co_await collective::broadcast(comm, NumberSpan(first), {DType::int64, purpose});
  for (std::size_t i = 0; i < hashes.size(); ++i) others.push_back(hashes[i] == first[i] ? 0 : 1);
  co_await sum_up(comm, NumberSpan(others), purpose);
  for (std::size_t i = 0; i < alike.size(); ++i) alike[i] = others[i] == 0;
  co_return alike;
}

Task<> average_buffers(collective::Communicator comm, Learner& learner) {
  const NumberSpan buffers = learner.buffers();
  if (comm.size() == 1 || buffers.count == 0) co_return;
  const double own = learner.own_samples();
  double all = own;
  co_await sum_up(comm, NumberSpan(&all, 1, DType::fp64));
  numeric::scale(buffers, all > 0 ? own / all : 1.0 / comm.size());
  co_await sum_up(comm, buffers);
}

Task<Score> evaluate_together(collective::Communicator comm, Learner& learner) {
  const Evaluation mine = co_await learner.evaluate(comm.rank(), comm.size());
  std::array<double, 3> sums{mine.correct, mine.loss, mine.samples};
  co_await sum_up(comm, NumberSpan(std::span<double>(sums)));
  co_return Score{sums[0] / sums[2], sums[1] / sums[2]};
}

}  // namespace ripieno::strategy
