// What figures look like: colours, and what part of an axis is drawn.
#include <gtest/gtest.h>

#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/looks.h"
#include "ripieno/report/report.h"
#include "ripieno/report/scale.h"
#include "tests/report/runs.h"

namespace ripieno::report {
namespace {

using testing::made_run;

Figure bars(const std::vector<double>& lengths) {
  Figure figure{"bars", "", "", Form::bars, {"way"}, "s", {}, {{"time", {}, lengths, {}, {}, {}}}};
  for (std::size_t i = 0; i < lengths.size(); ++i) figure.categories.push_back(std::to_string(i));
  return figure;
}

Figure curves(const char* unit, const std::vector<std::vector<double>>& lines) {
  Figure figure{"lines", "", "", Form::lines, {"seconds"}, unit, {}, {}};
  for (const auto& y : lines) {
    std::vector<double> x;
    for (std::size_t i = 0; i < y.size(); ++i) x.push_back(static_cast<double>(i + 1));
    figure.series.push_back({"", {x}, y, {}, {}, {}});
  }
  return figure;
}

TEST(Looks, NoTwoCellsLookAlike) {
  std::vector<report::Run> runs;
  for (int i = 0; i < 40; ++i) runs.push_back(made_run(text("way-", i), 2, 0));
  for (int workers = 3; workers < 12; ++workers) runs.push_back(made_run("way-0", workers, 0));
  std::set<std::tuple<int, int, int>> seen;
  const auto all = cells(runs);
  for (const Cell& cell : all) {
    EXPECT_TRUE(seen.emplace(cell.look.colour, cell.look.dash, cell.look.marker).second) << cell.name;
    EXPECT_LT(cell.look.colour, colours);
    EXPECT_LT(cell.look.dash, dashes);
    EXPECT_LT(cell.look.marker, markers);
  }
  std::set<int> first;
  for (std::size_t i = 0; i < 12; ++i) first.insert(all[i].look.colour);
  EXPECT_EQ(first.size(), 12u);
  EXPECT_EQ(all.back().look.colour, all[0].look.colour) << "a way keeps its colour over workers";
}

TEST(Looks, AStrategyKeepsItsColourOverReports) {
  const auto colour = [](const std::vector<const char*>& names, const std::string& of) {
    std::vector<report::Run> runs;
    for (const char* name : names) {
      runs.push_back(made_run(name, 2, 0));
      runs.back().summary.strategy = std::string(name).substr(0, std::string(name).find('+'));
    }
    for (const Cell& cell : cells(runs)) {
      if (cell.name == of) return cell.look.colour;
    }
    return -1;
  };
  for (const std::string way : {"ring", "ddp", "local-sgd", "ps-async"}) {
    const int alone = colour({way.c_str()}, way);
    EXPECT_EQ(colour({"ring+fp16", "fedavg", "ps-async", "local-sgd", "ddp", "gather-scatter", "ring"}, way), alone)
        << way;
    EXPECT_EQ(colour({"own", way.c_str(), "ring+int8", "ring+topk", "ring+sign"}, way), alone) << way;
  }
  std::set<int> different;
  for (const char* way : {"ring", "ring+fp16", "ring+int8", "ring+topk", "ddp"})
    different.insert(colour({"ring+fp16", "ring", "ring+int8", "ring+topk", "ddp"}, way));
  EXPECT_EQ(different.size(), 5u) << "codecs do not share a colour while others are free";
}

TEST(Looks, AreTheSameInAllFiguresWhateverTheOrder) {
  std::vector<report::Run> runs{made_run("slow", 2, 0), made_run("fast", 2, 0)};
  runs[1].summary.seconds.epoch = {1, 1};
  const Report report = report_of(runs, "");
  std::size_t found = 0;
  std::map<std::string, int> colours_of;
  for (const Cell& cell : cells(runs)) colours_of[cell.name] = cell.look.colour;
  EXPECT_NE(colours_of["slow"], colours_of["fast"]);
  for (const Figure& figure : report.figures) {
    for (const Series& series : figure.series) {
      if (series.name == "slow" || series.name == "fast") {
        EXPECT_EQ(series.look.colour, colours_of[series.name]) << figure.id;
        ++found;
      }
    }
    for (std::size_t i = 0; i < figure.category_looks.size(); ++i)
      EXPECT_EQ(figure.category_looks[i].colour, colours_of.at(figure.categories[i])) << figure.id;
  }
  EXPECT_GT(found, 6u);
  EXPECT_EQ(report.figures[0].categories, (std::vector<std::string>{"fast", "slow"})) << "the fastest is on top";
}

TEST(Scale, ABarFarAboveTheOthersIsCut) {
  EXPECT_EQ(scale_of(bars({1, 2, 3, 9})), Scale{});
  EXPECT_EQ(scale_of(bars({1, 1, 1, 10, 20})), Scale{}) << "the next one is not flattened";
  const Scale cut = scale_of(bars({1, 2, 3, 90}));
  EXPECT_GT(cut.high, 3);
  EXPECT_LT(cut.high, 10);
  EXPECT_EQ(scale_of(bars({1, 90})), Scale{}) << "of two neither is the odd one";
  Figure shares = bars({1, 2, 3, 90});
  shares.x_titles = {"updates by others"};
  EXPECT_EQ(scale_of(shares), Scale{}) << "of other bars nothing is cut";
}

TEST(Scale, ALineThatEndsFarBelowIsLeftBelow) {
  const char* accuracy = "% of the test set";
  EXPECT_EQ(scale_of(curves(accuracy, {{50, 95}, {60, 96}, {40, 90}})), Scale{});
  const Scale cut = scale_of(curves(accuracy, {{50, 95}, {60, 96}, {40, 90}, {10, 11}}));
  EXPECT_LT(cut.low, 40);
  EXPECT_GT(cut.low, 11);
  EXPECT_GT(cut.high, 96);
}

TEST(Scale, ARankFarAboveTheOthersMakesTheAxisLogarithmic) {
  EXPECT_FALSE(scale_of(curves("MB sent a second", {{1, 2}, {3, 4}})).is_log);
  EXPECT_TRUE(scale_of(curves("MB sent a second", {{1, 2}, {300, 400}})).is_log);
}

TEST(Scale, TimesThatLieFarApartAreLogarithmic) {
  Figure figure = curves("", {{1, 2}, {1, 2}});
  EXPECT_FALSE(is_x_log(figure, 0));
  figure.series[1].x[0] = {10, 21};
  EXPECT_TRUE(is_x_log(figure, 0));
  figure.series[1].x[0] = {0, 21};
  EXPECT_FALSE(is_x_log(figure, 0));
}

}  // namespace
}  // namespace ripieno::report
