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
  /// So long what a rank says last may take to leave it.
  static constexpr Duration telling = std::chrono::milliseconds(100);

  /// A rank's part in what takes all ranks: lanes that it has asked for, collectives that have ended for it.
  struct Part {
    std::uint64_t lanes = 0, collectives = 0;
  };

  /// What a rank says to each of the others in the end.
  enum class Farewell : std::uint8_t {
    ended,   ///< its endpoint has ended: it goes on answering until those of the others have
    gave_up  ///< it makes no MPI call any more, so that the others must not wait for it
  };

  /// Waits for something else than the links do.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    virtual bool waits() const = 0;
    /// Called before the thread sleeps: whether to go on waiting.
    virtual void look() = 0;
    /// MPI is called no more: nothing that is under way will end. Others may still be told.
    virtual void break_off(const std::string& why) = 0;
  };

  MpiHub(Runtime& runtime, std::shared_ptr<Mpi> mpi) : runtime_(runtime), mpi_(std::move(mpi)) {}

  /// links[r] leads to rank r; links[rank] is empty. May spin: this host has a core for each of its ranks.
  void start(std::vector<std::shared_ptr<MpiLink>> links, std::shared_ptr<Waiter> waiter, bool may_spin);
  /// Says farewell, and waits, at most so long, until all ranks have and nothing of this one is under way; then MPI can
  /// be stopped. Returns whether that came: a collective in which a rank has not taken part never ends. The links have
  /// ended before. Releases them.
  bool finish(Duration limit);

  Mpi& mpi() { return *mpi_; }
  Part& part() { return part_; }
  /// Calls back on the runtime's thread once the request is done. `of_all`: it needs all ranks, of which one may be
  /// gone.
  void when_done(Mpi::Request request, Callback done, bool of_all = false) {
    under_way_.push_back({request, std::move(done), of_all});
  }

  /// Tells whoever waits why, and other ranks as far as MPI still does. From then on it makes no MPI call, so that MPI
  /// does nothing.
  void give_up(const std::string& why);
  bool has_given_up() const { return broken_; }

  bool poll() override;
  bool may_spin() const override { return may_spin_; }
  bool sleep() override;
  std::optional<WakeUp> wake() override;

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
  void say(Farewell farewell);

  Runtime& runtime_;
  const std::shared_ptr<Mpi> mpi_;
  std::vector<std::shared_ptr<MpiLink>> links_;
  std::shared_ptr<Waiter> waiter_;
  std::vector<Operation> under_way_;
  std::array<std::byte, frame_bytes + inline_bytes> header_{};
  bool may_spin_ = false;
  Part part_;
  bool gives_up_ = false;
  bool broken_ = false;  ///< an MPI call has failed, or may not end: no more are made
  Duration active_{0};   ///< when something last came
  std::optional<Runtime::Timer> alarm_;
};

}  // namespace ripieno::transport
