// Reductions of numbers at the ends of their type's range, by every operation that reduces.
#include <cmath>
#include <limits>

#include "ranks.h"
#include "ripieno/c10d/combining.h"

namespace ripieno::c10d {
namespace {

using ::c10d::ReduceOp;

template <class T>
constexpr bool is_integer = std::numeric_limits<T>::is_integer;

/// Wide enough for the exact sum of a few numbers.
template <class T>
using Wide = std::conditional_t<is_integer<T>, __int128, long double>;

template <class T>
Wide<T> wide(T x) {
  if constexpr (is_integer<T>)
    return x;
  else
    return static_cast<long double>(static_cast<double>(x));
}

template <class T>
std::vector<T> ends() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> all{Limits::lowest(), Limits::max(), T(0), T(1), T(3)};
  if constexpr (is_integer<T>) {
    all.insert(all.end(), {T(Limits::lowest() + 1), T(Limits::max() - 1), T(-1), T(-2)});
    if constexpr (sizeof(T) >= 4) all.insert(all.end(), {T((1 << 24) + 1), T(1795000000)});
    if constexpr (sizeof(T) == 8) all.push_back((T(1) << 53) + 1);
  } else {
    all.insert(all.end(), {Limits::min(), -Limits::min(), T(Limits::max() / T(2))});
  }
  return all;
}

/// First the same end on all ranks, then all pairs of ends on neighbours.
template <class T>
std::vector<T> of_rank(int rank) {
  const std::vector<T> all = ends<T>();
  std::vector<T> numbers = all;
  for (std::size_t i = 0; i < all.size() * all.size(); ++i)
    numbers.push_back(rank % 2 == 0 ? all[i / all.size()] : all[i % all.size()]);
  return numbers;
}

template <class T>
T wrapped(std::uint64_t x) {
  return static_cast<T>(x);
}

/// What integers give; of floating-point numbers the exact mean, and otherwise the same operation in steps.
template <class T>
T expected(ReduceOp::RedOpType op, const std::vector<T>& numbers) {
  T result = numbers[0];
  Wide<T> sum = wide(result);
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const T next = numbers[i];
    sum += wide(next);
    if (op == ReduceOp::MIN) result = std::min(result, next);
    if (op == ReduceOp::MAX) result = std::max(result, next);
    if constexpr (is_integer<T>) {
      const auto a = static_cast<std::uint64_t>(result), b = static_cast<std::uint64_t>(next);
      if (op == ReduceOp::SUM) result = wrapped<T>(a + b);
      if (op == ReduceOp::PRODUCT) result = wrapped<T>(a * b);
      if (op == ReduceOp::BAND) result = wrapped<T>(a & b);
      if (op == ReduceOp::BOR) result = wrapped<T>(a | b);
      if (op == ReduceOp::BXOR) result = wrapped<T>(a ^ b);
    } else {
      if (op == ReduceOp::SUM) result = result + next;
      if (op == ReduceOp::PRODUCT) result = result * next;
    }
  }
  return op == ReduceOp::AVG ? static_cast<T>(sum / static_cast<Wide<T>>(numbers.size())) : result;
}

template <class T>
at::Tensor tensor_of(const std::vector<T>& numbers) {
  const at::Tensor tensor = at::empty({static_cast<std::int64_t>(numbers.size())}, c10::CppTypeToScalarType<T>::value);
  std::memcpy(tensor.data_ptr(), numbers.data(), tensor.nbytes());
  return tensor;
}

/// By every operation that reduces: what this rank gets of it.
std::vector<std::pair<const char*, at::Tensor>> reduced(Backend& group, const at::Tensor& mine, ReduceOp op) {
  std::vector<std::pair<const char*, at::Tensor>> results;
  results.emplace_back("all_reduce", all_reduced(group, mine.clone(), op));

  Tensors several{mine.clone(), mine.clone()};
  ::c10d::AllreduceCoalescedOptions coalesced;
  coalesced.reduceOp = op;
  group.allreduce_coalesced(several, coalesced)->wait();
  results.emplace_back("all_reduce_coalesced", several[1]);

  Tensors at_root{mine.clone()};
  ::c10d::ReduceOptions to_root;
  to_root.reduceOp = op;
  group.reduce(at_root, to_root)->wait();
  if (group.getRank() == 0) results.emplace_back("reduce", at_root[0]);

  ::c10d::ReduceScatterOptions scattered;
  scattered.reduceOp = op;
  at::Tensor whole = mine.repeat({group.getSize()}), part = at::empty_like(mine);
  group._reduce_scatter_base(part, whole, scattered)->wait();
  results.emplace_back("reduce_scatter_tensor", part);

  Tensors wholes{whole, whole}, parts{at::empty_like(mine), at::empty_like(mine)};
  group.reduce_scatter_tensor_coalesced(parts, wholes, scattered)->wait();
  results.emplace_back("reduce_scatter_tensor_coalesced", parts[1]);
  return results;
}

/// Means are rounded. In steps of another order, sums and products of floating-point numbers differ, and may leave the
/// range on the way.
template <class T>
bool is_close(T got, T expected, const std::vector<T>& numbers, ReduceOp::RedOpType op) {
  if (is_integer<T> || got == expected) return got == expected;
  long double sum = 0, most = 1, least = 1;
  for (const T x : numbers) {
    const long double size = std::abs(static_cast<long double>(wide(x)));
    sum += size;
    most *= std::max(size, 1.0L);
    if (size > 0) least *= std::min(size, 1.0L);
  }
  using Limits = std::numeric_limits<T>;
  const long double largest = wide(Limits::max()), smallest = wide(Limits::min());
  if (op == ReduceOp::SUM && sum > largest) return true;
  if (op == ReduceOp::PRODUCT && (most > largest || least < smallest)) return true;
  const long double size = op == ReduceOp::PRODUCT ? std::abs(static_cast<long double>(wide(expected))) : sum;
  const long double apart = std::abs(static_cast<long double>(wide(got)) - static_cast<long double>(wide(expected)));
  const bool is_rounded = op == ReduceOp::SUM || op == ReduceOp::AVG || op == ReduceOp::PRODUCT;
  return is_rounded &&
         apart <= 2 * wide(std::numeric_limits<T>::epsilon()) * size + wide(std::numeric_limits<T>::denorm_min());
}

template <class T>
struct ReductionEnds : testing::Test {};
using Types = testing::Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, c10::Half,
                             c10::BFloat16, float, double>;
TYPED_TEST_SUITE(ReductionEnds, Types);

TYPED_TEST(ReductionEnds, AreExactOrRounded) {
  using T = TypeParam;
  std::vector<ReduceOp::RedOpType> ops{ReduceOp::SUM, ReduceOp::AVG, ReduceOp::PRODUCT, ReduceOp::MIN, ReduceOp::MAX};
  if (is_integer<T>) ops.insert(ops.end(), {ReduceOp::BAND, ReduceOp::BOR, ReduceOp::BXOR});
  for (const int size : {1, 2, 3, 4}) {
    on_ranks(size, [&](Backend& group) {
      const std::vector<T> mine = of_rank<T>(group.getRank());
      for (const ReduceOp::RedOpType op : ops) {
        for (const auto& [name, result] : reduced(group, tensor_of(mine), op)) {
          const T* const got = result.template const_data_ptr<T>();
          for (std::size_t i = 0; i < mine.size(); ++i) {
            std::vector<T> numbers;
            for (int rank = 0; rank < size; ++rank) numbers.push_back(of_rank<T>(rank)[i]);
            const T right = expected(op, numbers);
            EXPECT_TRUE(is_close(got[i], right, numbers, op))
                << name << " " << name_of(op) << " of " << testing::PrintToString(numbers) << ": " << +got[i]
                << ", not " << +right;
          }
        }
      }
    });
  }
}

TEST(ReductionEnds, MeansOfWhatIsNotFiniteAreNot) {
  on_ranks(3, [](Backend& group) {
    const double infinity = std::numeric_limits<double>::infinity();
    for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
      const double mine = group.getRank() == 1 ? infinity : 1;
      const at::Tensor mean = all_reduced(group, at::tensor({mine, -mine}).to(type), ReduceOp::AVG).to(at::kFloat);
      EXPECT_TRUE(mean.equal(at::tensor({infinity, -infinity}))) << type << mean;
      const double other = group.getRank() == 0 ? -infinity : mine;
      EXPECT_TRUE(all_reduced(group, at::tensor({other}).to(type), ReduceOp::AVG).isnan().all().item<bool>()) << type;
    }
  });
}

TEST(ReductionEnds, IntegersTakeAWholeFactor) {
  on_ranks(2, [](Backend& group) {
    const auto by = [&](double factor) {
      return all_reduced(group, at::tensor({(std::int64_t{1} << 53) + 1, std::int64_t{-3}}, at::kLong),
                         ::c10d::makePreMulSum(factor));
    };
    EXPECT_TRUE(by(3).equal(at::tensor({6 * ((std::int64_t{1} << 53) + 1), std::int64_t{-18}}, at::kLong)));
    EXPECT_EQ(
        error_of([&] { by(0.5); }),
        "all_reduce with premul by 0.5 of Long: integers take a whole factor; give one, or convert the tensor first");
  });
}

}  // namespace
}  // namespace ripieno::c10d
