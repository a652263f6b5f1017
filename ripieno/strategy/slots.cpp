#include "ripieno/strategy/slots.h"

namespace ripieno::strategy {

std::vector<collective::Slot> slots_of(const Layout& layout, const std::vector<Range>& ranges) {
  std::vector<collective::Slot> slots;
  for (const Range range : ranges) {
    collective::Slot slot{range.size()};
    for (const Layout::Tensor& tensor : layout.tensors) {
      const bool inside = range.begin <= tensor.range.begin && tensor.range.end <= range.end;
      if (!inside || tensor.shape.size() < 2 || tensor.range.size() == 0) continue;
      const auto rows = static_cast<std::size_t>(tensor.shape[0]);
      slot.matrices.push_back(
          {{tensor.range.begin - range.begin, tensor.range.end - range.begin}, rows, tensor.range.size() / rows});
    }
    slots.push_back(std::move(slot));
  }
  return slots;
}

std::unique_ptr<collective::Averager> averager_of(const StrategyInfo& info, const Plan& plan,
                                                  std::vector<collective::Slot> slots, DType type) {
  collective::AveragerOptions options;
  options.route = info.route_of(plan);
  if (info.route == "any") {
    options.small_route = plan.exchange.small_route;
    options.small_bytes = plan.exchange.small_bytes;
  }
  options.codec = plan.exchange.codec;
  options.segment_bytes = plan.exchange.segment_bytes;
  options.last_first = plan.exchange.forward;
  options.seed = plan.seed;
  return collective::make_averager(options, std::move(slots), type);
}

}  // namespace ripieno::strategy
