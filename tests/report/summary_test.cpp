#include "ripieno/report/summary.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/report/merge.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::report {
namespace {

Summary sample() {
  Summary s;
  s.name = "ps-async-\"2\"";
  s.kind = "simulated";
  s.strategy = "ps-async";
  s.route = "servers";
  s.codec = "fp16";
  s.model = "mnist-cnn";
  s.launcher = "srun";
  s.dataset = "digits";
  s.world_size = 2;
  s.parameters = 431080;
  s.epochs = 2;
  s.steps = 40;
  s.seed = 11;
  s.test = TestResult{0.975, 0.0625};
  s.seconds = {9.5, {4.25, 4.5}, {0.5, 1, 2, 3, 0.25, 0, 0.75}};
  s.images_per_second = 1234.5;
  s.bytes = {(1ull << 62) + 1, 2, 3, 4};
  s.exchange_payload_sent = 1000;
  s.closed_form_payload_sent = 500;
  s.evaluation_payload_sent = 64;
  RankSummary rank;
  rank.evaluation_payload_sent = 32;
  rank.dropped_payload_sent = 16;
  rank.seconds = s.seconds;
  rank.images_per_second = 600;
  rank.bytes = {5, 6, 7, 8};
  rank.bytes_read = 99;
  rank.parameters_hash = 0x00ab54a98ceb1f0aull;
  s.ranks.push_back(rank);
  rank.rank = 1;
  rank.ways = {"shared memory", ""};
  rank.host = "node7";
  rank.process = ProcessUse{58.5, 0.25, 1ull << 33, 12345};
  rank.test = TestResult{0.5, std::nan("")};
  s.not_finite = NotFinite{1, "training loss", "nan", 12, 1};
  rank.staleness = std::map<std::int64_t, std::uint64_t>{{0, 12}, {3, 1}, {12, 2}};
  s.ranks.push_back(rank);
  return s;
}

std::string refused(const std::string& json) {
  try {
    from_json(json, "runs/a/summary.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "nothing was refused";
}

/// The sample with one piece of its text replaced.
std::string broken(const std::string& piece, const std::string& by) {
  std::string json = to_json(sample());
  const std::size_t at = json.find(piece);
  EXPECT_NE(at, std::string::npos) << piece << " is not in " << json;
  if (at != std::string::npos) json.replace(at, piece.size(), by);
  return json;
}

TEST(Summary, RoundTrip) {
  const Summary s = sample();
  const std::string json = to_json(s);
  const Summary again = from_json(json, "x");
  EXPECT_EQ(to_json(again), json);
  // Field by field where equal text would not prove it.
  EXPECT_EQ(again.name, s.name);
  EXPECT_EQ(again.bytes.payload_sent, s.bytes.payload_sent);
  EXPECT_EQ(again.seconds.epoch, s.seconds.epoch);
  EXPECT_EQ(again.seconds.stages[observe::Stage::evaluate], 0.75);
  EXPECT_EQ(again.seconds.stages.steps(), 6.75);
  EXPECT_EQ(again.closed_form_payload_sent, 500u);
  EXPECT_EQ(again.evaluation_payload_sent, 64u);
  EXPECT_EQ(again.ranks[0].evaluation_payload_sent, 32u);
  ASSERT_EQ(again.ranks.size(), 2u);
  EXPECT_FALSE(again.ranks[0].test.has_value());
  EXPECT_FALSE(again.ranks[0].staleness.has_value());
  EXPECT_EQ(again.ranks[0].parameters_hash, s.ranks[0].parameters_hash);
  EXPECT_TRUE(std::isnan(again.ranks[1].test->loss.value()));
  EXPECT_EQ(again.ranks[1].staleness, s.ranks[1].staleness);
  EXPECT_NE(json.find("\"parameters_hash\": \"00ab54a98ceb1f0a\""), std::string::npos);
  ASSERT_TRUE(again.not_finite);
  EXPECT_EQ(described(*again.not_finite), "the training loss of rank 1 was nan at step 12, in epoch 2");
  EXPECT_EQ(json.rfind("{\n  \"schema\": 2,", 0), 0u);
}

TEST(Summary, NullsAndUnknownFields) {
  Summary s = sample();
  s.test.reset();
  s.closed_form_payload_sent.reset();
  s.ranks.clear();
  std::string json = to_json(s);
  json.replace(json.find("{"), 1, "{\"later\": [1],");
  const Summary again = from_json(json, "x");
  EXPECT_FALSE(again.test.has_value());
  EXPECT_FALSE(again.closed_form_payload_sent.has_value());
  EXPECT_TRUE(again.ranks.empty());
}

TEST(Summary, OfALoopOfOnesOwn) {
  Summary s = sample();
  s.counts_bytes = false;
  s.seconds.stages[observe::Stage::other] = 1.5;
  const std::string json = to_json(s);
  EXPECT_NE(json.find("\"bytes\": null"), std::string::npos);
  EXPECT_EQ(json.find("framing"), std::string::npos);
  const Summary again = from_json(json, "x");
  EXPECT_EQ(to_json(again), json);
  EXPECT_FALSE(again.counts_bytes);
  EXPECT_FALSE(again.megabytes_sent(again.exchange_payload_sent));
  EXPECT_EQ(again.seconds.stages[observe::Stage::other], 1.5);
  EXPECT_EQ(to_json(sample()).find("\"other\""), std::string::npos);
}

TEST(Summary, ErrorsNameFileAndField) {
  const std::string file = "runs/a/summary.json: ";
  EXPECT_EQ(refused(broken("\"strategy\"", "\"s\"")), file + "field strategy is missing");
  EXPECT_EQ(refused(broken("\"ps-async\"", "3")), file + "field strategy must be a string, not 3");
  EXPECT_EQ(refused(broken("4.5", "\"x\"")), file + "field seconds.epoch[1] must be a number, not \"x\"");
  EXPECT_EQ(refused(broken("\"world_size\": 2", "\"world_size\": 0")),
            file + "field world_size must be 1 or more, not 0");
  EXPECT_EQ(refused(broken("\"world_size\": 2", "\"world_size\": 2.5")),
            file + "field world_size must be a whole number of 0 or more, not 2.5");
  EXPECT_EQ(refused(broken("\"world_size\": 2", "\"world_size\": 4294967296")),
            file + "field world_size must be a whole number below 2^31, not 4294967296");
  EXPECT_EQ(refused(broken("\"epochs\": 2", "\"epochs\": -1")),
            file + "field epochs must be a number from 0 to below 2^31, not -1");
  EXPECT_EQ(refused(broken("\"steps\": 40", "\"steps\": -1")),
            file + "field steps must be a whole number of 0 or more, not -1");
  EXPECT_EQ(refused(broken("0.975", "1.5")), file + "field test.accuracy must be from 0 to 1, not 1.5");
  EXPECT_EQ(refused(broken("simulated", "guessed")),
            file + "field kind must be computed, replayed, simulated or projected, not \"guessed\"");
  EXPECT_EQ(refused(broken("00ab54a98ceb1f0a", "00ab")),
            file + "field ranks[0].parameters_hash must be 16 hexadecimal digits, not \"00ab\"");
  EXPECT_EQ(refused(broken("\"bytes_read\": 99", "\"bytes_read\": []")),
            file + "field ranks[0].bytes_read must be a whole number of 0 or more, not an array");
  EXPECT_EQ(refused(broken("\"12\": 2", "\"old\": 2")),
            file + "field ranks[1].staleness must be an object whose keys are ages in steps, not an object");
  EXPECT_NE(refused(broken("\"schema\": 2", "\"schema\": 3")).find("field schema is 3, but this version"),
            std::string::npos);
  EXPECT_EQ(refused("[]"), file + "the whole must be an object, not an array");
  EXPECT_EQ(refused("").rfind(file + "not JSON: ", 0), 0u);
  const std::string json = to_json(sample());
  EXPECT_EQ(refused(json.substr(0, json.size() / 2)).rfind(file + "not JSON: ", 0), 0u);
}

TEST(Summary, OfSeveralRanksHasTheFirstLossThatIsNotFinite) {
  std::vector<Summary> ranks(3, sample());
  for (int rank = 0; rank < 3; ++rank) {
    Summary& one = ranks[static_cast<std::size_t>(rank)];
    one.ranks.resize(1);
    one.ranks[0].rank = rank;
    one.ranks[0].exchange_payload_sent = 100 + static_cast<std::uint64_t>(rank);
    one.not_finite = NotFinite{rank, "training loss", "nan", rank == 1 ? 7u : 9u, 0};
  }
  ranks[0].not_finite.reset();
  const Summary run = merge_ranks(ranks);
  EXPECT_EQ(run.not_finite->rank, 1);
  EXPECT_EQ(run.sent_by_the_busiest(), 102u);
}

TEST(Summary, ImagesASecondAreOverTheRunsEpochsWhenRanksEndApart) {
  std::vector<Summary> ranks(2, sample());
  for (int rank = 0; rank < 2; ++rank) {
    RankSummary& one = ranks[static_cast<std::size_t>(rank)].ranks[0];
    one.rank = rank;
    one.seconds.epoch = {rank == 0 ? 1.0 : 20.0};
    one.images_per_second = rank == 0 ? 1000 : 50;
    ranks[static_cast<std::size_t>(rank)].ranks.resize(1);
  }
  EXPECT_DOUBLE_EQ(merge_ranks(ranks).images_per_second, 100);  // 1000 + 1000 images in 20 s
}

TEST(Summary, ReadsItsFile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "summary.json";
  write_file(path, to_json(sample()));
  EXPECT_EQ(to_json(read_summary(path)), to_json(sample()));
  std::filesystem::remove(path);
  EXPECT_THROW(read_summary(path), Error);
}

TEST(SummaryOfARun, SaysWhichRanksItLost) {
  Summary run;
  run.world_size = 4;
  EXPECT_EQ(run.losses(), "") << "nothing is known of its ranks";
  for (const int rank : {0, 1, 3}) run.ranks.emplace_back().rank = rank;
  EXPECT_EQ(run.losses(), "it lost rank 2 of 4 on the way");
  run.ranks.pop_back();
  EXPECT_EQ(run.losses(), "it lost ranks 2, 3 of 4 on the way");
  run.unfinished = true;
  EXPECT_EQ(run.losses(), "");
}

TEST(SummaryOfARun, SaysHowManyRanksRanWhere) {
  Summary run;
  EXPECT_EQ(run.hosts(), "");
  for (const char* host : {"b", "a", "b", ""}) run.ranks.emplace_back().host = host;
  EXPECT_EQ(run.hosts(), "2 on b, 1 on a");
}

}  // namespace
}  // namespace ripieno::report
