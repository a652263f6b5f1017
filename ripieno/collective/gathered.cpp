#include "ripieno/collective/gathered.h"

#include <cstring>

#include "ripieno/collective/encoded.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/slot_memory.h"
#include "ripieno/core/async.h"
#include "ripieno/core/kernels.h"

namespace ripieno {
namespace {

/// What all transfers of one all-gather share.
struct Gathering {
  Communicator comm;
  Message message;
  const Codec* codec;
  NumberSpan numbers;
  std::vector<Encoding> of;  ///< by member
};

Task<> send_one(Gathering* all, int to, int whose) {
  return send_encoding(&all->comm.endpoint(), all->comm.member(to), all->message, all->codec, all->numbers,
                       &all->of[whose]);
}

Task<> receive_one(Gathering* all, int from, int whose) {
  return receive_encoding(&all->comm.endpoint(), all->comm.member(from), all->message, all->codec, all->numbers,
                          &all->of[whose]);
}

/// Step k: to the next member goes what came from the previous one at step k-1.
Task<> around_the_ring(Gathering* all) {
  Endpoint& endpoint = all->comm.endpoint();
  const int ranks = all->comm.size(), rank = all->comm.rank();
  const auto mod = [ranks](int x) { return (x % ranks + ranks) % ranks; };
  for (int k = 0; k < ranks - 1; ++k) {
    Task<> sending = send_one(all, mod(rank + 1), mod(rank - k));
    Task<> receiving = receive_one(all, mod(rank - 1), mod(rank - k - 1));
    Task<> together = both(endpoint.runtime(), std::move(sending), std::move(receiving), all->comm.ending());
    co_await std::move(together);
  }
}

/// Everybody's to everybody, in an order in which no two ranks begin with the same receiver.
Task<> at_once(Gathering* all_of) {
  Endpoint& endpoint = all_of->comm.endpoint();
  const int ranks = all_of->comm.size(), rank = all_of->comm.rank();
  std::vector<Task<>> transfers;
  for (int k = 1; k < ranks; ++k) {
    transfers.push_back(send_one(all_of, (rank + k) % ranks, rank));
    transfers.push_back(receive_one(all_of, (rank - k + ranks) % ranks, (rank - k + ranks) % ranks));
  }
  Task<> together = all(endpoint.runtime(), std::move(transfers), all_of->comm.ending());
  co_await std::move(together);
}

class GatheredAverager final : public Averager {
 public:
  GatheredAverager(const AveragerOptions& options, std::vector<Slot> slots, DType type)
      : options_(options), route_(find_route(options.route)), codec_(make_codec(options.codec, type)),
        slots_(std::move(slots)), type_(type), memory_(options, slots_, type) {
    require(gathers(route_), "route ", route_.name, " has no all-gather");
  }

  Task<> average(Communicator comm, std::size_t slot, NumberSpan numbers, double weight) override {
    require(numbers.count == slots_.at(slot).elements && numbers.type == type_, "slot ", slot, " of ",
            slots_[slot].elements, " ", name(type_), " is averaged with ", numbers.count, " ", name(numbers.type));
    scale(numbers, weight);  // 1.
    if (comm.size() == 1) co_return;

    const std::uint32_t channel = options_.first_channel + static_cast<std::uint32_t>(slot);
    Gathering gathering{comm, {}, codec_.get(), numbers, std::vector<Encoding>(comm.size())};
    gathering.message.channel = {Purpose::exchange, channel * max_segments, comm.scope()};
    gathering.message.operation = route_.name;
    Random random = memory_.next_draws(comm.endpoint().rank(), slot);
    gathering.of[comm.rank()] = encode(options_.codec.name, *codec_, memory_.feedback(slot), numbers, random);  // 2.

    Task<> gathered = route_.at_once ? at_once(&gathering) : around_the_ring(&gathering);  // 3.
    co_await std::move(gathered);

    if (!numbers.data) co_return;  // 4.
    std::memset(numbers.data, 0, numbers.size_bytes());
    for (const Encoding& encoding : gathering.of) codec_->add(encoding.data, numbers);
  }

  std::optional<std::uint64_t> bytes_sent(int, World world, std::size_t slot) const override {
    if (world.ranks == 1) return 0;
    const std::optional<std::size_t> bytes = codec_->bytes(slots_.at(slot).elements);
    if (!bytes) return std::nullopt;
    return static_cast<std::uint64_t>(world.ranks - 1) * *bytes;
  }

  void visit(StateVisitor& visitor) override { memory_.visit(visitor); }

 private:
  const AveragerOptions options_;
  const Route& route_;
  const std::unique_ptr<Codec> codec_;
  const std::vector<Slot> slots_;
  const DType type_;
  SlotMemory memory_;
};

}  // namespace

bool gathers(const Route& route) { return route.at_once || route.name == "ring"; }

std::unique_ptr<Averager> make_gathered(const AveragerOptions& options, std::vector<Slot> slots, DType type) {
  return std::make_unique<GatheredAverager>(options, std::move(slots), type);
}

}  // namespace ripieno
