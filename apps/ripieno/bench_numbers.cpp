#include "apps/ripieno/bench_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "apps/ripieno/operations.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::program {
namespace {

constexpr std::size_t block = 1024;

template <class To, class From>
void copy_as(To* to, const From* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

/// Converts numbers of any type to and from fp64.
void convert_any(NumberSpan into, NumberSpan from) {
  const auto ints = [&](auto* number) {
    using T = std::remove_pointer_t<decltype(number)>;
    into.type == DType::fp64 ? copy_as(into.as<double>().data(), from.as<T>().data(), into.count)
                             : copy_as(into.as<T>().data(), from.as<double>().data(), into.count);
  };
  switch (into.type == DType::fp64 ? from.type : into.type) {
    case DType::int64:
      return ints(static_cast<std::int64_t*>(nullptr));
    case DType::int32:
      return ints(static_cast<std::int32_t*>(nullptr));
    case DType::uint8:
      return ints(static_cast<std::uint8_t*>(nullptr));
    default:
      return numeric::convert(into, from);
  }
}

/// The distance from 1 to the next greater number; 0 for integers.
double epsilon(DType type) {
  switch (type) {
    case DType::fp64:
      return 0x1p-52;
    case DType::fp32:
      return 0x1p-23;
    case DType::fp16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return 0;
  }
}

constexpr std::uint32_t prime = 251;       // the number of values that are moved or compared
constexpr int most_doublings = 7;          // the most factors 2 in a product that fits uint8
constexpr std::uint32_t fewest_apart = 4;  // one of every so many ranks has a factor other than 1

int ranks_that_count(int ranks) { return (ranks + 3) / 4; }

/// Of sums: 1 .. so many, so that up to 128 come together.
std::uint32_t addends(int ranks) { return static_cast<std::uint32_t>(std::max(1, 128 / ranks_that_count(ranks) - 1)); }

/// Of products: one 2 among so many ranks.
std::uint32_t ranks_a_doubling(int ranks) {
  return std::max(fewest_apart, static_cast<std::uint32_t>((ranks + most_doublings - 1) / most_doublings));
}

}  // namespace

std::uint32_t BenchNumbers::period() const {
  if (!collective::reduces(operation_)) return prime;
  if (adds()) return fewest_apart * addends(world_.ranks);
  return reduction_ == collective::Reduction::product ? ranks_a_doubling(world_.ranks) : prime;
}

double BenchNumbers::input(int rank, std::size_t i) const {
  const auto r = static_cast<std::size_t>(rank);
  if (collective::reduces(operation_) && adds()) {
    // Ranks that add to the same elements differ in what they add.
    return (7 * r + i) % fewest_apart == 0 ? static_cast<double>(1 + (i + r / fewest_apart) % addends(world_.ranks))
                                           : 0;
  }
  if (collective::reduces(operation_) && reduction_ == collective::Reduction::product)
    return (r + i) % period() == 0 ? 2 : 1;
  return static_cast<double>((89 * r + i) % prime);
}

double BenchNumbers::reduced(std::size_t i) const {
  double all = input(0, i);
  for (int rank = 1; rank < world_.ranks; ++rank) {
    const double one = input(rank, i);
    switch (reduction_) {
      case collective::Reduction::sum:
      case collective::Reduction::mean:
        all += one;
        break;
      case collective::Reduction::product:
        all *= one;
        break;
      case collective::Reduction::minimum:
        all = std::min(all, one);
        break;
      case collective::Reduction::maximum:
        all = std::max(all, one);
        break;
    }
  }
  return all;
}

void BenchNumbers::fill(NumberSpan buffer, int rank) const {
  std::vector<double> values(period());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = input(rank, i);
  std::vector<std::byte> once(values.size() * size_of(buffer.type));
  convert_any(NumberSpan(once.data(), values.size(), buffer.type), NumberSpan(values));
  const Bytes all = buffer.bytes();
  for (std::size_t at = 0; at < all.size(); at += once.size()) {
    std::memcpy(all.data() + at, once.data(), std::min(once.size(), all.size() - at));
  }
}

std::vector<BenchNumbers::Piece> BenchNumbers::promised(std::size_t elements, int rank) const {
  const Range all{0, elements}, own = chunk(elements, world_.ranks, rank);
  const bool is_root = rank == world_.root;
  std::vector<Piece> pieces;
  const auto gather = [&] {
    for (int other = 0; other < world_.ranks; ++other) {
      pieces.push_back({chunk(elements, world_.ranks, other), other, 0});
    }
  };
  switch (operation_) {
    case transport::Collective::all_reduce:
      pieces.push_back({all, -1, 0});
      break;
    case transport::Collective::reduce_scatter:
      pieces.push_back({own, -1, 0});
      break;
    case transport::Collective::all_gather:
      gather();
      break;
    case transport::Collective::broadcast:
      pieces.push_back({all, world_.root, 0});
      break;
    case transport::Collective::reduce:
      if (is_root) pieces.push_back({all, -1, 0});
      break;
    case transport::Collective::gather:
      if (is_root) gather();
      break;
    case transport::Collective::scatter:
      pieces.push_back({own, world_.root, 0});
      break;
    case transport::Collective::all_to_all: {
      const Range mine = collective::block_of(elements, world_.ranks, rank);
      for (int other = 0; other < world_.ranks; ++other) {
        const Range theirs = collective::block_of(elements, world_.ranks, other);
        pieces.push_back(
            {theirs, other, static_cast<std::ptrdiff_t>(mine.begin) - static_cast<std::ptrdiff_t>(theirs.begin)});
      }
      pieces.push_back({{collective::block_of(elements, world_.ranks, world_.ranks).begin, elements},
                        rank,
                        0});  // the rest is left alone
      break;
    }
  }
  return pieces;
}

std::uint64_t BenchNumbers::count_wrong(NumberSpan buffer, int rank) const {
  const bool is_mean = collective::reduces(operation_) && reduction_ == collective::Reduction::mean;
  const double off = is_mean ? 2 * epsilon(buffer.type) : 0;
  std::uint64_t wrong = 0;
  std::vector<double> is(block), expected(period());
  for (const Piece& piece : promised(buffer.count, rank)) {
    for (std::size_t i = 0; i < expected.size(); ++i) {  // of elements with that remainder, in whole periods
      const std::size_t there =
          (i + expected.size() - piece.where.begin % expected.size()) % expected.size() + piece.where.begin;
      expected[i] = piece.from < 0 ? reduced(there) : input(piece.from, there + static_cast<std::size_t>(piece.shift));
      if (is_mean) {
        expected[i] = is_float(buffer.type) ? expected[i] / world_.ranks : std::trunc(expected[i] / world_.ranks);
      }
    }
    for (std::size_t begin = piece.where.begin; begin < piece.where.end; begin += block) {
      const std::size_t end = std::min(begin + block, piece.where.end);
      convert_any(NumberSpan(is.data(), end - begin, DType::fp64), buffer.slice(begin, end));
      for (std::size_t i = begin; i < end; ++i) {
        const double wanted = expected[i % expected.size()];
        wrong += !(std::abs(is[i - begin] - wanted) <= off * wanted);  // so that NaN is wrong
      }
    }
  }
  return wrong;
}

}  // namespace ripieno::program
