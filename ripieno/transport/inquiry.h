// Asks all ranks whom they wait for, once a rank has waited too long (waits.h):
//
// 1. The rank tells every other whom it waits for, and asks.
// 2. A rank that is asked says whom it waits for: to whoever asks, and to all others too, since their questions may be
//    queued behind a message that it does not take yet. Its runtime answers, whatever its coroutines wait for.
// 3. Once all have answered, or at the end of the grace, a second, who has not answered counts as silent. If there are
//    several, of whom a busy machine may have kept some from answering, the grace is three seconds.
//
// Notes travel as aborts do (Aborts::hear, PeerLink::tell), in a scope of no communicator: so they work over links of
// every kind. Messages: at most 2 (P-1) for each rank, of at most most_reason bytes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/core/runtime.h"
#include "ripieno/transport/waits.h"

namespace ripieno::transport {

/// Used on the runtime's thread alone.
class Inquiry : public std::enable_shared_from_this<Inquiry> {
 public:
  using Found = std::function<void(const Hang&)>;
  /// What it needs of its endpoint, as long as that lives.
  struct Ways {
    std::function<void(int peer, const std::string& note)> tell;
    std::function<std::vector<int>()> awaited;  ///< whom this rank waits for
  };

  Inquiry(Runtime& runtime, int rank, int size, Ways ways);

  /// Calls `found` on the runtime's thread. The grace is shorter if `timeout`, after which this rank has asked, is.
  void ask(Duration timeout, Found found);
  /// A note of a peer, which may say anything.
  void hear(int peer, std::string_view note);

 private:
  struct Said {
    std::vector<int> waits;
    Duration at;
  };

  std::string note(bool asks) const;
  std::vector<Waits> waits() const;
  std::ptrdiff_t silent_culprits() const;
  void wait_for_answers(Duration grace, int time);
  bool all_have_answered() const;
  void conclude();

  Runtime& runtime_;
  const int rank_, size_;
  const Ways ways_;
  std::vector<std::optional<Said>> said_;  ///< by rank
  std::optional<Duration> told_all_;
  std::vector<Found> asking_;
  Duration asked_at_{0};
  Runtime::Timer end_of_grace_{};
};

}  // namespace ripieno::transport
