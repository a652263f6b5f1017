#include "ripieno/c10d/bucket_averages.h"

#include <algorithm>
#include <numeric>

#include "ripieno/collective/two_phase.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::c10d {
namespace {

/// A bucket as a slot, with its matrices.
collective::Slot slot_of(std::size_t elements, const Shapes& shapes) {
  collective::Slot slot{elements};
  std::size_t begin = 0;
  for (const std::vector<std::int64_t>& shape : shapes) {
    const auto size =
        static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
    const std::size_t end = begin + size;
    if (shape.size() >= 2 && size > 0) {
      const auto rows = static_cast<std::size_t>(shape[0]);
      slot.matrices.push_back({{begin, end}, rows, size / rows});
    }
    begin = end;
  }
  if (begin > elements) fail(ErrorKind::usage, "a bucket of ", elements, " numbers with gradients of ", begin);
  return slot;
}

/// As strategies choose it (strategy/registry.h): in place through shared memory, for codecs that can; else the ring.
std::string route_for(const collective::Communicator& comm, codec::CodecKind kind, DType type) {
  const bool averages_numbers = kind == codec::CodecKind::wire || kind == codec::CodecKind::low_rank;
  const std::string_view in_place = collective::two_phase::name;
  const bool has_it = comm.find_engine(in_place, transport::Collective::all_reduce, type);
  return averages_numbers && has_it ? std::string(in_place) : "ring";
}

}  // namespace

BucketAverages::BucketAverages(codec::CodecOptions options) : options_(std::move(options)) {
  codec::check_codec(options_);
}

void BucketAverages::serve(const void* group, std::uint64_t meetings) {
  const void* first = nullptr;
  if (!group_.compare_exchange_strong(first, group) && first != group)
    fail(ErrorKind::usage, "a hook with codec ", options_.name, " in two process groups: make one for each");
  const std::uint64_t before = std::exchange(meetings_, meetings);
  if (before == meetings) return;
  buckets_.clear();
  if (before != 0) waiting_.clear();
}

Task<> BucketAverages::prepare(Ground ground, int index, Bucket* bucket, std::size_t elements) {
  collective::AveragerOptions options;
  options.route = route_for(ground.comm, codec::find_codec(options_.name).kind, bucket->type);
  options.codec = options_;
  bucket->averager = collective::make_averager(options, {slot_of(elements, bucket->layout.shapes)}, bucket->type);
  const auto kept = std::find_if(waiting_.begin(), waiting_.end(), [&](const KeptBucket& one) {
    const BucketLayout& layout = bucket->layout;
    return one.bucket == index && one.shapes == layout.shapes && one.parameters == layout.parameters;
  });
  if (kept != waiting_.end()) {
    restore(*bucket->averager, kept->state);
    waiting_.erase(kept);
  }
  Task<> meeting = meet(ground, text("hook ", options_.name));
  co_await std::move(meeting);
  if (codec::find_codec(options_.name).kind != codec::CodecKind::low_rank) co_return;
  bool alike = true;  // ranks with other factors would part, and nobody would see it
  Task<> comparing = compare(ground, shared_code(*bucket->averager), &alike);
  co_await std::move(comparing);
  if (alike) co_return;
  fail(ErrorKind::mismatch, "rank ", ground.comm.rank(), ": the ranks' hooks with codec ", options_.name,
       " have other factors for bucket ", index,
       ": load what each rank has saved after the same pass, on all ranks or on none");
}

Task<> BucketAverages::average(Ground ground, std::shared_ptr<Event> before, int index, HostTensor tensor,
                               BucketLayout layout) {
  struct InFlight {
    std::atomic<int>& count;
    explicit InFlight(std::atomic<int>& all) : count(all) { ++count; }
    ~InFlight() { --count; }
  } const in_flight(in_flight_);
  if (before && !before->is_set()) co_await before->wait();
  const collective::Communicator& comm = ground.comm;
  const NumberSpan numbers = tensor.numbers();
  if (numbers.type != DType::fp32 && numbers.type != DType::fp64) {
    fail(ErrorKind::usage, "codec ", options_.name, " takes gradients in fp32 or fp64, and bucket ", index, " holds ",
         text(tensor.host().scalar_type()), ": register no hook, or a hook of PyTorch's");
  }
  Bucket& bucket = buckets_[index];
  if (bucket.layout.generation != layout.generation) bucket = {};
  if (!bucket.averager || bucket.layout.shapes != layout.shapes || bucket.type != numbers.type) {
    if (bucket.averager && ++bucket.changes > 1) {
      fail(ErrorKind::usage, "bucket ", index,
           " has other gradients than before, for the second time: a hook serves one "
           "model, so make one for each");
    }
    bucket.layout = std::move(layout);
    bucket.type = numbers.type;
    Task<> preparing = prepare(ground, index, &bucket, numbers.count);
    co_await std::move(preparing);
  }
  Task<> averaging = bucket.averager->average(comm, 0, numbers, 1.0 / comm.size());
  co_await std::move(averaging);
  // Not what a bucket that is not finite leaves behind: a loss scale drops its step.
  const bool keeps = codec::find_codec(options_.name).kind != codec::CodecKind::wire;
  if (keeps && numeric::all_finite(numbers)) bucket.averager->commit(0);
  tensor.give_back();
}

void BucketAverages::check_idle(const char* doing) const {
  if (in_flight_ > 0)
    fail(ErrorKind::usage, doing, " a hook's state while an average is in flight: do it between two backward passes");
}

std::vector<KeptBucket> BucketAverages::kept() {
  check_idle("saving");
  std::vector<KeptBucket> all = waiting_;
  for (auto& [index, bucket] : buckets_) {
    if (!bucket.averager) continue;
    all.push_back({index, bucket.layout.shapes, bucket.layout.parameters, kept_by(*bucket.averager)});
  }
  return all;
}

void BucketAverages::keep(std::vector<KeptBucket> kept) {
  check_idle("loading");
  buckets_.clear();
  waiting_ = std::move(kept);
}

}  // namespace ripieno::c10d
