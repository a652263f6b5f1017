#include "ripieno/transport/waits.h"

#include <algorithm>
#include <deque>

namespace ripieno::transport {
namespace {

constexpr std::size_t most_named = 8;

/// "2", "2 and 3", "2, 3, 5 and 9 more"
std::string list(const std::vector<int>& ranks) {
  std::string words;
  for (std::size_t i = 0; i < ranks.size() && i < most_named; ++i) {
    const bool is_last = i > 0 && i + 1 == ranks.size();
    words += text(i == 0 ? "" : is_last ? " and " : ", ", ranks[i]);
  }
  if (ranks.size() > most_named) words += text(" and ", ranks.size() - most_named, " more");
  return words;
}

/// The ranks that can be reached along waits, in breadth: each with the one before it on a shortest chain.
class Chains {
 public:
  Chains(int rank, const std::vector<Waits>& waits) : waits_(waits), before_(waits.size(), -1) {
    before_[static_cast<std::size_t>(rank)] = rank;
    reached_.push_back(rank);
    for (std::size_t next = 0; next < reached_.size(); ++next) {
      for (const int other : awaited_by(reached_[next])) {
        if (before_[static_cast<std::size_t>(other)] >= 0) continue;
        before_[static_cast<std::size_t>(other)] = reached_[next];
        reached_.push_back(other);
      }
    }
  }

  const std::vector<int>& reached() const { return reached_; }
  bool answers(int rank) const { return waits_[static_cast<std::size_t>(rank)].has_value(); }
  std::vector<int> awaited_by(int rank) const {
    std::vector<int> ranks = waits_[static_cast<std::size_t>(rank)].value_or(std::vector<int>());
    std::erase_if(ranks, [&](int other) { return other < 0 || other >= size() || other == rank; });
    return ranks;
  }
  /// From the first rank to this one.
  std::vector<int> to(int rank) const {
    std::vector<int> chain{rank};
    while (chain.back() != reached_.front()) chain.push_back(before_[static_cast<std::size_t>(chain.back())]);
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

 private:
  int size() const { return static_cast<int>(waits_.size()); }

  const std::vector<Waits>& waits_;
  std::vector<int> before_, reached_;
};

/// "rank 0 waits for 1, 1 for 2"
std::string describe_chain(const std::vector<int>& chain) {
  std::string words;
  for (std::size_t i = 0; i + 1 < chain.size() && i < most_named; ++i)
    words += text(i == 0 ? "rank " : ", ", chain[i], i == 0 ? " waits for " : " for ", chain[i + 1]);
  if (chain.size() > most_named + 1) words += ", and so on";
  return words;
}

std::string all_that_is_known(const Chains& chains) {
  std::string words;
  for (std::size_t i = 0; i < chains.reached().size() && i < most_named; ++i) {
    const int rank = chains.reached()[i];
    words += text(i == 0 ? "rank " : ", ", rank, i == 0 ? " waits for " : " for ", list(chains.awaited_by(rank)));
  }
  return words;
}

}  // namespace

Hang find_hang(int rank, const std::vector<Waits>& waits) {
  const Chains chains(rank, waits);
  std::vector<int> silent, ends;
  for (const int other : chains.reached()) {
    if (other == rank) continue;
    if (!chains.answers(other)) {
      silent.push_back(other);
    } else if (chains.awaited_by(other).empty()) {
      ends.push_back(other);
    }
  }
  Hang hang{silent.empty() ? ends : silent, {}};
  if (hang.culprits.empty()) {
    hang.known = "they wait for each other: " + all_that_is_known(chains);
    return hang;
  }
  hang.known = text(describe_chain(chains.to(hang.culprits.front())), ", ", list(hang.culprits),
                    silent.empty()             ? " for nobody: busy, or stuck, outside of exchanges"
                    : hang.culprits.size() > 1 ? " do not answer"
                                               : " does not answer");
  std::sort(hang.culprits.begin(), hang.culprits.end());
  return hang;
}

Loss loss_by(const Hang& hang) { return {hang.culprits.empty() ? -1 : hang.culprits.front(), Lost::silent}; }

Error gave_up_because_of(const Hang& hang, int rank, Duration timeout, const std::string& doing) {
  std::string culprits;
  for (const int culprit : hang.culprits) culprits += text(culprits.empty() ? " on rank " : " and rank ", culprit);
  return Error(loss_by(hang), text("rank ", rank, ": gave up", culprits, " after ", seconds(timeout), " s of ", doing,
                                   hang.known.empty() ? "" : ": ", hang.known));
}

}  // namespace ripieno::transport
