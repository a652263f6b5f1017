// A backend for PyTorch's process groups (c10d) over Ripieno's transports: shared memory between ranks of one host, TCP
// to the others, as `ripieno train` has. It takes any c10d store and needs no launcher of Ripieno's.
//
// What is asked first begins first. Up to `lanes` operations are in flight at once, each on a channel of its own. The
// thread that waits for one moves the messages; while nobody waits, a thread of the library does.
//
// A collective that fails ends the group on all ranks: whatever waits or comes later fails with the first error, and
// the error of the other ranks says who gave up, and why. So do a lost rank and a collective that takes longer than its
// limit. Ranks that call different things are told what both do; where only the root differs, in the next call that
// needs all ranks, or the one after (root_check.h). Of messages one may fail alone (tagged_messages.h). Arguments that
// fit no operation are refused at once, and end nothing.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ripieno/c10d/bucket_averages.h"
#include "ripieno/c10d/collectives.h"
#include "ripieno/c10d/members.h"
#include "ripieno/c10d/pending_work.h"

namespace ripieno::c10d {

/// "rank 1", or "ranks 1, 2", for errors.
std::string list_of(const std::vector<int>& ranks);

class Backend final : public ::c10d::Backend {
 public:
  struct Options final : ::c10d::Backend::Options {
    /// `name`: under which the backend was registered; operations have it in profiles.
    explicit Options(std::chrono::milliseconds timeout = kBackendDefaultTimeout, const std::string& name = "ripieno");
    bool meets_later = false;  ///< nothing can be asked before the first reconfigure_to(). 2.14: enable_reconfigure
  };

  /// All ranks of the group call it. Errors: meet_by_store() (store_meeting.h).
  Backend(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
          c10::intrusive_ptr<::c10d::Backend::Options> options);
  /// The group of the ranks of a cluster, which they have joined without a store (launch/join.h).
  Backend(transport::Cluster cluster, c10::intrusive_ptr<::c10d::Backend::Options> options);
  /// Ends what is still in flight, with an error.
  ~Backend() override;
  /// The same, where others still know of this object (c10::weak_intrusive_ptr), which keeps the destructor waiting.
  void release_resources() override;

  const std::string getBackendName() const override { return "ripieno"; }
  /// A copy: PyTorch makes a new group's options of it.
  c10::intrusive_ptr<::c10d::Backend::Options> getBackendOptions() override {
    return c10::make_intrusive<::c10d::Backend::Options>(*options_);
  }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  bool supportsSplitting() const override { return true; }
  // What is begun between these has one work. (batch_isend_irecv has a work for each, as with Gloo.)
  void startCoalescing() override;
  c10::intrusive_ptr<::c10d::Work> endCoalescing() override;
  /// Memory that is exchanged from its place.
  bool supportsTensorAlloc(c10::DeviceIndex gpu) override { return gpu < 0 && members_; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override;
  ::c10d::ErrorType getError() override;
  void enableCollectivesTiming() override {}
  /// Ends everything that is in flight, on all ranks.
  void abort() override { end("the group was aborted", true); }
  void shutdown() override { end("the group was shut down", false); }
  /// Ends what is in flight, on all ranks, which are told why; with `always` also tells them where nothing is.
  void end(const std::string& why, bool always);
  /// end(), always, for a process that is about to end: does not wait for peers that still read memory of what was in
  /// flight.
  void end_with_process(const std::string& why);
  c10::intrusive_ptr<::c10d::Backend> split(const c10::intrusive_ptr<::c10d::Store>& store,
                                            const std::vector<int>& ranks,
                                            const c10::intrusive_ptr<::c10d::Backend::Options>& options) override;
  c10::intrusive_ptr<::c10d::Backend> merge(const c10::intrusive_ptr<::c10d::Store>& store,
                                            const c10::intrusive_ptr<::c10d::Backend::Options>& options,
                                            const int& rank, const int& size) override;

  /// This process, as the others name it in reconfigure_to(): always the same.
  const std::string& reconfigure_handle() const { return handle_; }
  /// Forms the group anew of the processes with these handles: each one's place is its rank. All of them call it, with
  /// the same handles and an `id` that was not used before; those of the group's old ranks that are left out find their
  /// connections closed. What is in flight ends with an error. Errors: Error(usage) on wrong handles, and
  /// where a model or an agreement has communicators of its own on the group; Error(mismatch): the id was used before;
  /// Error(peer): some have not come within `timeout`. After an error the group is as it was.
  void reconfigure_to(std::int64_t id, const std::vector<std::string>& handles, std::chrono::milliseconds timeout);
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  bool supportsReconfigure() const override { return true; }
  ::c10d::ReconfigureHandle get_reconfigure_handle() const override { return reconfigure_handle(); }
  /// reconfigure_to(); handles without an order are ordered by the ranks that the processes first had.
  c10::intrusive_ptr<::c10d::Work> reconfigure(const ::c10d::ReconfigureOptions& options) override;
#else
  int getRank() const { return rank_; }
  int getSize() const { return size_; }
#endif

  using Handle = c10::intrusive_ptr<::c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  Handle broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options = {}) override;
  Handle allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options = {}) override;
  Handle allreduce_sparse(Tensors& tensors, const ::c10d::AllreduceOptions& options = {}) override;
  Handle allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& options = {}) override;
  Handle reduce(Tensors& tensors, const ::c10d::ReduceOptions& options = {}) override;
  Handle allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                   const ::c10d::AllgatherOptions& options = {}) override;
  Handle _allgather_base(at::Tensor& output, at::Tensor& input, const ::c10d::AllgatherOptions& options = {}) override;
  Handle allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                             const ::c10d::AllgatherOptions& options = {}) override;
  Handle allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                         const ::c10d::AllgatherOptions& options = {}) override;
  Handle gather(std::vector<Tensors>& outputs, Tensors& inputs, const ::c10d::GatherOptions& options = {}) override;
  Handle scatter(Tensors& outputs, std::vector<Tensors>& inputs, const ::c10d::ScatterOptions& options = {}) override;
  Handle reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                        const ::c10d::ReduceScatterOptions& options = {}) override;
  Handle _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                              const ::c10d::ReduceScatterOptions& options = {}) override;
  Handle reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                         const ::c10d::ReduceScatterOptions& options = {}) override;
  Handle alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                       std::vector<std::int64_t>& input_rows, const ::c10d::AllToAllOptions& options = {}) override;
  Handle alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& options = {}) override;
  Handle send(Tensors& tensors, int peer, int tag) override;
  Handle recv(Tensors& tensors, int peer, int tag) override;
  Handle recvAnysource(Tensors& tensors, int tag) override;
  /// Completes once all collectives that this rank asked for before have.
  Handle barrier(const ::c10d::BarrierOptions& options = {}) override;
  /// Returns once all ranks have come; else throws an error that names those that have not come within the limit: on
  /// rank 0 the first of them, or with `wait_for_all` every one.
  void monitoredBarrier(const ::c10d::BarrierOptions& options, bool wait_for_all) override;
  /// A barrier before what all ranks do together under this name outside of the group's operations. Error(mismatch): a
  /// rank calls another operation, or meets under another name.
  void meet_for(const char* name);

  /// Averages a bucket of gradients over all ranks, in place (bucket_averages.h). `averages` belong to this group
  /// alone.
  Handle average(std::shared_ptr<BucketAverages> averages, int bucket, const at::Tensor& numbers, BucketLayout layout);

  /// How this rank reaches each other rank: "shared memory", "tcp".
  std::vector<std::string> ways() const;
  /// Ends what is in flight, and returns once no callback of a future runs any more. Nothing can be asked after it. Not
  /// from such a callback.
  void leave();

  using Counts = Members::Counts;
  /// What this rank has exchanged so far, with all members that the group has had. On any thread.
  Counts counts();
  /// Its bytes.
  observe::Ledger ledger() { return counts().ledger; }
  /// How often the group has got members anew, by reconfigure.
  std::uint64_t meetings() const;

  using Order = OperationOrder;
  /// All ranks call it together.
  std::shared_ptr<Order> new_order();
  /// all_reduce of one tensor in an order of its own.
  Handle reduce_in(const std::shared_ptr<Order>& order, const at::Tensor& tensor, const ::c10d::ReduceOp& reduction);

  /// For tasks that are not c10d's, which run by `progress()`: a communicator that no operation of the group uses,
  /// and that ends with it. All ranks make the first call together.
  const collective::Communicator& communicator();
  /// The next of its channels, in turn, for operations of which several may be in flight: begun in the same order on
  /// all ranks.
  std::uint32_t next_channel() {
    Members& now = members();
    return now.free_channels + static_cast<std::uint32_t>(now.free_begun++ % Members::lanes);
  }
  Progress& progress() { return members().cluster.progress(); }
  /// The next model that is made parallel over the group, from 1.
  int count_model() { return ++members().cluster.models; }

 private:
  static constexpr std::uint32_t lanes_of_others = 8;
  /// A begun operation, and its end.
  struct Begun {
    Handle work;
    std::shared_ptr<Event> over;
  };
  using Operation = std::function<Task<>(Ground)>;
  /// Returns the sender, if there is one.
  using Message = std::function<Task<int>(TaggedMessages&, Duration limit)>;

  /// Those of now. Error(usage): there are none, or the last have parted.
  Members& members() const;
  void part(const std::string& why);
  static std::string new_handle(int rank, const ::c10d::Backend::Options& options);
  /// For errors.
  std::string name() const;
  Handle begin(Asked asked, Operation operation) { return begin_in(nullptr, std::move(asked), std::move(operation)); }
  /// Error(usage): a tensor that the operation would write has elements that share memory.
  void check_written(const Asked& asked) const;
  /// Without an order: in the group's own.
  Handle begin_in(const std::shared_ptr<Order>& order, Asked asked, Operation operation);
  /// With the lock on the order.
  Begun begin_next(Order& order, const Asked& asked, Operation operation);
  Handle begin_message(Asked asked, Message message);
  Handle submit(const Asked& asked, const c10::intrusive_ptr<PendingWork>& work, std::shared_ptr<Event> over,
                Task<> task);
  Handle receive(::c10d::OpType type, const char* title, Tensors& tensors, int peer, int tag);
  void check_peer(const char* operation, int peer, int tag) const;
  static Task<int> send_one(std::shared_ptr<TaggedMessages> messages, HostTensor host, int peer, int tag,
                            Duration limit);
  static Task<int> receive_one(std::shared_ptr<TaggedMessages> messages, HostTensor host, int peer, int tag,
                               Duration limit);
  static Task<> meet_after(Ground ground, std::vector<std::shared_ptr<Event>> before);
  static Task<> one_by_one(Ground ground, std::vector<Operation> operations);
  /// A collective, once the operation before it on its channel is over.
  Task<> take_turn(c10::intrusive_ptr<PendingWork> work, Asked asked, Operation operation, std::uint32_t channel,
                   std::shared_ptr<Event> before, std::shared_ptr<Event> over);
  Task<> pass_message(c10::intrusive_ptr<PendingWork> work, Asked asked, Message message, std::shared_ptr<Event> over);
  Task<> monitor_others(Tag tag, Duration limit, bool wait_for_all);
  Task<> hear_from(int rank, Tag tag, Duration limit, std::exception_ptr* error);
  Task<> be_monitored(Tag tag, Duration limit);
  static Task<int> wait_for_all(std::vector<Begun> begun);
  Task<> open(std::shared_ptr<Order>* into, std::uint32_t count);
  Task<> copy_counts(Counts* into);
  Task<> finish(std::string why, bool always);
  /// Ends what is in flight and tells all ranks why; with `waits` also waits until it is over.
  Task<> tell_end(std::string why, bool waits);
  void begins();
  void conclude(const c10::intrusive_ptr<PendingWork>& work, Event& over, std::exception_ptr error, int sender = -1);
  /// Ends the group, on all ranks.
  void give_up(const std::exception_ptr& error);
  /// Because of an error, which getError() then tells.
  void fail_all(const std::exception_ptr& error);
  std::exception_ptr too_late(const PendingWork& work, const Asked& asked, const transport::Hang& hang) const;
  std::exception_ptr in_context(const std::exception_ptr& error, const PendingWork& work, const Asked& asked) const;
  /// "ripieno:all_reduce"
  const char* title(const char* operation) const;
  Duration limit_of(std::chrono::milliseconds timeout) const;
  void check_process() const;
  Runtime& runtime() const { return members_->comm.runtime(); }

  const c10::intrusive_ptr<::c10d::Backend::Options> options_;
  const c10::intrusive_ptr<::c10d::Store> store_;  ///< null: joined without one
  const std::string handle_;
  std::shared_ptr<FutureThreads> threads_ = std::make_shared<FutureThreads>();

#ifndef C10D_BACKEND_HAS_RECONFIGURE
  int rank_ = ::c10d::Backend::getRank(),
      size_ = ::c10d::Backend::getSize();  // of now; before PyTorch 2.14 the base keeps the first ones for good, and
                                           // these hide them
#endif
  mutable std::mutex order_;  ///< guards what follows: the order of operations is that of the calls
  std::unique_ptr<Members> members_;
  std::uint64_t meetings_ = 0;  ///< of members, so far
  std::uint64_t claims_ = 0;
  Counts earlier_;  // with members of before
  bool is_parting_ = false;
  std::optional<std::vector<Begun>> coalescing_;

  std::atomic<bool> has_failed_{false};
  const int process_;  ///< the one that made it, and not a fork of that
};

}  // namespace ripieno::c10d
