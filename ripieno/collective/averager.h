// Averager: a route and a codec made one operation. After average() every member holds the same bits. What it changes
// of what the averager keeps (residuals, factors, random draws) is staged until commit(). The kind of the codec
// (codec/codec.h) decides how the two go together:
//
//   scheduled  a wire format, converted at every hop of the route, `direct` too (execute.h)
//   coded      a block codec, decoded, added and encoded anew at every hop of the route, with a residual per hop
//              (coded.h)
//   gathered   a codec whose sums do not fit into its bytes, and a block codec on `direct`: every member gets all
//              members' encodings and adds them up itself, in the order of the members (gathered.h)
//   PowerSGD   two averages of small factors along the route (powersgd.h)
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/codec/codec.h"
#include "ripieno/collective/communicator.h"
#include "ripieno/collective/schedule.h"
#include "ripieno/core/state.h"

namespace ripieno::collective {

/// rows x columns numbers of a slot, row after row.
struct SlotMatrix {
  Range range;
  std::size_t rows = 0, columns = 0;
};

/// Numbers that are averaged as one: a bucket of gradients, a fragment of the model.
struct Slot {
  std::size_t elements = 0;
  std::vector<SlotMatrix> matrices =
      {};  ///< ascending and apart from each other; PowerSGD leaves what is in none as it is
};

struct AveragerOptions {
  std::string route = "ring";
  std::string small_route = "auto";  ///< of slots of up to small_bytes bytes in memory; auto: as all. Wire formats only
  std::size_t small_bytes = 0;
  codec::CodecOptions codec = {};
  std::size_t segment_bytes = 0;  ///< see ExecuteOptions; wire formats only
  std::uint64_t seed = 0;         ///< of random rounding and of PowerSGD's first factors
  bool last_first = false;        ///< of slots in flight at once, the later's messages go first; wire formats only
};

class Averager {
 public:
  virtual ~Averager() = default;

  /// Replaces `numbers`, as many as slot `slot` has, by the sum over members of weight * numbers; the members' weights
  /// add up to 1 for an average. Slots may be in flight at the same time, each once; the first call over a communicator
  /// takes channels for all of them, so members begin their averagers in the same order. What members of earlier calls
  /// have kept as residuals is lost where they are no longer in the group.
  virtual Task<> average(Communicator comm, std::size_t slot, NumberSpan numbers, double weight) = 0;

  /// Keeps what the slot's last average() has changed. An average() that follows one that was not committed begins from
  /// what was committed last, and gives the same bits. A member that knows from others that all have ended the average
  /// may commit it, even where its own was broken off: its part in it was over.
  virtual void commit(std::size_t slot) = 0;

  /// average() that tells of each part of the slot as soon as it is averaged and not looked at any more: with wire
  /// formats of its segments, in any order; else of the whole.
  virtual Task<> average_by_parts(Communicator comm, std::size_t slot, NumberSpan numbers, double weight,
                                  std::function<void(Range)> averaged);

  /// Payload bytes that `rank` sends in one average() of a slot, in closed form; nothing where that depends on the
  /// numbers.
  virtual std::optional<std::uint64_t> bytes_sent(int rank, World world, std::size_t slot) const = 0;

  /// What a resumed run needs: residuals, warm starts, random draws. Names begin with "averager.".
  virtual void visit(StateVisitor& visitor) = 0;
  /// What of it all members hold alike.
  virtual void visit_shared(StateVisitor&) {}
};

/// For slots of numbers of `type` in memory. Throws Error(usage) on unknown names, options out of range, and a codec
/// that the route cannot carry (averages_over).
std::unique_ptr<Averager> make_averager(const AveragerOptions& options, std::vector<Slot> slots, DType type);

/// Whether averages with the codec can be taken along the route: gathered codecs need an all-gather, which `ring` and
/// `direct` have. Throws Error(usage) on unknown names.
bool averages_over(std::string_view codec, std::string_view route);

}  // namespace ripieno::collective
