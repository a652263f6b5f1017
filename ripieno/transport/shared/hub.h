// Drives all of a rank's links through shared memory. The runtime polls it, and a pipe (the bell) wakes it; what peers
// write into the pipe says when and where they rang, from which the runtime learns how long to spin.
#pragma once

#include <asio/posix/stream_descriptor.hpp>
#include <vector>

#include "ripieno/transport/shared/all_reduce.h"

namespace ripieno::transport {

class SharedHub final : public Poller, public std::enable_shared_from_this<SharedHub> {
 public:
  /// Error(network): the kernel cannot give shared memory or a pipe.
  SharedHub(Runtime& runtime, int ranks, std::size_t ring_bytes, std::size_t placed_bytes, std::uint64_t word);

  const std::shared_ptr<SharedOwn>& own() const { return own_; }
  /// The end of the pipe that peers open.
  int bell_fd() const { return bell_out_.get(); }

  /// Begins to drive `shared`, and `all_reduce` if not null. `all` are the endpoint's links of every kind; they show
  /// whether this rank waits.
  void start(std::vector<std::shared_ptr<SharedLink>> shared, std::vector<std::shared_ptr<PeerLink>> all,
             std::shared_ptr<SharedAllReduce> all_reduce, bool may_spin);
  /// Releases the links.
  void close();

  bool poll() override;
  bool may_spin() const override { return may_spin_; }
  bool sleep() override;
  std::optional<WakeUp> wake() override;

 private:
  void listen();

  Runtime& runtime_;
  std::shared_ptr<SharedOwn> own_;
  Descriptor bell_out_;
  asio::posix::stream_descriptor bell_;
  std::array<BellStroke, 4> rung_{};
  int core_ = -1;               ///< where this rank fell asleep
  std::optional<WakeUp> woke_;  ///< how it was woken
  std::vector<std::shared_ptr<SharedLink>> shared_;
  std::vector<std::shared_ptr<PeerLink>> all_;
  std::shared_ptr<SharedAllReduce> all_reduce_;
  bool may_spin_ = false;
};

}  // namespace ripieno::transport
