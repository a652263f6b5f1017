#include "ripieno/collective/averager.h"

#include "ripieno/codec/wire.h"
#include "ripieno/collective/charged.h"
#include "ripieno/collective/check.h"
#include "ripieno/collective/coded.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/gathered.h"
#include "ripieno/collective/native.h"
#include "ripieno/collective/powersgd.h"
#include "ripieno/collective/slot_channels.h"

namespace ripieno::collective {
namespace {

class ScheduledAverager final : public Averager {
 public:
  ScheduledAverager(const AveragerOptions& options, std::vector<Slot> slots, DType type)
      : large_(find_route(options.route)),
        small_(options.small_route == "auto" ? large_ : find_route(options.small_route)),
        small_bytes_(options.small_bytes),
        wire_(codec::find_wire_format(options.codec.name).type(type)),
        segment_bytes_(options.segment_bytes),
        last_first_(options.last_first),
        channels_(slots.size(), native::is(large_)),
        slots_(std::move(slots)),
        type_(type) {}

  Task<> average(Communicator comm, std::size_t slot, NumberSpan numbers, double weight) override {
    return average_by_parts(comm, slot, numbers, weight, nullptr);
  }

  Task<> average_by_parts(Communicator comm, std::size_t slot, NumberSpan numbers, double weight,
                          std::function<void(Range)> averaged) override {
    require(numbers.count == slots_.at(slot).elements && numbers.type == type_, "slot ", slot, " of ",
            slots_[slot].elements, " ", name(type_), " is averaged with ", numbers.count, " ", name(numbers.type));
    const std::uint32_t channel = channels_.of(comm, slot);
    const int urgency = last_first_ ? static_cast<int>(slot) + 1 : 0;
    const ExecuteOptions options{wire_,  observe::Purpose::exchange, channel, segment_bytes_, urgency,
                                 weight, std::move(averaged)};
    co_await all_reduce(route_of(slot), comm, numbers, options);
  }

  std::optional<std::uint64_t> bytes_sent(int rank, World world, std::size_t slot) const override {
    if (native::is(route_of(slot))) return std::nullopt;
    std::uint64_t sent = 0;
    for (const Range part : segments(slots_.at(slot).elements, type_, segment_bytes_)) {
      sent += schedule_cost(route_of(slot), rank, world, part.size()).elements_sent;
    }
    return sent * size_of(wire_);
  }

  void commit(std::size_t) override {}  // nothing is carried from one call to the next
  void visit(StateVisitor&) override {}

 private:
  const Route& route_of(std::size_t slot) const {
    return slots_.at(slot).elements * size_of(type_) <= small_bytes_ ? small_ : large_;
  }

  const Route& large_;
  const Route& small_;
  const std::size_t small_bytes_;
  const DType wire_;
  const std::size_t segment_bytes_;
  const bool last_first_;
  SlotChannels channels_;
  const std::vector<Slot> slots_;
  const DType type_;
};

}  // namespace

Task<> Averager::average_by_parts(Communicator comm, std::size_t slot, NumberSpan numbers, double weight,
                                  std::function<void(Range)> averaged) {
  co_await average(comm, slot, numbers, weight);
  if (averaged) averaged({0, numbers.count});
}

namespace {

std::unique_ptr<Averager> make_free_averager(const AveragerOptions& options, std::vector<Slot> slots, DType type) {
  require(type == DType::fp32 || type == DType::fp64, "numbers are averaged in fp32 or fp64, not in ", name(type));
  const codec::CodecInfo& codec = codec::find_codec(options.codec.name);
  const Route& route = find_route(options.route);
  codec::check_codec(options.codec);
  const bool as_they_are =
      codec.kind == codec::CodecKind::wire && codec::find_wire_format(options.codec.name).type(type) == type;
  if (options.small_route == native::name) {
    fail(ErrorKind::usage,
         "route native is for buckets of all sizes, and small_route is native: give it as the route, "
         "or take another small_route");
  }
  if (native::is(route) && !as_they_are) {
    fail(ErrorKind::usage, "codec ", codec.name, " cannot be averaged along route native, which hands ", name(type),
         " over as they are; take another route, or codec auto");
  }
  if (!averages_over(codec.name, route.name)) {
    std::string able;
    for (const Route& other : routes()) {
      if (averages_over(codec.name, other.name)) able += text(able.empty() ? "" : " or ", other.name);
    }
    fail(ErrorKind::usage, "codec ", codec.name, " cannot be averaged along route ", route.name,
         ": sums of its encodings do not fit into its bytes, so every rank needs all of them; use route ", able);
  }
  switch (codec.kind) {
    case codec::CodecKind::wire:
      return std::make_unique<ScheduledAverager>(options, std::move(slots), type);
    case codec::CodecKind::block:
      if (adds_on_the_way(route)) return make_coded(options, std::move(slots), type);
      [[fallthrough]];
    case codec::CodecKind::gathered:
      return make_gathered(options, std::move(slots), type);
    case codec::CodecKind::low_rank:
      return make_powersgd(options, {options.codec.rank, options.codec.error_feedback}, std::move(slots), type);
  }
  fail(ErrorKind::internal, "codec ", codec.name, " is of no kind");
}

}  // namespace

std::unique_ptr<Averager> make_averager(const AveragerOptions& options, std::vector<Slot> slots, DType type) {
  auto averager = make_free_averager(options, std::move(slots), type);
  return options.codec.number_s > 0 ? make_charged(std::move(averager), options.codec.number_s) : std::move(averager);
}

bool averages_over(std::string_view codec, std::string_view route) {
  const Route& along = find_route(route);
  return codec::find_codec(codec).kind != codec::CodecKind::gathered || gathers(along);
}

}  // namespace ripieno::collective
