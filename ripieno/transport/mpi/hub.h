// Drives all of a rank's links over MPI, which has nothing that wakes a thread: the runtime polls it. Who waits for a
// peer and has a core of its own spins; else the thread sleeps between two looks, ever longer while nothing comes.
#pragma once

#include <vector>

#include "ripieno/core/runtime.h"
#include "ripieno/transport/frame.h"
#include "ripieno/transport/mpi/mpi.h"

namespace ripieno::transport {

class MpiLink;

class MpiHub final : public Poller, public std::enable_shared_from_this<MpiHub> {
 public:
  /// Tags: of headers, and the first of payloads, which are numbered on each link.
  static constexpr int header_tag = 0, first_payload_tag = 1, payload_tags = 30'000;
  /// The most bytes of a payload that travels with its header.
  static constexpr std::size_t inline_bytes = 2048;

  /// What a rank has begun that takes all ranks.
  struct Begun {
    std::uint64_t lanes = 0, collectives = 0;
  };

  /// Waits for something else than the links do.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    virtual bool waits() const = 0;
    /// Called before the thread sleeps: whether to go on waiting.
    virtual void look() = 0;
    /// An MPI call has failed: nothing that is under way will end.
    virtual void break_off(const std::string& why) = 0;
  };

  MpiHub(Runtime& runtime, std::shared_ptr<Mpi> mpi) : runtime_(runtime), mpi_(std::move(mpi)) {}

  /// links[r] leads to rank r; links[rank] is empty. May spin: this host has a core for each of its ranks.
  void start(std::vector<std::shared_ptr<MpiLink>> links, std::shared_ptr<Waiter> waiter, bool may_spin);
  /// Waits, at most so long, until all ranks have closed and nothing of this rank is under way; then MPI can be
  /// stopped. Returns whether that came: a collective in which a rank has not taken part never ends. The links have
  /// ended before. Releases them.
  bool finish(Duration limit);

  Mpi& mpi() { return *mpi_; }
  /// Begin to open a lane, and a collective (mpi.h), which are counted.
  Mpi::Request open_lane(int lane);
  Mpi::Request run(const ripieno_mpi_collective& collective);
  const Begun& begun() const { return begun_; }
  /// Calls back on the runtime's thread once the request is done. `of_all`: it needs all ranks, of which one may be
  /// gone.
  void when_done(Mpi::Request request, Callback done, bool of_all = false) {
    under_way_.push_back({request, std::move(done), of_all});
  }

  /// From now on makes no MPI call, so that MPI does nothing. Whoever waits is told why.
  void give_up(const std::string& why);

  bool poll() override;
  bool may_spin() const override { return may_spin_; }
  bool sleep() override;
  void wake() override;

 private:
  struct Operation {
    Mpi::Request request;
    Callback done;
    bool of_all;
  };

  bool test_all();
  bool take_headers();
  bool take_header(int source);
  bool waits() const;

  Runtime& runtime_;
  const std::shared_ptr<Mpi> mpi_;
  std::vector<std::shared_ptr<MpiLink>> links_;
  std::shared_ptr<Waiter> waiter_;
  std::vector<Operation> under_way_;
  std::array<std::byte, frame_bytes + inline_bytes> header_{};
  bool may_spin_ = false;
  Begun begun_;
  bool broken_ = false;  ///< an MPI call has failed, or may not end: no more are made
  Duration active_{0};   ///< when something last came
  std::optional<Runtime::Timer> alarm_;
};

}  // namespace ripieno::transport
