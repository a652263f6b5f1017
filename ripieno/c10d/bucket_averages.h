// Averages of the buckets of a DistributedDataParallel with any codec (codec/codec.h): a hook for its communication.
//
// Each bucket has an averager of its own (collective/averager.h), which keeps what the codec loses for the bucket's
// next average. DistributedDataParallel forms its buckets anew after the first step, and Ripieno's also when parameters
// are added, frozen or unfrozen: a bucket that has changed begins without such memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ripieno/c10d/collectives.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/averager.h"
#include "ripieno/core/async.h"

namespace ripieno::c10d {

/// The sizes of the gradients in a bucket, one after the other.
using Shapes = std::vector<std::vector<std::int64_t>>;

/// Used on the runtime's thread alone, for one average at a time.
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
  /// A bucket of another generation has nothing of the one before.
  /// Error(usage): they are neither fp32 nor fp64; within a generation the bucket has changed twice, as if it were
  /// those of several models.
  Task<> average(Ground ground, std::shared_ptr<Event> before, int bucket, HostTensor numbers, Shapes shapes,
                 int generation);

 private:
  struct Bucket {
    Shapes shapes;
    DType type = DType::fp32;
    int generation = 0, changes = 0;
    std::unique_ptr<collective::Averager> averager;
  };
  const codec::CodecOptions options_;
  std::atomic<const void*> group_{nullptr};
  std::uint64_t meetings_ = 0;
  std::map<int, Bucket> buckets_;
};

}  // namespace ripieno::c10d
