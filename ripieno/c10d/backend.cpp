#include "ripieno/c10d/backend.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ripieno/c10d/limits.h"
#include "ripieno/c10d/store_meeting.h"
#include "ripieno/c10d/time_limit.h"

namespace ripieno::c10d {
namespace {

using BaseOptions = c10::intrusive_ptr<::c10d::Backend::Options>;

BaseOptions given_or_own(const BaseOptions& given, std::chrono::milliseconds timeout) {
  return given ? given : BaseOptions(c10::make_intrusive<Backend::Options>(timeout));
}

bool meets_later(const ::c10d::Backend::Options& options) {
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  if (options.enable_reconfigure) return true;
#endif
  const auto* own = dynamic_cast<const Backend::Options*>(&options);
  return own && own->meets_later;
}

}  // namespace

Backend::Options::Options(std::chrono::milliseconds timeout, const std::string& name)
    : ::c10d::Backend::Options(name, timeout) {}

Backend::Backend(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<::c10d::Backend::Options> options)
    : ::c10d::Backend(rank, size),
      options_(given_or_own(options, kBackendDefaultTimeout)),
      store_(store),
      handle_(new_handle(rank, *options_)),
      process_(::getpid()) {
  if (!meets_later(*options_))
    members_ = std::make_unique<Members>(meet_by_store(*store_, {rank, size, name()}, options_->timeout),
                                         options_->global_ranks_in_group);
  init();
}

Backend::Backend(transport::Cluster cluster, c10::intrusive_ptr<::c10d::Backend::Options> options)
    : ::c10d::Backend(cluster.endpoint->rank(), cluster.endpoint->size()),
      options_(given_or_own(options, kBackendDefaultTimeout)),
      members_(std::make_unique<Members>(std::move(cluster), options_->global_ranks_in_group)),
      process_(::getpid()) {
  init();
}

Backend::~Backend() {
  if (process_ == ::getpid()) {
    part("it is gone");
    return;
  }
  // In a fork there are no threads to join, and the connections are the other process's.
  static_cast<void>(members_.release());
  static_cast<void>(std::make_unique<std::shared_ptr<FutureThreads>>(std::move(threads_)).release());
}

void Backend::release_resources() {
  if (process_ == ::getpid()) part("it is gone");
}

std::string Backend::name() const {
  return options_->group_name.empty() ? "the group" : text("group ", options_->group_name);
}

Members& Backend::members() const {
  if (members_ && !is_parting_) return *members_;
  fail(ErrorKind::usage, "rank ", rank_, ": the group has no members ", is_parting_ ? "any more" : "yet",
       ": they meet in torch.distributed._reconfigure()");
}

const char* Backend::title(const char* operation) const {
  static std::mutex mutex;
  static std::set<std::string> titles;  // profilers keep pointers to them
  const std::lock_guard lock(mutex);
  return titles.insert(options_->backend + ":" + operation).first->c_str();
}

Duration Backend::limit_of(std::chrono::milliseconds timeout) const {
  if (timeout <= std::chrono::milliseconds(0)) timeout = options_->timeout;
  return std::min(longest_limit, timeout);
}

Backend::Handle Backend::begin_in(const std::shared_ptr<Order>& order, Asked asked, Operation operation) {
  check_written(asked);
  Handle work;
  {
    const std::lock_guard lock(order_);
    work = begin_next(order ? *order : *members().order, asked, std::move(operation)).work;
  }
  if (!asked.is_async) work->wait(kNoTimeout);
  return work;
}

/// A fork has the group's memory and connections, in which it would take its parent's place.
void Backend::check_process() const {
  if (process_ == ::getpid()) return;
  fail(ErrorKind::usage, "process ", ::getpid(), " is a fork of process ", process_, ", which is rank ", rank_,
       " of this group: only that can use it");
}

Backend::Begun Backend::begin_next(Order& order, const Asked& asked, Operation operation) {
  check_process();
  const auto over = std::make_shared<Event>(runtime());
  const std::uint64_t number = order.asked++;
  const auto lane = static_cast<std::uint32_t>(number % order.last.size());
  const std::shared_ptr<Event> before = std::exchange(order.last[lane], over);
  const auto work = c10::make_intrusive<PendingWork>(rank_, asked, number, threads_);
  return {
      submit(asked, work, over, take_turn(work, asked, std::move(operation), order.first_channel + lane, before, over)),
      over};
}

Backend::Handle Backend::average(std::shared_ptr<BucketAverages> averages, int bucket, const at::Tensor& numbers,
                                 BucketLayout layout) {
  const HostTensor host(numbers);
  Asked asked{::c10d::OpType::ALLREDUCE, title("average"), {numbers}, {numbers}};
  const std::lock_guard lock(order_);
  Members& now = members();
  averages->serve(this, meetings_);
  Operation operation = [averages, bucket, host, layout = std::move(layout), before = now.last_average](Ground ground) {
    return averages->average(ground, before, bucket, host, layout);
  };
  Begun begun = begin_next(*now.order, asked, std::move(operation));
  now.last_average = begun.over;
  return begun.work;
}

Backend::Handle Backend::begin_message(Asked asked, Message message) {
  check_process();
  const std::lock_guard lock(order_);
  const std::uint64_t number = members().order->asked;
  const auto over = std::make_shared<Event>(runtime());
  const auto work = c10::make_intrusive<PendingWork>(rank_, asked, number, threads_);
  return submit(asked, work, over, pass_message(work, asked, std::move(message), over));
}

Backend::Handle Backend::submit(const Asked& asked, const c10::intrusive_ptr<PendingWork>& work,
                                std::shared_ptr<Event> over, Task<> task) {
  work->moves_by(asked.is_async ? progress().submit(asked.title, std::move(task))
                                : progress().begin(asked.title, std::move(task)));
  if (coalescing_) {
    std::erase_if(*coalescing_, [](const Begun& one) { return one.work->isCompleted() && !one.work->exception(); });
    coalescing_->push_back({work, std::move(over)});
  }
  return work;
}

Task<> Backend::take_turn(c10::intrusive_ptr<PendingWork> work, Asked asked, Operation operation, std::uint32_t channel,
                          std::shared_ptr<Event> before, std::shared_ptr<Event> over) {
  begins();
  const std::shared_ptr<RootCheck> roots = members_->roots;
  if (asked.root >= 0) roots->begins(asked.title, work->getSequencenumber(), asked.root);
  const std::shared_ptr<Event> compared = asked.root < 0 && !asked.is_apart ? roots->latest() : nullptr;
  std::exception_ptr error;
  const auto expire = [&](const transport::Hang& hang) {
    std::exception_ptr late = too_late(*work, asked, hang);
    fail_all(late);
    return late;
  };
  std::optional<TimeLimit> limit(std::in_place, members_->comm, limit_of(asked.timeout), expire);
  try {
    if (before && !before->is_set()) co_await before->wait();
    Task<> running = operation({members_->comm, channel, members_->tuning});
    co_await std::move(running);
    if (compared) {
      if (!compared->is_set()) co_await compared->wait();
      roots->throw_if_differs();
    }
  } catch (...) {
    error = std::current_exception();
  }
  limit.reset();
  if (error) {
    error = in_context(error, *work, asked);
    fail_all(error);
  }
  conclude(work, *over, error);
}

Task<> Backend::pass_message(c10::intrusive_ptr<PendingWork> work, Asked asked, Message message,
                             std::shared_ptr<Event> over) {
  begins();
  std::exception_ptr error;
  int sender = -1;
  try {
    Task<int> passing = message(*members_->messages, limit_of(asked.timeout));
    sender = co_await std::move(passing);
  } catch (...) {
    error = std::current_exception();
  }
  conclude(work, *over, error, sender);
}

void Backend::conclude(const c10::intrusive_ptr<PendingWork>& work, Event& over, std::exception_ptr error, int sender) {
  over.set();
  work->complete(error, sender);
  Members& now = *members_;
  if (--now.in_flight > 0) return;
  now.busy += runtime().now() - now.busy_since;
  if (now.none_in_flight) now.none_in_flight->set();
}

void Backend::startCoalescing() {
  const std::lock_guard lock(order_);
  coalescing_.emplace();  // an older one is that of a block which an error has ended
}

Backend::Handle Backend::endCoalescing() {
  std::vector<Begun> begun;
  {
    const std::lock_guard lock(order_);
    if (!coalescing_) fail(ErrorKind::usage, "endCoalescing() without startCoalescing()");
    begun = *std::exchange(coalescing_, std::nullopt);
  }
  Asked asked{::c10d::OpType::COALESCED, title("coalesced")};
  for (const Begun& one : begun) {
    const Tensors outputs = one.work->result();
    asked.outputs.insert(asked.outputs.end(), outputs.begin(), outputs.end());
  }
  return begin_message(asked, [begun](TaggedMessages&, Duration) { return wait_for_all(begun); });
}

Task<int> Backend::wait_for_all(std::vector<Begun> begun) {
  for (const Begun& one : begun) co_await one.over->wait();
  for (const Begun& one : begun) {
    if (const std::exception_ptr error = one.work->exception()) std::rethrow_exception(error);
  }
  co_return -1;
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  if (!options.device().is_cpu()) fail(ErrorKind::usage, "the group has memory on the CPU, not on ", options.device());
  const std::shared_ptr<std::byte> memory =
      members().cluster.endpoint->memory(static_cast<std::size_t>(size) * options.dtype().itemsize());
  return at::from_blob(
      memory.get(), {size}, [memory](void*) {}, options);
}

std::uint64_t Backend::getSequenceNumberForGroup() {
  const std::lock_guard lock(order_);
  return members_ ? members_->order->asked : 0;
}

::c10d::ErrorType Backend::getError() {
  return has_failed_ ? ::c10d::ErrorType::COMM_ERROR : ::c10d::ErrorType::SUCCESS;
}

std::uint64_t Backend::meetings() const {
  const std::lock_guard lock(order_);
  return meetings_;
}

Backend::Counts Backend::counts() {
  Counts all = earlier_;
  if (!members_) return all;
  Counts now;
  members_->cluster.progress().run_here("the counts", copy_counts(&now));
  all.ledger += now.ledger;
  all.busy += now.busy;
  return all;
}

std::vector<std::string> Backend::ways() const {
  std::vector<std::string> ways;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) ways.push_back(members().cluster.endpoint->way(peer));
  }
  return ways;
}

const collective::Communicator& Backend::communicator() {
  Members& now = members();
  if (!now.free_comm) {
    constexpr const char* what = "making a communicator";
    progress().run(what, within_limit(*this, now.comm, what, now.comm.duplicate(&now.free_comm)));
    now.free_channels = now.free_comm->take_channels(Members::lanes);
  }
  return *now.free_comm;
}

std::shared_ptr<Backend::Order> Backend::new_order() {
  std::shared_ptr<Order> made;
  constexpr const char* what = "making an order of operations";
  progress().run(what, within_limit(*this, members().comm, what, open(&made, lanes_of_others)));
  return made;
}

Task<> Backend::open(std::shared_ptr<Order>* into, std::uint32_t count) {
  *into = std::make_shared<Order>(members_->comm, count);
  co_return;
}

Task<> Backend::copy_counts(Counts* into) {
  const Members& now = *members_;
  into->ledger = now.cluster.endpoint->ledger();
  into->busy = now.busy + (now.in_flight > 0 ? runtime().now() - now.busy_since : Duration(0));
  co_return;
}

void Backend::begins() {
  if (members_->in_flight++ == 0) members_->busy_since = runtime().now();
}

c10::intrusive_ptr<::c10d::Backend> Backend::split(const c10::intrusive_ptr<::c10d::Store>& store,
                                                   const std::vector<int>& ranks,
                                                   const c10::intrusive_ptr<::c10d::Backend::Options>& options) {
  const auto at = std::find(ranks.begin(), ranks.end(), rank_);
  if (at == ranks.end()) return nullptr;
  const auto own = c10::make_intrusive<Options>(options ? options->timeout : options_->timeout, options_->backend);
  if (options && options != options_) own->group_name = options->group_name;
  for (const int rank : ranks) {
    const std::vector<std::uint64_t>& global = options_->global_ranks_in_group;
    own->global_ranks_in_group.push_back(global.empty() ? static_cast<std::uint64_t>(rank)
                                                        : global.at(static_cast<std::size_t>(rank)));
  }
  return c10::make_intrusive<Backend>(store, static_cast<int>(at - ranks.begin()), static_cast<int>(ranks.size()), own);
}

c10::intrusive_ptr<::c10d::Backend> Backend::merge(const c10::intrusive_ptr<::c10d::Store>& store,
                                                   const c10::intrusive_ptr<::c10d::Backend::Options>& options,
                                                   const int& rank, const int& size) {
  const auto own = c10::make_intrusive<Options>(options ? options->timeout : options_->timeout, options_->backend);
  return c10::make_intrusive<Backend>(store, rank, size, own);
}

}  // namespace ripieno::c10d
