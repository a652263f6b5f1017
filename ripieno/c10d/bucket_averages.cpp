#include "ripieno/c10d/bucket_averages.h"

#include <numeric>

#include "ripieno/collective/two_phase.h"

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
  if (std::exchange(meetings_, meetings) != meetings) buckets_.clear();
}

Task<> BucketAverages::average(Ground ground, std::shared_ptr<Event> before, int index, HostTensor tensor,
                               Shapes shapes, int generation) {
  if (before && !before->is_set()) co_await before->wait();
  const collective::Communicator& comm = ground.comm;
  const NumberSpan numbers = tensor.numbers();
  if (numbers.type != DType::fp32 && numbers.type != DType::fp64) {
    fail(ErrorKind::usage, "codec ", options_.name, " takes gradients in fp32 or fp64, and bucket ", index, " holds ",
         text(tensor.host().scalar_type()), ": register no hook, or a hook of PyTorch's");
  }
  Bucket& bucket = buckets_[index];
  if (bucket.generation != generation) {
    bucket = {};
    bucket.generation = generation;
  }
  if (!bucket.averager || bucket.shapes != shapes || bucket.type != numbers.type) {
    collective::AveragerOptions options;
    options.route = route_for(comm, codec::find_codec(options_.name).kind, numbers.type);
    options.codec = options_;
    if (bucket.averager && ++bucket.changes > 1) {
      fail(ErrorKind::usage, "bucket ", index,
           " has other gradients than before, for the second time: a hook serves one "
           "model, so make one for each");
    }
    Task<> meeting = meet(ground, text("hook ", options_.name));
    co_await std::move(meeting);
    bucket.averager = collective::make_averager(options, {slot_of(numbers.count, shapes)}, numbers.type);
    bucket.shapes = shapes;
    bucket.type = numbers.type;
  }
  Task<> averaging = bucket.averager->average(comm, 0, numbers, 1.0 / comm.size());
  co_await std::move(averaging);
  bucket.averager->commit(0);
  tensor.give_back();
}

}  // namespace ripieno::c10d
