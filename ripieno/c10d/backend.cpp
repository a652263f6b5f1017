#include "ripieno/c10d/backend.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "ripieno/c10d/store_meeting.h"

namespace ripieno::c10d {
namespace {

/// The links that exchanges by messages are cut for (collective/tune.h): 10 Gb/s. Nothing is measured, which would take
/// every new group 0.1 s.
constexpr transport::LinkModel usual_link{std::chrono::microseconds(25), Duration(800)};
constexpr std::uint64_t usual_bytes = 25'000'000;  // a bucket of DistributedDataParallel

using BaseOptions = c10::intrusive_ptr<::c10d::Backend::Options>;

BaseOptions given_or_own(const BaseOptions& given, std::chrono::milliseconds timeout) {
  return given ? given : BaseOptions(c10::make_intrusive<Backend::Options>(timeout));
}

}  // namespace

Backend::Options::Options(std::chrono::milliseconds timeout, const std::string& name)
    : ::c10d::Backend::Options(name, timeout) {}

Backend::Backend(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<::c10d::Backend::Options> options)
    : ::c10d::Backend(rank, size), options_(given_or_own(options, kBackendDefaultTimeout)), process_(::getpid()) {
  GroupPlace place{rank, size};
  if (!options_->group_name.empty()) place.name = text("group ", options_->group_name);
  cluster_ = meet_by_store(*store, place, options_->timeout);
  start();
}

Backend::Backend(transport::Cluster cluster, c10::intrusive_ptr<::c10d::Backend::Options> options)
    : ::c10d::Backend(cluster.endpoint->rank(), cluster.endpoint->size()),
      options_(given_or_own(options, kBackendDefaultTimeout)),
      cluster_(std::move(cluster)),
      process_(::getpid()) {
  start();
}

void Backend::start() {
  comm_.emplace(cluster_.endpoint);
  own_order_ = std::make_shared<Order>(*comm_, lanes);
  messages_ = std::make_shared<TaggedMessages>(cluster_.endpoint);
  tuning_ = std::make_shared<const collective::Tuning>(
      size_ > 1 ? collective::tune(comm_->world(), usual_bytes, usual_link) : collective::Tuning{});
  cluster_.progress();
  init();
}

Backend::~Backend() {
  try {
    if (process_ != ::getpid()) {
      leave_as_it_is();
      return;
    }
    end("it is gone", false);
    cluster_.progress().run("what it listens for", messages_->close());
  } catch (...) {  // the runtime is broken: nothing is left to end
  }
}

/// In a fork there are no threads to join, and the connections are the other process's.
void Backend::leave_as_it_is() {
  static_cast<void>(std::make_unique<transport::Cluster>(std::move(cluster_)).release());
  static_cast<void>(std::make_unique<std::shared_ptr<FutureThreads>>(std::move(threads_)).release());
}

const char* Backend::title(const char* operation) const {
  static std::mutex mutex;
  static std::set<std::string> titles;  // profilers keep pointers to them
  const std::lock_guard lock(mutex);
  return titles.insert(text(options_->backend, ":", operation)).first->c_str();
}

Duration Backend::limit_of(std::chrono::milliseconds timeout) const {
  if (timeout <= std::chrono::milliseconds(0)) timeout = options_->timeout;
  return std::min(longest_limit, timeout);
}

Backend::Handle Backend::begin_in(const std::shared_ptr<Order>& order, Asked asked, Operation operation) {
  const auto over = std::make_shared<Event>(runtime());
  c10::intrusive_ptr<PendingWork> work;
  {
    const std::lock_guard lock(order_);
    const std::uint64_t number = order->asked++;
    const auto lane = static_cast<std::uint32_t>(number % order->last.size());
    const std::shared_ptr<Event> before = std::exchange(order->last[lane], over);
    work = c10::make_intrusive<PendingWork>(rank_, asked, number, threads_);
    submit(asked, work, over, take_turn(work, asked, std::move(operation), order->first_channel + lane, before, over));
  }
  if (!asked.is_async) work->wait(kNoTimeout);
  return work;
}

Backend::Handle Backend::average(std::shared_ptr<BucketAverages> averages, int bucket, const at::Tensor& numbers,
                                 Shapes shapes) {
  const HostTensor host(numbers);
  averages->serve(this);
  Asked asked{::c10d::OpType::ALLREDUCE, title("average"), {numbers}, {numbers}};
  Operation operation = [averages, bucket, host, shapes = std::move(shapes)](Ground ground) {
    return averages->average(ground.comm, bucket, host, shapes);
  };
  const auto over = std::make_shared<Event>(runtime());
  const std::lock_guard lock(order_);
  const std::shared_ptr<Event> before = std::exchange(last_average_, over);
  const auto work = c10::make_intrusive<PendingWork>(rank_, asked, own_order_->asked++, threads_);
  return submit(asked, work, over, take_turn(work, asked, std::move(operation), 0, before, over));
}

Backend::Handle Backend::begin_message(Asked asked, Message message) {
  const auto over = std::make_shared<Event>(runtime());
  const std::lock_guard lock(order_);
  const auto work = c10::make_intrusive<PendingWork>(rank_, asked, own_order_->asked, threads_);
  return submit(asked, work, over, pass_message(work, asked, std::move(message), over));
}

Backend::Handle Backend::submit(const Asked& asked, const c10::intrusive_ptr<PendingWork>& work,
                                std::shared_ptr<Event> over, Task<> task) {
  Progress& progress = cluster_.progress();
  work->moves_by(asked.is_async ? progress.submit(asked.title, std::move(task))
                                : progress.begin(asked.title, std::move(task)));
  if (coalescing_) coalescing_->push_back({work, std::move(over)});
  return work;
}

Task<> Backend::take_turn(c10::intrusive_ptr<PendingWork> work, Asked asked, Operation operation, std::uint32_t channel,
                          std::shared_ptr<Event> before, std::shared_ptr<Event> over) {
  begins();
  std::exception_ptr error;
  const auto expire = [&] { give_up(too_late(*work, asked)); };
  const Runtime::Timer timer = runtime().call_at(runtime().now() + limit_of(asked.timeout), expire);
  try {
    if (before && !before->is_set()) co_await before->wait();
    Task<> running = operation({*comm_, channel, tuning_});
    co_await std::move(running);
  } catch (...) {
    error = std::current_exception();
  }
  runtime().cancel(timer);
  if (error) {
    tell_launcher(error);
    give_up(error);
  }
  conclude(work, *over, error);
}

Task<> Backend::pass_message(c10::intrusive_ptr<PendingWork> work, Asked asked, Message message,
                             std::shared_ptr<Event> over) {
  begins();
  std::exception_ptr error;
  int sender = -1;
  try {
    Task<int> passing = message(*messages_, limit_of(asked.timeout));
    sender = co_await std::move(passing);
  } catch (...) {
    error = std::current_exception();
  }
  conclude(work, *over, error, sender);
}

void Backend::conclude(const c10::intrusive_ptr<PendingWork>& work, Event& over, std::exception_ptr error, int sender) {
  over.set();
  work->complete(error, sender);
  if (--in_flight_ > 0) return;
  busy_ += runtime().now() - busy_since_;
  if (none_in_flight_) none_in_flight_->set();
}

std::exception_ptr Backend::too_late(const PendingWork& work, const Asked& asked) const {
  std::string what;
  for (const at::Tensor& tensor : asked.inputs.empty() ? asked.outputs : asked.inputs)
    what += text(what.empty() ? " of " : ", ", tensor.toString(), tensor.sizes());
  const std::vector<int> awaited = comm_->endpoint().awaited();
  return std::make_exception_ptr(
      Error(ErrorKind::peer, text("rank ", rank_, ": ", asked.title, " number ", work.getSequencenumber(), what,
                                  " has passed its timeout of ", seconds(limit_of(asked.timeout)), " s",
                                  awaited.empty() ? std::string() : text(": it waits for ", list_of(awaited)))));
}

void Backend::give_up(std::exception_ptr error) {
  has_failed_ = true;
  comm_->abort(error);
  messages_->abort(error);
}

/// If this process ends because of a peer, that one is the cause.
void Backend::tell_launcher(const std::exception_ptr& error) {
  if (!cluster_.on_peer_error) return;
  try {
    std::rethrow_exception(error);
  } catch (const Error& peer) {
    if (peer.kind() == ErrorKind::peer) cluster_.on_peer_error(peer);
  } catch (...) {  // another kind is this rank's own
  }
}

Task<> Backend::finish(std::string why, bool always) {
  if (in_flight_ == 0 && !always) co_return;
  give_up(std::make_exception_ptr(Error(ErrorKind::peer, text("rank ", rank_, ": the group has ended: ", why))));
  if (in_flight_ == 0) co_return;
  if (!none_in_flight_ || none_in_flight_->is_set()) none_in_flight_ = std::make_shared<Event>(runtime());
  const std::shared_ptr<Event> none = none_in_flight_;
  co_await none->wait();
}

void Backend::end(const std::string& why, bool always) {
  cluster_.progress().run("the group's end", finish(why, always));
}

void Backend::leave() {
  if (process_ != ::getpid()) return;
  end("the process ends", false);
  threads_->close();
}

void Backend::startCoalescing() {
  const std::lock_guard lock(order_);
  if (coalescing_) fail(ErrorKind::usage, "startCoalescing() again before endCoalescing()");
  coalescing_.emplace();
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
      cluster_.endpoint->memory(static_cast<std::size_t>(size) * options.dtype().itemsize());
  return at::from_blob(
      memory.get(), {size}, [memory](void*) {}, options);
}

std::uint64_t Backend::getSequenceNumberForGroup() {
  const std::lock_guard lock(order_);
  return own_order_->asked;
}

::c10d::ErrorType Backend::getError() {
  return has_failed_ ? ::c10d::ErrorType::COMM_ERROR : ::c10d::ErrorType::SUCCESS;
}

Backend::Counts Backend::counts() {
  Counts copy;
  cluster_.progress().run_here("the counts", copy_counts(&copy));
  return copy;
}

std::vector<std::string> Backend::ways() const {
  std::vector<std::string> ways;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) ways.push_back(cluster_.endpoint->way(peer));
  }
  return ways;
}

const collective::Communicator& Backend::communicator() {
  if (!free_comm_) {
    cluster_.progress().run("a communicator", split_off(*comm_, &free_comm_));
    comm_->takes_along(*free_comm_);
    free_channels_ = free_comm_->take_channels(lanes);
  }
  return *free_comm_;
}

std::shared_ptr<Backend::Order> Backend::new_order() {
  std::shared_ptr<Order> made;
  cluster_.progress().run("an order of operations", open(&made, lanes_of_others));
  return made;
}

Task<> Backend::open(std::shared_ptr<Order>* into, std::uint32_t count) {
  *into = std::make_shared<Order>(*comm_, count);
  co_return;
}

Task<> Backend::split_off(collective::Communicator from, std::optional<collective::Communicator>* into) {
  Task<std::optional<collective::Communicator>> splitting = from.split(0, from.rank());
  *into = co_await std::move(splitting);
}

Task<> Backend::copy_counts(Counts* into) {
  into->ledger = cluster_.endpoint->ledger();
  into->busy = busy_ + (in_flight_ > 0 ? runtime().now() - busy_since_ : Duration(0));
  co_return;
}

void Backend::begins() {
  if (in_flight_++ == 0) busy_since_ = runtime().now();
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
