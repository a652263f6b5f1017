#include "ripieno/report/format.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ripieno::report {
namespace {

TEST(Format, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(1379000), "1.38 MB");
  EXPECT_EQ(format_bytes(12.5e9), "12.5 GB");
  EXPECT_EQ(format_bytes(999.4e3), "999 kB");
  EXPECT_EQ(format_bytes(999.6e3), "1.00 MB");  // rounds into the next unit
  EXPECT_EQ(format_bytes(9.996e6), "10.0 MB");
  EXPECT_EQ(format_bytes(5e18), "5000 PB");
  EXPECT_EQ(format_bytes(-2500), "-2.50 kB");
  EXPECT_EQ(format_bytes(NAN), "nan B");
}

TEST(Format, Seconds) {
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(2.5e-8), "25.0 ns");
  EXPECT_EQ(format_seconds(4.5e-5), "45.0 µs");
  EXPECT_EQ(format_seconds(0.85), "850 ms");
  EXPECT_EQ(format_seconds(0.9996), "1.00 s");
  EXPECT_EQ(format_seconds(12.34), "12.3 s");
  EXPECT_EQ(format_seconds(119.4), "119 s");
  EXPECT_EQ(format_seconds(119.6), "2 min 0 s");
  EXPECT_EQ(format_seconds(200), "3 min 20 s");
  EXPECT_EQ(format_seconds(3599.6), "1 h 0 min");
  EXPECT_EQ(format_seconds(7500), "2 h 5 min");
  EXPECT_EQ(format_seconds(-0.85), "-850 ms");
}

TEST(Format, CountsAndShares) {
  EXPECT_EQ(format_count(std::int64_t{0}), "0");
  EXPECT_EQ(format_count(std::int64_t{999}), "999");
  EXPECT_EQ(format_count(std::int64_t{1000}), "1,000");
  EXPECT_EQ(format_count(std::int64_t{-1234567}), "-1,234,567");
  EXPECT_EQ(format_count(std::int64_t{-123}), "-123");
  EXPECT_EQ(format_count(INT64_MIN), "-9,223,372,036,854,775,808");
  EXPECT_EQ(format_count(1999.5), "2,000");
  EXPECT_EQ(format_count(INFINITY), "inf");
  EXPECT_EQ(format_percent(0.98123), "98.1 %");
  EXPECT_EQ(format_percent(1, 0), "100 %");
  EXPECT_EQ(format_fixed(0.1, 3), "0.100");
  EXPECT_EQ(format_fixed(-INFINITY, 3), "-inf");
}

}  // namespace
}  // namespace ripieno::report
