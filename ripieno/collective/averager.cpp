#include "ripieno/collective/averager.h"

#include "ripieno/codec/wire.h"
#include "ripieno/collective/check.h"
#include "ripieno/collective/execute.h"
#include "ripieno/core/kernels.h"

namespace ripieno {
namespace {

class ScheduledAverager final : public Averager {
 public:
  explicit ScheduledAverager(const AveragerOptions& options)
      : route_(find_route(options.route)), wire_(find_wire_format(options.wire)), segment_bytes_(options.segment_bytes) {}

  Task<> average(Group group, FloatSpan bucket, double weight, std::uint32_t channel) override {
    scale(bucket, weight);
    const ExecuteOptions options{wire_.type(bucket.type), Purpose::exchange, channel, segment_bytes_};
    return all_reduce(route_, group, bucket, options);
  }

  std::uint64_t bytes_sent(int rank, int ranks, std::size_t elements, DType native) const override {
    std::uint64_t sent = 0;
    for (const Range part : segments(elements, native, segment_bytes_)) {
      sent += schedule_cost(route_, rank, ranks, part.size()).elements_sent;
    }
    return sent * size_of(wire_.type(native));
  }

 private:
  const Route& route_;
  const WireFormat& wire_;
  std::size_t segment_bytes_;
};

}  // namespace

std::unique_ptr<Averager> make_averager(const AveragerOptions& options) {
  return std::make_unique<ScheduledAverager>(options);
}

}  // namespace ripieno
