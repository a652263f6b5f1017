// Settings that are written, and read again.
#include <gtest/gtest.h>

#include "apps/ripieno/settings.h"
#include "ripieno/core/file.h"
#include "tests/support/temporary_folder.h"

namespace ripieno {
namespace {

TEST(WrittenSettings, TomlRoundTrip) {
  program::Settings settings;
  settings.set("learning_rate.base=0.1");
  settings.set("optimiser.epsilon=1e-8");
  settings.set("optimiser.weight_decay=0.00030000000000000003");
  settings.set("exchange.bucket_mb=1000");
  settings.set("simulated.slow=[1, 2.5, 1e-300]");
  settings.assign("run.name", "a \"quoted\" \\ name\n\twith \x01 and \xc3\xa9", {"test"});
  const std::string toml = settings.to_toml();
  program::Settings again;
  again.load_text(toml, "config.toml");
  EXPECT_EQ(again.to_toml(), toml);
  EXPECT_EQ(again.digest(), settings.digest());
  for (const program::Setting& one : program::all_settings()) {
    EXPECT_EQ(again.value(one.key), settings.value(one.key)) << one.key;
    EXPECT_TRUE(again.is_set(one.key)) << one.key;
  }
  again.set("seed=1");
  EXPECT_NE(again.digest(), settings.digest());
}

TEST(WrittenSettings, LoadsItsOwnFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "settings.toml";
  program::Settings settings;
  settings.set("workers=7");
  write_file(path, settings.to_toml());
  program::Settings again;
  again.load(path);
  EXPECT_EQ(again.to_toml(), settings.to_toml());
  EXPECT_EQ(again.origin("workers"), path.string() + ":3");
}

TEST(WrittenSettings, PrintSaysWhereFrom) {
  program::Settings settings;
  settings.load_text("[train]\nepochs = 5\n", "recipes/demo.toml");
  settings.set("strategy=tree");
  const std::string printed = settings.print();
  EXPECT_NE(printed.find("strategy = \"tree\"  # --set\n"), std::string::npos) << printed;
  EXPECT_NE(printed.find("workers = 2  # default\n"), std::string::npos);
  EXPECT_NE(printed.find("\n[train]\nepochs = 5  # recipes/demo.toml:2\n"), std::string::npos);
  program::Settings again;
  again.load_text(printed, "printed");
  EXPECT_EQ(again.to_toml(), settings.to_toml());
}

}  // namespace
}  // namespace ripieno
