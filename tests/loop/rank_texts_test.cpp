// What ranks tell each other over a group of c10d.
#include "ripieno/loop/rank_texts.h"

#include "ripieno/core/file.h"
#include "tests/loop/line.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::loop {
namespace {

TEST(RankTexts, OfUnequalLengthsComeToAll) {
  for (const int size : {1, 2, 3}) {
    std::vector<std::string> texts{"", "a\nb", std::string(100'000, 'x')};
    texts.resize(static_cast<std::size_t>(size));
    on_loop_ranks(size, [&](const ProcessGroup& group) {
      const RankTexts ranks(group, at::kCPU);
      EXPECT_EQ(ranks.all(texts[static_cast<std::size_t>(ranks.rank())]), texts);
      EXPECT_EQ(ranks.all(""), std::vector<std::string>(static_cast<std::size_t>(size)));
    });
  }
  EXPECT_EQ(RankTexts(nullptr, at::kCPU).all("alone"), std::vector<std::string>{"alone"});
}

TEST(RankTexts, AFileOfARankComesToTheFirst) {
  const TemporaryFolder folder;
  for (const std::string& content : {std::string("lines\nof it\n"), std::string(), std::string(3'000'000, '\0')}) {
    on_loop_ranks(3, [&](const ProcessGroup& group) {
      const RankTexts ranks(group, at::kCPU);
      const auto file = folder.path() / text("file-of-", ranks.rank());
      if (ranks.rank() == 2) write_file(file, content);
      ranks.to_first(2, file);
      if (ranks.rank() == 0) {
        EXPECT_EQ(read_file(file), content);
      }
      EXPECT_EQ(std::filesystem::exists(file), ranks.rank() != 1);
    });
    for (const int rank : {0, 2}) std::filesystem::remove(folder.path() / text("file-of-", rank));
  }
}

}  // namespace
}  // namespace ripieno::loop
