#include "ripieno/collective/powersgd.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/collective/averagers.h"

namespace ripieno::collective {
namespace {

using testing::Averagers;
using testing::Numbers;
using testing::Saved;
using testing::weight_of;

Averagers make(int ranks, std::vector<Slot> slots, PowerSgdOptions powersgd) {
  return Averagers(ranks, slots, [&] {
    AveragerOptions options;
    options.seed = 9;
    return make_powersgd(options, powersgd, slots, DType::fp64);
  });
}

/// Row after row.
struct Dense {
  std::size_t rows, columns;
  std::vector<double> x = std::vector<double>(rows * columns);
  double& operator()(std::size_t i, std::size_t j) { return x[i * columns + j]; }
};

Dense times(Dense a, Dense b) {
  Dense c{a.rows, b.columns};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.columns; ++j) {
      for (std::size_t k = 0; k < a.columns; ++k) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}

Dense transposed(Dense a) {
  Dense t{a.columns, a.rows};
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  }
  return t;
}

void gram_schmidt(Dense& p) {
  for (std::size_t j = 0; j < p.columns; ++j) {
    double square = 0;
    for (std::size_t i = 0; i < j; ++i) {
      double dot = 0;
      for (std::size_t k = 0; k < p.rows; ++k) dot += p(k, i) * p(k, j);
      for (std::size_t k = 0; k < p.rows; ++k) p(k, j) -= dot * p(k, i);
    }
    for (std::size_t k = 0; k < p.rows; ++k) square += p(k, j) * p(k, j);
    for (std::size_t k = 0; k < p.rows; ++k) p(k, j) /= std::sqrt(square);
  }
}

double norm(const std::vector<double>& x) {
  double square = 0;
  for (const double v : x) square += v * v;
  return std::sqrt(square);
}

TEST(PowerSgd, IsThePapersIterationOnOneMatrix) {
  const std::size_t rows = 14, columns = 11, rank = 3;
  const int ranks = 4;
  Averagers averagers = make(ranks, {{rows * columns, {{{0, rows * columns}, rows, columns}}}}, {3});
  // The sum of all M_i is all that the results depend on: its error is that of one worker who has it all.
  Dense q{rank, columns, Saved(*averagers.of[0]).fp64("averager.slot0.q")};  // column after column: transposed
  Dense error{rows, columns};
  for (int round = 0; round < 4; ++round) {
    std::vector<Numbers> numbers = averagers.inputs(round);
    Numbers truth = averagers.zeros();
    averagers.add_truth(numbers, truth);
    Dense m{rows, columns, truth[0]};
    for (std::size_t i = 0; i < m.x.size(); ++i) m.x[i] += error.x[i];
    Dense p = times(m, transposed(q));
    gram_schmidt(p);
    q = times(transposed(p), m);
    const Dense result = times(p, q);
    for (std::size_t i = 0; i < m.x.size(); ++i) error.x[i] = m.x[i] - result.x[i];

    averagers.average(numbers);
    for (std::size_t i = 0; i < m.x.size(); ++i) ASSERT_NEAR(numbers[2][0][i], result.x[i], 1e-10) << "round " << round;
  }
}

TEST(PowerSgd, IsExactAtFullRank) {
  const Slot slot{45 + 45 + 10, {{{0, 45}, 5, 9}, {{50, 95}, 9, 5}}};
  for (int ranks = 1; ranks <= 9; ++ranks) {
    Averagers averagers = make(ranks, {slot}, {.rank = 64, .factor_all = true});
    for (int round = 0; round < 3; ++round) {
      std::vector<Numbers> numbers = averagers.inputs(round);
      Numbers truth = averagers.zeros();
      averagers.add_truth(numbers, truth);
      averagers.average(numbers);
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::size_t i = 0; i < slot.elements; ++i) ASSERT_NEAR(numbers[rank][0][i], truth[0][i], 1e-12);
      }
    }
    // Both matrices went as factors: (5 + 9) + (9 + 5) times the rank 5, and 10 numbers as they are.
    std::uint64_t sent = 0;
    for (int rank = 0; rank < ranks; ++rank) sent += *averagers.of[rank]->bytes_sent(rank, ranks, 0);
    EXPECT_EQ(sent, 2u * (ranks - 1) * (28 * 5 + 10) * 8);
  }
}

TEST(PowerSgd, AveragesAsTheyAreWhatFactorsWouldNotMakeSmaller) {
  const Slot slot{3 * 3 + 20 * 20 + 6, {{{0, 9}, 3, 3}, {{12, 412}, 20, 20}}};
  Averagers averagers = make(3, {slot}, {2});
  std::vector<Numbers> numbers = averagers.inputs(0);
  Numbers truth = averagers.zeros();
  averagers.add_truth(numbers, truth);
  averagers.average(numbers);
  double lost = 0;
  for (std::size_t i = 0; i < slot.elements; ++i) {
    const double off = std::abs(numbers[1][0][i] - truth[0][i]);
    if (i < 12 || i >= 412) {
      EXPECT_LT(off, 1e-15);
    }
    lost += off;
  }
  EXPECT_GT(lost, 1);
}

/// A matrix of rank 2 and a hundredth of noise: what its best approximation of rank 2 leaves is less than the noise.
TEST(PowerSgd, AWarmStartFindsTheBestFactors) {
  const std::size_t rows = 30, columns = 40;
  Random random(4);
  Dense left{rows, 2}, right{2, columns}, noise{rows, columns};
  for (auto* part : {&left, &right, &noise}) {
    for (double& x : part->x) x = random.uniform(-1, 1);
  }
  Dense m = times(left, right);
  for (double& x : noise.x) x *= 0.2;
  for (std::size_t i = 0; i < m.x.size(); ++i) m.x[i] += noise.x[i];

  Averagers averagers = make(3, {{m.x.size(), {{{0, m.x.size()}, rows, columns}}}}, {2, false});
  std::vector<double> left_over;
  for (int round = 0; round < 6; ++round) {
    std::vector<Numbers> numbers(3, Numbers{m.x});
    averagers.average(numbers);
    for (std::size_t i = 0; i < m.x.size(); ++i) numbers[0][0][i] -= m.x[i];
    left_over.push_back(norm(numbers[0][0]));
  }
  EXPECT_LT(left_over[1], left_over[0]);
  EXPECT_LT(left_over.back(), norm(noise.x));
  EXPECT_GT(left_over.front(), norm(noise.x));
}

TEST(PowerSgd, RecoversFromEmptyMatricesAndDependentColumns) {
  const std::size_t rows = 12, columns = 9;
  Averagers averagers = make(2, {{rows * columns, {{{0, rows * columns}, rows, columns}}}}, {3});
  Dense m{rows, columns};  // of rank 1: two of three columns of P depend on the first
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) m(i, j) = (i + 1.0) * (j % 2 ? 1.0 : -2.0);
  }
  for (int round = 0; round < 6; ++round) {
    std::vector<Numbers> numbers(2, Numbers{round < 2 ? std::vector<double>(m.x.size()) : m.x});
    averagers.average(numbers);
    for (std::size_t i = 0; i < m.x.size(); ++i) {
      ASSERT_TRUE(std::isfinite(numbers[0][0][i]));
      if (round < 2) {
        ASSERT_EQ(numbers[0][0][i], 0);
      } else if (round >= 4) {
        ASSERT_NEAR(numbers[0][0][i], m.x[i], 1e-9) << "round " << round;
      }
    }
  }
}

/// The same matrix on all ranks again and again: what is sent in all must follow, up to a bounded residual.
Dense sent_in_all(Averagers& averagers, const Dense& m, int rounds) {
  Dense sent{m.rows, m.columns};
  for (int round = 0; round < rounds; ++round) {
    std::vector<Numbers> numbers(averagers.of.size(), Numbers{m.x});
    averagers.average(numbers);
    for (const Numbers& of_rank : numbers) EXPECT_EQ(of_rank, numbers[0]);
    for (std::size_t i = 0; i < m.x.size(); ++i) sent.x[i] += numbers[0][0][i] / rounds;
  }
  return sent;
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> between(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) between[i] = a[i] - b[i];
  return norm(between) / norm(b);
}

Dense random_matrix(std::size_t rows, std::size_t columns, std::uint64_t seed) {
  Dense m{rows, columns};
  Random random(seed);
  for (double& x : m.x) x = random.uniform(-1, 1);
  return m;
}

/// As an embedding's table under a head of zeros: the first gradient is 0, and the first rows never have one.
TEST(PowerSgd, SendsAMatrixAgainAfterAZeroGradient) {
  const std::size_t rows = 40, columns = 8;
  for (const int ranks : {2, 3}) {
    for (const std::size_t rank : {1, 2, 4}) {
      Dense m = random_matrix(rows, columns, 6);
      std::fill_n(m.x.begin(), rank * columns, 0.0);
      Averagers averagers =
          make(ranks, {{m.x.size(), {{{0, m.x.size()}, rows, columns}}}}, {.rank = static_cast<int>(rank)});
      sent_in_all(averagers, Dense{rows, columns}, 3);
      EXPECT_LT(relative_distance(sent_in_all(averagers, m, 200).x, m.x), 0.1) << "rank " << rank;
    }
  }
}

/// Two blocks without a common row or column, of which one is 0 at first: the other alone fills the rank.
TEST(PowerSgd, SendsPartsOfAMatrixThatWereZeroAtFirst) {
  const std::size_t half = 6, columns = 12;
  for (const int rank : {1, 2, 3}) {
    Dense m = random_matrix(2 * half, columns, 8), first{2 * half, columns};
    for (std::size_t i = 0; i < 2 * half; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        if ((i < half) != (j < half)) m(i, j) = 0;
        if (i < half) first(i, j) = m(i, j);
      }
    }
    Averagers averagers = make(2, {{m.x.size(), {{{0, m.x.size()}, 2 * half, columns}}}}, {rank, true, true});
    sent_in_all(averagers, first, 3);
    EXPECT_LT(relative_distance(sent_in_all(averagers, m, 200).x, m.x), 0.1) << "rank " << rank;
  }
}

TEST(PowerSgd, FindsDirectionsWhateverTheSizeOfNumbers) {
  const std::size_t rows = 30, columns = 20;
  for (const double size : {1e-250, 1e250}) {  // its square is no number of fp64
    const Dense left = random_matrix(rows, 2, 3), right = random_matrix(2, columns, 4);
    Dense m = times(left, right);
    for (double& x : m.x) x *= size;
    Averagers averagers = make(2, {{m.x.size(), {{{0, m.x.size()}, rows, columns}}}}, {2, false});
    for (int round = 0; round < 3; ++round) {
      std::vector<Numbers> numbers(2, Numbers{m.x});
      averagers.average(numbers);
      for (std::size_t i = 0; i < m.x.size(); ++i) {
        ASSERT_NEAR(numbers[0][0][i] / size, m.x[i] / size, 1e-9) << "round " << round;
      }
    }
  }
}

/// Zeros are replaced by the same random numbers in an attempt that is taken again, and by others in the next call.
TEST(PowerSgd, DrawsDirectionsFromItsState) {
  const std::size_t rows = 12, columns = 9;
  Averagers averagers = make(2, {{rows * columns, {{{0, rows * columns}, rows, columns}}}}, {3});
  const auto q_after_zeros = [&] {
    std::vector<Numbers> numbers(2, Numbers{std::vector<double>(rows * columns)});
    averagers.average(numbers);
    const Saved one(*averagers.of[0]), other(*averagers.of[1]);
    EXPECT_EQ(one.spans, other.spans);
    return one.fp64("averager.slot0.q");
  };
  Saved before(*averagers.of[0]);
  const std::vector<double> first = q_after_zeros();
  EXPECT_NE(first, q_after_zeros());
  for (auto& averager : averagers.of) before.restore(*averager);
  EXPECT_EQ(first, q_after_zeros());
  for (const double x : first) EXPECT_NE(x, 0);
}

TEST(PowerSgd, LeavesItsStateAloneWhereNumbersOverflow) {
  const Slot slot{12 * 9 + 4, {{{0, 108}, 12, 9}}};
  for (const std::size_t place : {std::size_t{50}, std::size_t{110}}) {  // in the matrix, and beside it
    Averagers averagers = make(3, {slot}, {2});
    std::vector<Numbers> numbers = averagers.inputs(0);
    averagers.average(numbers);
    std::vector<Saved> before;
    for (auto& one : averagers.of) before.emplace_back(*one);
    numbers = averagers.inputs(1);
    numbers[2][0][place] = std::numeric_limits<double>::infinity();
    averagers.average(numbers);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_FALSE(std::isfinite(numbers[rank][0][place]));
      EXPECT_EQ(Saved(*averagers.of[rank]).spans, before[rank].spans);
    }
  }
}

TEST(PowerSgd, RefusesMatricesThatAreNotTheSlots) {
  const SlotMatrix another_size{Range{0, 13}, 3, 4}, beyond{Range{90, 102}, 3, 4};
  const SlotMatrix one{Range{0, 12}, 3, 4}, across{Range{6, 18}, 3, 4};
  std::vector<std::vector<SlotMatrix>> wrong(3);
  wrong[0].push_back(another_size);
  wrong[1].push_back(beyond);
  wrong[2] = {one, across};
  for (const auto& matrices : wrong) {
    const std::vector<Slot> slots(1, Slot{100, matrices});
    EXPECT_THROW(make_powersgd({}, {}, slots, DType::fp32), Error);
  }
}

}  // namespace
}  // namespace ripieno::collective
