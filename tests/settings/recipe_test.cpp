#include "apps/ripieno/recipe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/core/file.h"
#include "tests/support/temporary_folder.h"

namespace ripieno {
namespace {

using Names = std::vector<std::string>;

program::Recipe read(const std::string& toml, std::vector<std::string> sets = {}) {
  return program::load_recipe_text(toml, "r.toml", sets);
}

Names names(const program::Recipe& recipe) {
  Names all;
  for (const program::RecipeCell& cell : recipe.cells) all.push_back(cell.name);
  return all;
}

/// What is thrown, which must be an Error(usage) of one line.
std::string refused(const std::string& toml, std::vector<std::string> sets = {}) {
  try {
    read(toml, sets);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

TEST(Recipe, WithoutGridIsOneCell) {
  const program::Recipe recipe = read("title = 'One'\nworkers = 3\nbatch.global = 64\n", {"workers=5"});
  EXPECT_EQ(recipe.title, "One");
  EXPECT_EQ(recipe.seeds, 1);
  ASSERT_EQ(recipe.cells.size(), 1u);
  EXPECT_EQ(recipe.cells[0].name, "ring");
  EXPECT_TRUE(recipe.cells[0].varies.empty());
  EXPECT_EQ(recipe.cells[0].settings->workers, 5);
  EXPECT_EQ(names(read("batch.global = 1\nrun.name = '../my run'")), Names{"_._my_run"});
}

/// At once, and with their number: it would fill the memory with settings.
TEST(Recipe, TooManyCellsAreRefusedBeforeAnyIsMade) {
  std::string values;
  for (int i = 1; i <= 300; ++i) values += text(i == 1 ? "" : ", ", i);
  const std::string grid =
      text("[grid]\nworkers = [", values, "]\nseed = [", values, "]\nbatch.per_worker = [", values, "]\n");
  try {
    read("seeds = 2\n" + grid);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(error.what()).find("27000000 cells, with 2 seeds each 54000000 runs"), std::string::npos)
        << error.what();
  }
}

TEST(Recipe, ProductInFileOrderSeedsInnermost) {
  // File order is neither that of the alphabet nor that of the table.
  const program::Recipe recipe = read(R"(
seed = 7
seeds = 2
batch.per_worker = 8
[grid]
workers = [2, 4]
strategy = ["tree", "ring"]
model = ["vgg11"]
[grid.exchange]
codec = ["fp16", "fp32"]
)");
  EXPECT_EQ(recipe.seeds, 2);
  EXPECT_EQ(names(recipe),
            (Names{"workers2-tree-fp16", "workers2-tree-fp16", "workers2-tree-fp32", "workers2-tree-fp32",
                   "workers2-ring-fp16", "workers2-ring-fp16", "workers2-ring-fp32", "workers2-ring-fp32",
                   "workers4-tree-fp16", "workers4-tree-fp16", "workers4-tree-fp32", "workers4-tree-fp32",
                   "workers4-ring-fp16", "workers4-ring-fp16", "workers4-ring-fp32", "workers4-ring-fp32"}));
  const program::RecipeCell& cell = recipe.cells[7];
  EXPECT_EQ(cell.seed_index, 1);
  EXPECT_EQ(cell.settings->seed, 8u);
  EXPECT_EQ(recipe.cells[6].settings->seed, 7u);
  EXPECT_EQ(cell.settings->strategy, "ring");
  EXPECT_EQ(cell.settings->plan.exchange.codec.name, "fp32");
  EXPECT_EQ(cell.settings->model, "vgg11");
  EXPECT_EQ(cell.settings.origin("exchange.codec"), "r.toml:10");
  EXPECT_EQ(cell.settings.origin("seed"), "seeds");
  const std::vector<std::pair<std::string, std::string>> varies{
      {"workers", "2"}, {"strategy", "ring"}, {"exchange.codec", "fp32"}};
  EXPECT_EQ(cell.varies, varies);
}

TEST(Recipe, AScaleGoesBeforeTheRecipeAndAfterSet) {
  const std::string toml = R"(
seed = 7
seeds = 3
batch.per_worker = 8
train.epochs = 100
[grid]
workers = [2, 4]
strategy = ["tree", "ring"]
[scale.quick]
seeds = 1
workers = 2
train.epochs = 1
data.train_samples = 1000
[scale.gpu]
batch.per_worker = 512
[[scale.gpu.grid]]
strategy = ["ddp"]
workers = [8, 16]
)";
  const auto scaled = [&](const std::string& scale, std::vector<std::string> sets = {}) {
    return program::load_recipe_text(toml, "r.toml", sets, scale);
  };
  EXPECT_EQ(scaled("").cells.size(), 12u);
  EXPECT_EQ(scaled("").cells[0].settings->plan.epochs, 100u);
  const program::Recipe quick = scaled("quick", {"data.train_samples=64"});
  EXPECT_EQ(names(quick), (Names{"tree", "ring"}));
  EXPECT_EQ(quick.cells[0].settings->plan.epochs, 1u);
  EXPECT_EQ(quick.cells[0].settings->data.train_samples, 64u);
  EXPECT_EQ(quick.cells[0].settings->batch.per_worker, 8u);
  EXPECT_EQ(quick.cells[0].settings.origin("train.epochs"), "r.toml:12");
  EXPECT_EQ(names(scaled("gpu")), (Names{"workers8", "workers8", "workers8", "workers16", "workers16", "workers16"}));
  try {
    scaled("huge");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "r.toml: has no [scale.huge]; its scales are gpu, quick");
  }
  EXPECT_NE(refused("batch.global = 8\n[scale.quick]\ntrian.epochs = 1\n").find("r.toml:3:"),
            std::string::npos);  // though nobody asked for it
}

TEST(Recipe, NamesOfEveryType) {
  EXPECT_EQ(names(read("batch.global = 8\n[grid]\n'data.flip' = [true, false]\nlearning_rate.base = [1, 0.05]")),
            (Names{"flip-base1.0", "flip-base0.05", "no-flip-base1.0", "no-flip-base0.05"}));
  EXPECT_EQ(names(read("batch.global = 8\n[grid]\nsimulated.slow = [[], [1, 2]]\nrun.folder = ['', 'a/b']")),
            (Names{"slow-no-folder", "slow-a_b", "slow1.0_2.0-no-folder", "slow1.0_2.0-a_b"}));
}

TEST(Recipe, ADefaultThatAnotherGridVariesIsNotInTheName) {
  const std::string ways =
      "[[grid]]\nstrategy = ['ring', 'ddp']\n[[grid]]\nstrategy = ['ddp']\nexchange.codec = ['int8', 'fp16']\n";
  EXPECT_EQ(names(read("batch.global = 8\n" + ways)), (Names{"ring", "ddp", "ddp-int8", "ddp-fp16"}));
  EXPECT_EQ(names(read("batch.global = 8\nexchange.codec = 'bf16'\n" + ways)),
            (Names{"ring-bf16", "ddp-bf16", "ddp-int8", "ddp-fp16"}));
}

TEST(Recipe, SingleIsOneWorker) {
  const program::Recipe recipe = read("batch.per_worker = 16\n[grid]\nstrategy = ['single', 'ring']\nworkers = [2, 4]");
  EXPECT_EQ(names(recipe), (Names{"single", "ring-workers2", "ring-workers4"}));
  const program::Settings& single = recipe.cells[0].settings;
  EXPECT_EQ(single->workers, 1);
  EXPECT_EQ(single->batch.per_worker, 16u);
  EXPECT_EQ(single.origin("workers"), "strategy single");
  EXPECT_EQ(read("batch.global = 1\nstrategy = 'single'\nworkers = 8").cells[0].settings->workers, 1);
  EXPECT_EQ(names(read("seeds = 2\nbatch.global = 1\nstrategy = 'single'\n[grid]\nworkers = [1, 2]")),
            (Names{"single", "single"}));
}

TEST(Recipe, SetFixesAKeyOfTheGrid) {
  const std::string toml = "seeds = 3\nbatch.global = 8\n[grid]\nstrategy = ['tree', 'ring']\nworkers = [2, 4]";
  const program::Recipe recipe = read(toml, {"strategy=direct", "seeds=1", "train.epochs=9"});
  EXPECT_EQ(names(recipe), (Names{"workers2", "workers4"}));
  EXPECT_EQ(recipe.cells[1].settings->strategy, "direct");
  EXPECT_EQ(recipe.cells[1].settings->plan.epochs, 9u);
  EXPECT_NE(refused(toml, {"seeds=0"}).find("seeds must be a whole number, from 1 to 1000"), std::string::npos);
  EXPECT_NE(refused(toml, {"sedes=0"}).find("unknown key sedes"), std::string::npos);
}

TEST(Recipe, SeveralGridsOneAfterTheOther) {
  const std::string toml =
      "batch.global = 8\nexchange.codec = 'fp32'\n[[grid]]\nstrategy = ['single', 'ring']\nworkers = [2]\n"
      "[[grid]]\nworkers = [2]\n'exchange.codec' = ['int8', 'sign']\nstrategy = ['ring', 'ddp']";
  const program::Recipe recipe = read(toml);
  // Named after what differs between any two cells of any grid; what a grid leaves out is the recipe's.
  EXPECT_EQ(names(recipe), (Names{"single-fp32", "ring-fp32", "ring-int8", "ddp-int8", "ring-sign", "ddp-sign"}));
  EXPECT_EQ(recipe.cells[1].settings->plan.exchange.codec.name, "fp32");
  EXPECT_EQ(names(read(toml, {"strategy=ring"})), (Names{"fp32", "int8", "sign"}));
  EXPECT_EQ(refused(toml, {"exchange.codec=bf16"}),
            "r.toml: cells ring and ring are the same run with seed 0: what tells them apart is set for both");
  EXPECT_NO_THROW(program::load_recipe_text(toml, "r.toml", {"exchange.codec=bf16"}, "", nullptr, {"ddp"}));
  EXPECT_EQ(refused("batch.global = 8\ngrid = ['ring']"),
            "r.toml:2:8: grid must be a table: write [grid], or [[grid]] for each of several");
}

TEST(Recipe, GridMistakesAreRefused) {
  const std::string batch = "batch.global = 8\n[grid]\n";
  EXPECT_EQ(refused(batch + "stratgy = ['ring']"), "r.toml:3:1: unknown key stratgy; did you mean strategy?");
  EXPECT_EQ(refused(batch + "workers = 2").rfind("r.toml:3:1: in [grid], workers must be an array", 0), 0u);
  EXPECT_EQ(refused(batch + "workers = []").rfind("r.toml:3:1: in [grid], workers must be an array", 0), 0u);
  EXPECT_EQ(refused(batch + "workers = [2, 'x']"), "r.toml:3:1: workers must be a whole number, not the string \"x\"");
  EXPECT_EQ(refused(batch + "workers = [2, 0]"), "r.toml:3:1: workers = 0 is out of range: it must be from 1 to 4096");
  EXPECT_EQ(refused(batch + "exchange.codec = ['fp16']\n'exchange.codec' = ['fp32']"),
            "r.toml:4:1: exchange.codec is in [grid] twice, first at r.toml:3");
  EXPECT_EQ(refused("grid = 3\nbatch.global = 8"),
            "r.toml:1:8: grid must be a table: write [grid], or [[grid]] for each of several");
  EXPECT_EQ(refused("seeds = 'x'\nbatch.global = 8"), "r.toml:1:9: seeds must be a whole number, from 1 to 1000");
  EXPECT_EQ(refused("title = 3\nbatch.global = 8"), "r.toml:1:9: title must be a string");
}

TEST(Recipe, AGridMayNameItsCells) {
  const program::Recipe recipe = read(
      "batch.global = 8\n[[grid]]\nrun.name = ['task 1']\nstrategy = ['single']\n[[grid]]\nrun.name = ['2b']\nstrategy "
      "= ['ring']\nworkers = [4]\n");
  EXPECT_EQ(names(recipe), (Names{"task_1", "2b"}));
  const std::string beside =
      "[[grid]]\nstrategy = ['ring', 'ddp']\n[[grid]]\nrun.name = ['x']\nworkers = [4]\ndata.flip = [true]\n";
  EXPECT_EQ(names(read("batch.global = 8\n" + beside)), (Names{"ring", "ddp", "x"}));
}

TEST(Recipe, WhatWasPublished) {
  const std::string grid = "batch.global = 8\n[grid]\nstrategy = ['ring', 'ddp']\n[[published]]\n";
  const program::Recipe recipe = read(
      grid + "title = 'T'\nnote = 'N'\nmeasures = ['s_epoch', 'loss']\nrows.ring = [1, 2.5]\nrows.ddp = [nan, 3]\n");
  ASSERT_EQ(recipe.published.size(), 1u);
  const report::Published& one = recipe.published[0];
  EXPECT_EQ(one.title, "T");
  EXPECT_EQ(one.note, "N");
  EXPECT_EQ(one.measures, (Names{"s_epoch", "loss"}));
  ASSERT_EQ(one.rows.size(), 2u);
  EXPECT_EQ(one.rows[0].first, "ring");
  EXPECT_EQ(one.rows[0].second, (std::vector<double>{1, 2.5}));
  EXPECT_TRUE(std::isnan(one.rows[1].second[0]));
  EXPECT_EQ(read(grid + "measures = ['loss']\nrows.ring = 7\n").published[0].rows[0].second, std::vector<double>{7});
  EXPECT_EQ(refused(grid + "measures = ['loss']\nrows.ring = [7, 8]\n"),
            "r.toml:6:6: ring has 2 numbers for 1 measures; write nan for what was not published");
  EXPECT_EQ(refused(grid + "measures = ['lsos']\nrows.ring = 7\n")
                .rfind("r.toml:4:1: there is no measure \"lsos\" (did you mean \"loss\"?)", 0),
            0u);
  EXPECT_EQ(refused(grid + "rows.ring = 7\n").rfind("r.toml:4:1: [[published]] needs measures", 0), 0u);
  EXPECT_EQ(refused(grid + "measures = ['loss']\nrows.ring = 'x'\n"),
            "r.toml:6:6: ring must be numbers, one for each of measures");
  EXPECT_EQ(refused(grid + "colour = 3\n"),
            "r.toml:5:1: in [[published]], there is no colour; it may have title, note, measures and rows");
  EXPECT_EQ(refused("batch.global = 8\npublished = 3\n"), "r.toml:2:13: published must be tables: write [[published]]");
}

TEST(Recipe, EqualCellsAreRefused) {
  EXPECT_EQ(refused("batch.global = 8\n[grid]\nstrategy = ['ring', 'tree', 'ring']")
                .rfind("r.toml:3:1: in [grid], strategy takes \"ring\" twice", 0),
            0u);
  EXPECT_EQ(refused("batch.global = 8\n[grid]\noptimiser.momentum = [0, 0.0]")
                .rfind("r.toml:3:11: in [grid], optimiser.momentum takes 0.0 twice", 0),
            0u);
  EXPECT_EQ(refused("seeds = 2\nbatch.global = 8\n[grid]\nseed = [0, 1]"),
            "r.toml: cells seed0 and seed1 are the same run with seed 1: let either the grid or seeds vary the seed");
  EXPECT_EQ(refused("batch.global = 8\n[grid]\nrun.name = ['a/b', 'a:b']")
                .rfind("r.toml: two cells of the grid would both be named a_b", 0),
            0u);
}

TEST(Recipe, EveryCellIsChecked) {
  EXPECT_EQ(refused("batch.global = 8\noptimiser.nesterov = true\n[grid]\noptimiser.momentum = [0.9, 0]"),
            "cell momentum0.0: optimiser.nesterov = true (r.toml:2) needs a momentum above 0, but "
            "optimiser.momentum = 0.0 (r.toml:4)");
  EXPECT_EQ(refused("workers = 2").rfind("no batch size", 0), 0u);
}

/// What the command line's keys without effect are refused with.
std::string idle_refused(const std::string& toml, const std::vector<std::string>& sets) {
  const program::Recipe recipe = read(toml, sets);
  try {
    program::refuse_idle(recipe.cells);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

TEST(Recipe, AKeyWithoutEffectInEveryCellIsToldOrRefused) {
  const std::string grid =
      "batch.global = 8\npasses = 2\nworkers = 3\n[grid]\nstrategy = ['single', 'ring', 'accumulate']\n";
  EXPECT_TRUE(program::idle_in_file(read(grid).cells).empty()) << "strategies of a grid share keys";
  EXPECT_EQ(idle_refused(grid, {"exchange.codec=fp16"}), "nothing was refused");
  EXPECT_EQ(idle_refused(grid, {"workers=4"}), "nothing was refused");
  const auto alone = program::idle_in_file(read(grid, {"strategy=ring"}).cells);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_EQ(alone[0].substr(0, 24), "passes = 2 (r.toml:2) ha");
  EXPECT_NE(idle_refused(grid, {"lab.mbit_s=10"}).find("lab.mbit_s = 10.0 (--set) has no effect with lab.nodes = 0"),
            std::string::npos);
  EXPECT_NE(idle_refused(grid, {"strategy=single", "workers=4"}).find("workers = 4 (--set)"), std::string::npos);
  EXPECT_EQ(program::idle_in_file(read("batch.global = 8\n[grid]\nps.staleness = [1, 2]\n").cells).size(), 1u);
}

TEST(Recipe, ThoseThatAreShippedHaveNoKeyWithoutEffect) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(RIPIENO_RECIPES)) {
    const program::Recipe recipe = program::load_recipe(entry.path(), {});
    std::vector<std::string> scales = recipe.scales;
    scales.push_back("");
    for (const std::string& scale : scales) {
      for (const std::string& line : program::idle_in_file(program::load_recipe(entry.path(), {}, scale).cells))
        ADD_FAILURE() << entry.path() << " " << scale << ": " << line;
    }
    ++count;
  }
  EXPECT_GT(count, 10);
}

TEST(Recipe, ReadsAFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "recipe.toml";
  write_file(path, "batch.global = 8\n[grid]\nstrategy = ['ring', 'tree']\n");
  const program::Recipe recipe = program::load_recipe(path, {});
  std::filesystem::remove(path);
  EXPECT_EQ(names(recipe), (Names{"ring", "tree"}));
  EXPECT_EQ(recipe.cells[1].settings.origin("strategy"), path.string() + ":3");
  EXPECT_THROW(program::load_recipe(path, {}), Error);
}

}  // namespace
}  // namespace ripieno
