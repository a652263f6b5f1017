#include "ripieno/collective/gathered.h"

#include <algorithm>
#include <cstring>

#include "ripieno/collective/encoded.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/slot_channels.h"
#include "ripieno/collective/slot_memory.h"
#include "ripieno/core/async.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::collective {
namespace {

/// The payload of the all-gather: all members' encodings.
class EncodingsPayload final : public Payload {
 public:
  EncodingsPayload(Communicator comm, transport::Message message, const codec::Codec& codec, NumberSpan numbers)
      : comm_(std::move(comm)),
        message_(message),
        codec_(codec),
        numbers_(numbers),
        of_(static_cast<std::size_t>(comm_.size())) {}

  Encoding& of(std::size_t member) { return of_[member]; }

  std::size_t units() const override { return of_.size(); }
  Task<> send(const Transfer& out) override { return send_all(this, out); }
  Task<> receive(const Transfer& in) override { return receive_all(this, in); }
  Task<> exchange(const Transfer& out, const Transfer& in, std::function<void(std::exception_ptr)> on_error) override {
    return both(comm_.runtime(), send_all(this, out), receive_all(this, in), std::move(on_error));
  }

 private:
  static Task<> send_all(EncodingsPayload* all, Transfer out) {
    for (std::size_t member = out.range.begin; member < out.range.end; ++member) {
      co_await send_encoding(&all->comm_.endpoint(), all->comm_.member(out.peer), all->message_, &all->codec_,
                             all->numbers_, &all->of_[member]);
    }
  }
  static Task<> receive_all(EncodingsPayload* all, Transfer in) {
    for (std::size_t member = in.range.begin; member < in.range.end; ++member) {
      co_await receive_encoding(&all->comm_.endpoint(), all->comm_.member(in.peer), all->message_, &all->codec_,
                                all->numbers_, &all->of_[member]);
    }
  }

  const Communicator comm_;
  const transport::Message message_;
  const codec::Codec& codec_;
  const NumberSpan numbers_;
  std::vector<Encoding> of_;  ///< by member
};

class GatheredAverager final : public Averager {
 public:
  GatheredAverager(const AveragerOptions& options, std::vector<Slot> slots, DType type)
      : options_(options),
        route_(find_route(options.route)),
        gather_(find_route(options.route, transport::Collective::all_gather)),
        codec_(codec::make_codec(options.codec, type)),
        slots_(std::move(slots)),
        type_(type),
        memory_(options, slots_, type),
        channels_(slots_.size()) {}

  Task<> average(Communicator comm, std::size_t slot, NumberSpan numbers, double weight) override {
    require(numbers.count == slots_.at(slot).elements && numbers.type == type_, "slot ", slot, " of ",
            slots_[slot].elements, " ", name(type_), " is averaged with ", numbers.count, " ", name(numbers.type));
    Random random = memory_.begin(comm.endpoint().rank(), slot);
    numeric::scale(numbers, weight);  // 1.
    if (comm.size() == 1) co_return;

    const Communicator::Use use = comm.use(comm.channel(channels_.of(comm, slot), observe::Purpose::exchange));
    const transport::Message message{comm.channel(channels_.of(comm, slot), observe::Purpose::exchange), route_.name,
                                     DType::uint8};
    EncodingsPayload all(comm, message, *codec_, numbers);
    all.of(static_cast<std::size_t>(comm.rank())) =
        encode(options_.codec.name, *codec_, memory_.feedback(slot), numbers, random);  // 2.
    co_await run_schedule(&gather_, comm, comm.world(), &all);                          // 3.

    if (!numbers.data) co_return;  // 4.
    std::memset(numbers.data, 0, numbers.size_bytes());
    for (std::size_t member = 0; member < all.units(); ++member) codec_->add(all.of(member).data, numbers);
  }

  std::optional<std::uint64_t> bytes_sent(int, World world, std::size_t slot) const override {
    if (world.ranks == 1) return 0;
    const std::optional<std::size_t> bytes = codec_->bytes(slots_.at(slot).elements);
    if (!bytes) return std::nullopt;
    return static_cast<std::uint64_t>(world.ranks - 1) * *bytes;
  }

  void commit(std::size_t slot) override { memory_.commit(slot); }
  void visit(StateVisitor& visitor) override { memory_.visit(visitor); }

 private:
  const AveragerOptions options_;
  const Route &route_, &gather_;
  const std::unique_ptr<codec::Codec> codec_;
  const std::vector<Slot> slots_;
  const DType type_;
  SlotMemory memory_;
  SlotChannels channels_;
};

}  // namespace

bool gathers(const Route& route) {
  const auto all = routes(transport::Collective::all_gather);
  return std::any_of(all.begin(), all.end(), [&](const Route& one) { return one.name == route.name; });
}

std::unique_ptr<Averager> make_gathered(const AveragerOptions& options, std::vector<Slot> slots, DType type) {
  return std::make_unique<GatheredAverager>(options, std::move(slots), type);
}

}  // namespace ripieno::collective
