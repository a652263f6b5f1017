// Averager: a route and a codec combined into one operation. After average() every member holds the same bits. Changes
// to the averager's own state (residuals, factors, random draws) are staged until commit(). The kind of the codec
// (codec/codec.h) decides how the two are combined:
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

/// A matrix in a slot: rows x columns numbers, row-major.
struct SlotMatrix {
  Range range;
  std::size_t rows = 0, columns = 0;
};

/// Numbers that are averaged together: a bucket of gradients, a fragment of the model.
struct Slot {
  std::size_t elements = 0;
  std::vector<SlotMatrix> matrices = {};  ///< ascending and disjoint; PowerSGD does not compress numbers outside them
};

struct AveragerOptions {
  std::string route = "ring";
  std::string small_route =
      "auto";  ///< for slots of up to small_bytes bytes in memory; auto: as `route`. Wire formats only
  std::size_t small_bytes = 0;
  codec::CodecOptions codec = {};
  std::size_t segment_bytes = 0;  ///< see ExecuteOptions; wire formats only
  std::uint64_t seed = 0;         ///< for random rounding and PowerSGD's first factors
  bool last_first = false;  ///< among slots in flight at once, messages of the later slot go first; wire formats only
};

class Averager {
 public:
  virtual ~Averager() = default;

  /// Replaces `numbers`, of which slot `slot` has as many, by the sum over members of weight * numbers; for an average
  /// the members' weights add up to 1. Different slots may be in flight at once. The first call over a communicator
  /// takes channels for all slots, so members begin their averagers in the same order. The residuals of members that
  /// have left the group are lost.
  virtual Task<> average(Communicator comm, std::size_t slot, NumberSpan numbers, double weight) = 0;

  /// Commits the changes that the slot's last average() has staged. Without it, the next average() begins again from
  /// the last committed state, and gives the same bits. A member that learns from others that all have finished the
  /// average may commit it even if its own call was broken off: its part in it was done.
  virtual void commit(std::size_t slot) = 0;

  /// As average(), and calls `averaged` with each part of the slot as soon as it is averaged and no longer read: with
  /// wire formats with its segments, in any order; else with the whole slot.
  virtual Task<> average_by_parts(Communicator comm, std::size_t slot, NumberSpan numbers, double weight,
                                  std::function<void(Range)> averaged);

  /// Payload bytes that `rank` sends in one average() of a slot, in closed form; nullopt if they depend on the
  /// numbers, or along the route native.
  virtual std::optional<std::uint64_t> bytes_sent(int rank, World world, std::size_t slot) const = 0;

  /// Shows the state that a resumed run needs: residuals, warm starts, random draws. Names begin with "averager.".
  virtual void visit(StateVisitor& visitor) = 0;
  /// Shows the part of the state that is the same on all members.
  virtual void visit_shared(StateVisitor&) {}
};

/// Makes an averager of slots that hold `type` in memory. Throws Error(usage) on unknown names, options out of range,
/// and a codec that the route cannot carry (averages_over).
std::unique_ptr<Averager> make_averager(const AveragerOptions& options, std::vector<Slot> slots, DType type);

/// Whether the route can carry averages with the codec: gathered codecs need an all-gather, which `ring` and `direct`
/// have. Throws Error(usage) on unknown names.
bool averages_over(std::string_view codec, std::string_view route);

}  // namespace ripieno::collective
