#include "ripieno/report/loop_file.h"

#include <gtest/gtest.h>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::report {
namespace {

TEST(AFileOfALoop, IsReadBackAsItWas) {
  const TemporaryFolder folder;
  LoopFile loop;
  loop.known.name = "wide";
  loop.known.strategy = "ddp";
  loop.known.codec = "none";
  loop.known.model = "a \"net\"";
  loop.known.dataset = "ones";
  loop.known.world_size = 3;
  loop.known.seed = -4;
  loop.known.counts_bytes = false;
  loop.settings = {{"rate", "0.1"}, {"by", "\"SGD\""}};
  write_file(folder.path() / "loop.json", to_json(loop));
  const LoopFile again = read_loop(folder.path() / "loop.json");
  EXPECT_EQ(to_json(again), to_json(loop));
  EXPECT_EQ(again.known.model, loop.known.model);
  EXPECT_EQ(again.known.seed, -4);
  EXPECT_FALSE(again.known.counts_bytes);
  EXPECT_EQ(again.settings, loop.settings);
}

TEST(AFileOfALoop, ErrorsNameFileAndField) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "loop.json";
  const std::string good = to_json(LoopFile{.known =
                                                [] {
                                                  Summary known;
                                                  known.world_size = 2;
                                                  return known;
                                                }(),
                                            .settings = {{"rate", "0.1"}}});
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    write_file(path, text);
    try {
      read_loop(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::data);
      EXPECT_TRUE(std::string(error.what()).starts_with(path.string() + ": ")) << error.what();
      return std::string(error.what()).substr(path.string().size() + 2);
    }
    return std::string("no error");
  };
  EXPECT_EQ(refused("{", ""), "not JSON");
  EXPECT_EQ(refused("\"schema\": 1", "\"schema\": 9"),
            "field schema is 9, but this version of Ripieno reads 1: read it with the version that wrote it");
  EXPECT_EQ(refused("\"world_size\": 2", "\"world_size\": 0"), "field world_size must be 1 or more, not 0");
  EXPECT_EQ(refused("\"counts_bytes\": true", "\"counts_bytes\": 1"),
            "field counts_bytes must be true or false, not 1");
  EXPECT_EQ(refused("\"0.1\"", "0.1"), "field settings.rate must be a string, not 0.1");
  EXPECT_EQ(refused("\"seed\": 0,", ""), "field seed is missing");
}

}  // namespace
}  // namespace ripieno::report
