// What ranks hold before a benchmark's operation, and what they must hold after it. Whole numbers of at most 250, which
// every type and wire format holds exactly, and so all sums and products on the way. They repeat after a few hundred
// elements, and differ by rank and place: what is lost, doubled or in a wrong place is noticed.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/collective/schedule.h"
#include "ripieno/core/span.h"

namespace ripieno::program {

/// Of up to 512 ranks.
class BenchNumbers {
 public:
  BenchNumbers(transport::Collective operation, collective::Reduction reduction, collective::World world)
      : operation_(operation), reduction_(reduction), world_(world) {}

  /// Writes what `rank` begins with. Where the operation only writes, too, there is something of that rank's.
  void fill(NumberSpan buffer, int rank) const;

  /// Elements that are not what the operation promises `rank` (schedule.h's table). Means of floating-point numbers may
  /// be off by two units in the last place.
  std::uint64_t count_wrong(NumberSpan buffer, int rank) const;

 private:
  /// A part of a buffer in which element i is to be what rank `from` held in element i + shift; from < 0: what all came
  /// to in element i.
  struct Piece {
    Range where;
    int from = -1;
    std::ptrdiff_t shift = 0;
  };
  std::vector<Piece> promised(std::size_t elements, int rank) const;

  bool adds() const { return reduction_ == collective::Reduction::sum || reduction_ == collective::Reduction::mean; }
  std::uint32_t period() const;
  double input(int rank, std::size_t i) const;
  double reduced(std::size_t i) const;

  transport::Collective operation_;
  collective::Reduction reduction_;
  collective::World world_;
};

}  // namespace ripieno::program
