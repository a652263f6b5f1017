// Averager: a route and an encoding made one operation. After average() every member holds the same bits.
#pragma once

#include <memory>
#include <string>

#include "ripieno/collective/group.h"
#include "ripieno/collective/schedule.h"

namespace ripieno {

struct AveragerOptions {
  std::string route = "ring";
  std::string wire = "auto";      ///< a wire format's name (codec/wire.h)
  std::size_t segment_bytes = 0;  ///< see ExecuteOptions
};

class Averager {
 public:
  virtual ~Averager() = default;

  /// Replaces `bucket` by the sum over members of weight * bucket; the members' weights add up to 1 for an average.
  /// `channel` is distinct for what is in flight at once, and the same on every member.
  virtual Task<> average(Group group, FloatSpan bucket, double weight, std::uint32_t channel) = 0;

  /// Payload bytes that `rank` of `ranks` sends in one average() of `elements` numbers of type `native`, in closed form.
  virtual std::uint64_t bytes_sent(int rank, int ranks, std::size_t elements, DType native) const = 0;
};

/// A schedule with a wire format. Throws Error(usage) on unknown names.
std::unique_ptr<Averager> make_averager(const AveragerOptions& options);

}  // namespace ripieno
