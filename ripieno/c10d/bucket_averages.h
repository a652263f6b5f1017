// Averages of the buckets of a DistributedDataParallel with any codec (codec/codec.h): a hook for its communication.
//
// Each bucket has an averager of its own (collective/averager.h), which keeps what the codec loses for the bucket's
// next average, unless this one is not finite. DistributedDataParallel forms its buckets anew after the first step, and
// Ripieno's also when parameters are added, frozen or unfrozen: a bucket that has changed begins without such memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ripieno/c10d/collectives.h"
#include "ripieno/c10d/kept_state.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/averager.h"
#include "ripieno/core/async.h"

namespace ripieno::c10d {

/// The sizes of the gradients in a bucket, one after the other.
using Shapes = std::vector<std::vector<std::int64_t>>;

/// The gradients in a bucket.
struct BucketLayout {
  Shapes shapes;
  int generation = 0;            ///< a bucket of another one has nothing of the one before
  std::uint64_t parameters = 0;  ///< a code of their names; 0: they are not known
};

/// What a hook keeps of one bucket on this rank.
struct KeptBucket {
  int bucket = 0;
  Shapes shapes;
  std::uint64_t parameters = 0;
  KeptState state;
};

/// Averages: on the runtime's thread alone, one at a time.
class BucketAverages {
 public:
  /// Error(usage): an unknown codec or option.
  explicit BucketAverages(codec::CodecOptions options);

  const std::string& codec() const { return options_.name; }
  /// For a group whose ranks have met so often: what was kept is of those that met before, and forgotten. Error(usage):
  /// a hook is used in two groups.
  void serve(const void* group, std::uint64_t meetings);
  /// Replaces the bucket's numbers by their mean over all ranks, after the event, unless that is null: averagers take
  /// channels, in the same order on all ranks. At a bucket's first time ranks meet under the codec's name.
  /// Error(usage): they are neither fp32 nor fp64; within a generation the bucket has changed twice, as if it were
  /// those of several models.
  Task<> average(Ground ground, std::shared_ptr<Event> before, int bucket, HostTensor numbers, BucketLayout layout);

  /// What it keeps, copied. Error(usage): an average is in flight.
  std::vector<KeptBucket> kept();
  /// From now on it keeps that: each part from when a bucket with its index and layout is averaged. (The buckets of a
  /// model's first pass may be others.) Error(usage): an average is in flight.
  void keep(std::vector<KeptBucket> kept);

 private:
  void check_idle(const char* doing) const;
  struct Bucket {
    BucketLayout layout;
    DType type = DType::fp32;
    int changes = 0;
    std::unique_ptr<collective::Averager> averager;
  };
  /// Makes a bucket's averager, with what was kept for it.
  Task<> prepare(Ground ground, int index, Bucket* bucket, std::size_t elements);
  const codec::CodecOptions options_;
  std::atomic<const void*> group_{nullptr};
  std::uint64_t meetings_ = 0;
  std::map<int, Bucket> buckets_;
  std::vector<KeptBucket> waiting_;  ///< given to keep(), for buckets that have not come
  std::atomic<int> in_flight_{0};
};

}  // namespace ripieno::c10d
