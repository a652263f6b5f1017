#include "ripieno/collective/halving_doubling.h"

#include <bit>

namespace ripieno::collective::halving_doubling {
namespace {

/// Chunks [first, first + count) of `parts`, as elements.
Range block(std::size_t elements, int parts, int first, int count) {
  return {chunk(elements, parts, first).begin, chunk(elements, parts, first + count - 1).end};
}

/// Steps 0 and 3: between rank r < P - Q and rank r + Q, the whole buffer.
Step fold(int rank, int ranks, int q, std::size_t elements, bool unfold) {
  const bool extra = rank >= q;
  const int peer = extra ? rank - q : rank + q;
  if (peer >= ranks) return {};
  const Transfer transfer{peer, Range{0, elements}, unfold ? numeric::Reduce::replace : numeric::Reduce::add};
  if (extra != unfold) return {.sends = transfer, .receives = {}};
  return {.sends = {}, .receives = transfer};
}

}  // namespace

int steps(World world) {
  const int ranks = world.ranks;
  const int q = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  return 2 * std::countr_zero(static_cast<unsigned>(q)) + (q == ranks ? 0 : 2);
}

Step step(int rank, World world, std::size_t elements, int k) {
  const int ranks = world.ranks;
  const int q = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const int levels = std::countr_zero(static_cast<unsigned>(q));
  if (q != ranks) {
    if (k == 0 || k == steps(ranks) - 1) return fold(rank, ranks, q, elements, k != 0);
    if (rank >= q) return {};
    k -= 1;
  }
  const bool halving = k < levels;
  const int j = halving ? k : 2 * levels - 1 - k;
  // Before halving j (and after doubling j) a rank's block is the 2^(L-j) chunks that share its upper j bits.
  const int half = q >> (j + 1);
  const int first = rank & ~(2 * half - 1);
  const int mine = rank & half ? first + half : first;
  const int other = rank & half ? first : first + half;
  const Range mine_range = block(elements, q, mine, half), other_range = block(elements, q, other, half);
  const int peer = rank ^ half;
  if (halving) {
    return {.sends = Transfer{peer, other_range, numeric::Reduce::add},
            .receives = Transfer{peer, mine_range, numeric::Reduce::add}};
  }
  return {.sends = Transfer{peer, mine_range, numeric::Reduce::replace},
          .receives = Transfer{peer, other_range, numeric::Reduce::replace}};
}

Duration time(World world, std::uint64_t bytes, transport::LinkModel link) {
  const int ranks = world.ranks;
  const int q = static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  const int levels = std::countr_zero(static_cast<unsigned>(q));
  const Duration whole = link.latency + link.per_byte * static_cast<std::int64_t>(bytes);
  return 2 * levels * link.latency + 2 * (q - 1) * (link.per_byte * static_cast<std::int64_t>(bytes / q)) +
         (q == ranks ? Duration{0} : 2 * whole);
}

}  // namespace ripieno::collective::halving_doubling
