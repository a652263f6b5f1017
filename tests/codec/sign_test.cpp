#include "ripieno/codec/sign.h"

#include <gtest/gtest.h>

#include "tests/codec/cases.h"

namespace ripieno::codec {
namespace {

template <class T>
void sign_by_hand() {
  // First block: magnitudes add up to 16, their mean is 2 (fp32 0x40000000); numbers 1 and 3 are negative: 2 + 8 =
  // 0x0A. Second block: 5 (fp32 0x40A00000), negative.
  const std::vector<T> x = {1, -2, 3, -4, 0, 0, 0, 6, -5};
  Random random(1);
  const auto codec = make_sign(8);
  const auto bytes = encoded(*codec, x, random);
  EXPECT_EQ(bytes, bytes_of({0, 0, 0, 0x40, 0x0A, 0, 0, 0xA0, 0x40, 1}));
  EXPECT_EQ(decoded<T>(*codec, bytes, 9), (std::vector<T>{2, -2, 2, -2, 2, 2, 2, 2, -5}));
}

TEST(Sign, ByHandFp32) { sign_by_hand<float>(); }
TEST(Sign, ByHandFp64) { sign_by_hand<double>(); }

template <class T>
void contracts_as_promised() {
  Random random(2);
  for (const std::size_t block : {8u, 64u, 256u}) {
    const auto codec = make_sign(block);
    for (const std::size_t m : {block, block - 1, block / 2 + 3}) {
      for (int round = 0; round < 100; ++round) {
        const auto x = numbers<T>(m, random);
        const auto bytes = encoded(*codec, x, random);
        const auto y = decoded<T>(*codec, bytes, m);
        double sum = 0;
        for (const T value : x) sum += std::abs(double(value));
        for (std::size_t i = 0; i < m; ++i) {
          ASSERT_NEAR(std::abs(y[i]), sum / double(m), sum / double(m) * 1e-7);
          ASSERT_EQ(y[i] < 0, x[i] < 0) << x[i];
        }
        ASSERT_NEAR(square(x, y), square(x) - sum * sum / double(m), square(x) * 1e-6);
        ASSERT_EQ(encoded(*codec, y, random), bytes);
      }
    }
  }
}

TEST(Sign, ContractsAsPromisedFp32) { contracts_as_promised<float>(); }
TEST(Sign, ContractsAsPromisedFp64) { contracts_as_promised<double>(); }

}  // namespace
}  // namespace ripieno::codec
