#include "ripieno/collective/coded.h"

#include <algorithm>

#include "ripieno/collective/check.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/slot_channels.h"
#include "ripieno/collective/slot_memory.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::collective {
namespace {

/// A slot's numbers as blocks; the last may be short.
struct Cut {
  std::size_t elements, block;

  std::size_t blocks() const { return (elements + block - 1) / block; }
  Range numbers(Range of) const { return {std::min(of.begin * block, elements), std::min(of.end * block, elements)}; }
};

/// One slot in flight along a route: its numbers, and the encoded final sums.
class BlocksPayload final : public MessagePayload {
 public:
  BlocksPayload(Communicator comm, transport::Message message, const codec::Codec& codec,
                codec::ErrorFeedback& feedback, NumberSpan numbers, Random random)
      : MessagePayload(std::move(comm)),
        message_(message),
        codec_(codec),
        feedback_(feedback),
        numbers_(numbers),
        random_(random),
        cut_{numbers.count, codec.block()},
        state_(cut_.blocks(), State::partial),
        image_(numbers.data ? bytes({0, cut_.blocks()}) : 0) {}

  std::size_t units() const override { return cut_.blocks(); }

  void arrived(const Transfer& transfer) override {
    const Range range = transfer.range;
    if (transfer.how == numeric::Reduce::add) {
      advance(range, State::partial, State::partial);
      if (numbers_.data) codec_.add(incoming_, part(range));
    } else {
      for (std::size_t i = range.begin; i < range.end; ++i) {
        require(state_[i] != State::final, "block ", i, " arrives as final a second time");
        state_[i] = State::final;
      }
      if (numbers_.data) codec_.decode(image(range), part(range));
    }
  }

  void check_final() { advance({0, units()}, State::final, State::final); }

 private:
  /// A block's state: a growing sum; a partial sum that was sent; the final sum.
  enum class State : std::uint8_t { partial, spent, final };

  transport::Outgoing outgoing(const Transfer& transfer) override {
    return {comm_.member(transfer.peer), of(bytes(transfer.range)), encode(transfer)};
  }
  transport::Incoming incoming(const Transfer& transfer) override {
    return {comm_.member(transfer.peer), of(bytes(transfer.range)), room(transfer)};
  }

  /// Valid until the next call.
  ConstBytes encode(const Transfer& transfer) {
    const Range range = transfer.range;
    if (transfer.how == numeric::Reduce::add) {
      advance(range, State::partial, State::spent);
      outgoing_.clear();
      feedback_.encode(codec_, cut_.numbers(range).begin, part(range), random_, outgoing_);
      return {numbers_.data ? outgoing_.data() : nullptr, bytes(range)};
    }
    for (std::size_t begin = range.begin; begin < range.end;) {  // runs of blocks that this rank owns
      std::size_t end = begin;
      while (end < range.end && state_[end] == State::partial) ++end;
      if (end > begin) finish({begin, end});
      begin = std::max(end, begin + 1);
    }
    advance(range, State::final, State::final);
    return image(range);
  }

  /// Memory for the arriving bytes; valid until arrived().
  Bytes room(const Transfer& transfer) {
    if (transfer.how == numeric::Reduce::replace) return image(transfer.range);
    incoming_.resize(numbers_.data ? bytes(transfer.range) : 0);
    return {numbers_.data ? incoming_.data() : nullptr, bytes(transfer.range)};
  }

  transport::Message of(std::size_t bytes) const {
    transport::Message message = message_;
    message.count = bytes;
    return message;
  }

  void finish(Range owned) {
    feedback_.encode(codec_, cut_.numbers(owned).begin, part(owned), random_, outgoing_);
    if (numbers_.data) std::copy(outgoing_.begin(), outgoing_.end(), image(owned).begin());
    advance(owned, State::partial, State::final);
  }

  /// Each block is encoded once: it must be in the state that the step expects.
  void advance(Range range, State from, State to) {
    for (std::size_t i = range.begin; i < range.end; ++i) {
      require(state_[i] == from, "block ", i, " is in state ", static_cast<int>(state_[i]), " instead of ",
              static_cast<int>(from), " of a coded average");
      state_[i] = to;
    }
  }

  std::size_t bytes(Range range) const { return *codec_.bytes(cut_.numbers(range).size()); }
  NumberSpan part(Range range) const { return numbers_.slice(cut_.numbers(range).begin, cut_.numbers(range).end); }
  Bytes image(Range range) {
    return {numbers_.data ? image_.data() + range.begin * *codec_.bytes(cut_.block) : nullptr, bytes(range)};
  }

  const transport::Message message_;
  const codec::Codec& codec_;
  codec::ErrorFeedback& feedback_;
  NumberSpan numbers_;
  Random random_;
  Cut cut_;
  std::vector<State> state_;
  ByteVector image_, outgoing_, incoming_;
};

class CodedAverager final : public Averager {
 public:
  CodedAverager(const AveragerOptions& options, std::vector<Slot> slots, DType type)
      : options_(options),
        route_(find_route(options.route)),
        codec_(codec::make_codec(options.codec, type)),
        slots_(std::move(slots)),
        type_(type),
        memory_(options, slots_, type),
        channels_(slots_.size()) {
    require(codec_->block() > 0 && adds_on_the_way(route_), "codec ", options.codec.name, " along route ", route_.name,
            " is no coded average");
  }

  Task<> average(Communicator comm, std::size_t slot, NumberSpan numbers, double weight) override {
    require(numbers.count == slots_.at(slot).elements && numbers.type == type_, "slot ", slot, " of ",
            slots_[slot].elements, " ", name(type_), " is averaged with ", numbers.count, " ", name(numbers.type));
    const Random random = memory_.begin(comm.endpoint().rank(), slot);
    numeric::scale(numbers, weight);  // 1.
    if (comm.size() == 1) co_return;
    const Communicator::Use use = comm.use(comm.channel(channels_.of(comm, slot), observe::Purpose::exchange));
    const transport::Message message{comm.channel(channels_.of(comm, slot), observe::Purpose::exchange), route_.name,
                                     DType::uint8};
    BlocksPayload blocks(comm, message, *codec_, memory_.feedback(slot), numbers, random);
    co_await run_schedule(&route_, comm, comm.world(), &blocks);  // 2., 3.
    blocks.check_final();
  }

  std::optional<std::uint64_t> bytes_sent(int rank, World world, std::size_t slot) const override {
    const Cut cut{slots_.at(slot).elements, codec_->block()};
    std::uint64_t sent = 0;
    for (int k = 0; k < route_.steps(world); ++k) {
      const Step step = route_.step(rank, world, cut.blocks(), k);
      for (const Transfer& out : step.sends) sent += *codec_->bytes(cut.numbers(out.range).size());
    }
    return sent;
  }

  void commit(std::size_t slot) override { memory_.commit(slot); }
  void visit(StateVisitor& visitor) override { memory_.visit(visitor); }

 private:
  const AveragerOptions options_;
  const Route& route_;
  const std::unique_ptr<codec::Codec> codec_;
  const std::vector<Slot> slots_;
  const DType type_;
  SlotMemory memory_;
  SlotChannels channels_;
};

}  // namespace

std::unique_ptr<Averager> make_coded(const AveragerOptions& options, std::vector<Slot> slots, DType type) {
  return std::make_unique<CodedAverager>(options, std::move(slots), type);
}

}  // namespace ripieno::collective
