// The numbers that ranks hold before a benchmark's operation, and must hold after it: integers up to 250, which every
// type and wire format represents exactly, as it does all partial sums and products. They repeat after a few hundred
// elements and differ by rank and place, so that lost, doubled or misplaced numbers are noticed; of sums of more than
// 40 ranks, and of products of more than 4, some ranks' numbers are alike, since the result must fit 8 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "ripieno/collective/schedule.h"
#include "ripieno/core/span.h"

namespace ripieno::program {

/// For up to 512 ranks.
class BenchNumbers {
 public:
  BenchNumbers(transport::Collective operation, collective::Reduction reduction, collective::World world)
      : operation_(operation), reduction_(reduction), world_(world) {}

  /// Fills `rank`'s buffer for the start, also the parts that the operation only writes.
  void fill(NumberSpan buffer, int rank) const;

  /// The number of elements that differ from what the operation promises `rank` (the table in schedule.h). Means of
  /// floating-point numbers may be off by two units in the last place.
  std::uint64_t count_wrong(NumberSpan buffer, int rank) const;

 private:
  /// A part of a buffer in which element i must be rank `from`'s element i + shift; from < 0: the reduction of all
  /// ranks' element i.
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
