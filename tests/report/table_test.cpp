#include "ripieno/report/table.h"

#include <gtest/gtest.h>

#include "ripieno/core/error.h"

namespace ripieno::report {
namespace {

TEST(Table, AlignsAndStripsTrailingSpaces) {
  Table table;
  table.column("name").column("MB\nsent", Align::right).column("note");
  table.row({"ring", "1.5", ""}).row({"tree-é", "12.25", "ok"});
  EXPECT_EQ(table.str(),
            "           MB\n"
            "name     sent  note\n"
            "──────  ─────  ────\n"
            "ring      1.5\n"
            "tree-é  12.25  ok\n");
  EXPECT_EQ(table.width(), 19u);
  EXPECT_EQ(table.rows(), 2u);
}

TEST(Table, Markdown) {
  Table table;
  table.column("a|b").column("MB\nsent", Align::right);
  table.row({"x|y", "1 "});
  EXPECT_EQ(table.markdown(), "| a\\|b | MB sent |\n| :--- | ---: |\n| x\\|y | 1 |\n");
}

TEST(Table, DisplayWidth) {
  EXPECT_EQ(display_width(""), 0u);
  EXPECT_EQ(display_width("0.98 ± 0.01"), 11u);
  EXPECT_EQ(display_width("e\xcc\x81"), 1u);  // e and a combining acute accent
  EXPECT_EQ(display_width("漢字"), 4u);
  EXPECT_EQ(display_width("\xf0\x9f\x98\x80"), 2u);  // an emoji
  EXPECT_EQ(display_width("\xff\xc3"), 2u);          // not UTF-8, and cut short
  EXPECT_EQ(display_width("\xe2\x82x"), 3u);
}

TEST(Table, Shorten) {
  EXPECT_EQ(shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(shorten("abcdefg", 6), "abc…fg");
  EXPECT_EQ(shorten("abcdefg", 1), "…");
  for (std::size_t width = 1; width < 12; ++width) {
    EXPECT_LE(display_width(shorten("漢字 and é, 漢字", width)), width) << width;
  }
}

TEST(Table, MisuseIsAnError) {
  Table table;
  table.column("a").row({"1"});
  EXPECT_THROW(table.row({"1", "2"}), Error);
  EXPECT_THROW(table.column("b"), Error);
}

}  // namespace
}  // namespace ripieno::report
