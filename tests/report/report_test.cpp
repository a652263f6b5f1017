#include "ripieno/report/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/report/measures.h"
#include "ripieno/report/published.h"
#include "ripieno/report/source_lines.h"
#include "tests/report/runs.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::report {
namespace {

using Json = nlohmann::json;
using testing::line_of;
using testing::made_run;

Report report() {
  return report_of({made_run("ring", 2, 0), made_run("ring", 2, 1), made_run("fedavg", 2, 0)}, "a <title> & \"more\"");
}

const Figure& figure_of(const Report& report, const std::string& id) {
  return *std::find_if(report.figures.begin(), report.figures.end(),
                       [&](const Figure& figure) { return figure.id == id; });
}

/// The cell of a table's first row in which the row begins with `name`.
ReportCell cell_of_row(const Report& report, const std::string& table, const std::string& name,
                       const std::string& column) {
  for (const ReportTable& one : report.tables) {
    const auto at =
        std::find_if(one.columns.begin(), one.columns.end(), [&](const auto& other) { return other.title == column; });
    for (const auto& row : one.rows) {
      if (one.id == table && at != one.columns.end() && row[0].text == name)
        return row[static_cast<std::size_t>(at - one.columns.begin())];
    }
  }
  ADD_FAILURE() << table << ", " << name << ", " << column;
  return {};
}

TEST(Report, NumbersSayTheLineThatTheyAreFrom) {
  const report::Run run = made_run("ring", 2, 3);
  const Report made = report_of({run}, "");
  const std::map<std::pair<std::string, std::string>, std::string> fields{
      {{"runs", "accuracy, %"}, "\"accuracy\": 0.93"},
      {{"runs", "seed"}, "\"seed\": 3"},
      {{"runs", "ranks"}, "\"world_size\": 2"},
      {{"runs", "of it waiting for the exchange"}, "\"exchange\": 4"},
      {{"runs-more", "backward, %"}, "\"backward\": 3"},
      {{"runs-more", "MB sent"}, "\"payload_sent\": 120000000"},
      {{"runs-more", "MB by formula"}, "\"payload_sent\": 60000000"}};
  for (const auto& [column, wanted] : fields) {
    const ReportCell cell = cell_of_row(made, column.first, "ring3", column.second);
    EXPECT_NE(line_of(run.summary_text, cell.source->line).find(wanted), std::string::npos)
        << column.second << ": " << line_of(run.summary_text, cell.source->line);
  }
}

TEST(Report, ThePageHoldsAllAndNothingFromElsewhere) {
  const Report made = report();
  const std::string page = html_page(made, "out");
  EXPECT_NE(page.find("<title>a &lt;title&gt; &amp; &quot;more&quot;</title>"), std::string::npos);
  EXPECT_EQ(page.find("{{"), page.find("{{", page.find("plotly.js")));  // all that stands in braces is Plotly's own
  EXPECT_NE(page.find("href=\"../runs/ring0/summary.json#L"), std::string::npos);
  for (const Figure& figure : made.figures)
    EXPECT_NE(page.find("id=\"plot-" + figure.id + "\""), std::string::npos) << figure.id;
  const std::string head = page.substr(0, page.find("plotly.js"));
  EXPECT_EQ(head.find("src="), std::string::npos);
  EXPECT_EQ(head.find("http"), std::string::npos);
  const auto begin = page.find("id=\"figures\">") + 13;
  const Json figures = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_EQ(figures.size(), static_cast<std::size_t>(std::count_if(made.figures.begin(), made.figures.end(),
                                                                   [](const Figure& one) { return one.run.empty(); })));
  const auto accuracy =
      std::find_if(figures.begin(), figures.end(), [](const Json& one) { return one["id"] == "accuracy"; });
  EXPECT_EQ((*accuracy)["series"][0]["sources"][0], "../runs/ring0/metrics-0.jsonl, line 5");
  for (const char* tier : {"#summary", "#compare", "#each-run"})
    EXPECT_NE(page.find(text("<a href=\"", tier, "\">")), std::string::npos) << tier;
  EXPECT_NE(page.find("<option>ring0</option><option>ring1</option><option>fedavg0</option>"), std::string::npos)
      << "every run is a choice";
}

TEST(Report, ThePageBeginsWithSentencesWhoseNumbersAreLinks) {
  const Report made = report();
  ASSERT_FALSE(made.conclusions.empty());
  const std::string page = html_page(made, "out");
  const auto sentences = page.find("<ul class=\"sentences\">"), picture = page.find("class=\"picture\""),
             table = page.find("<table>");
  EXPECT_LT(page.find("<h1>"), sentences);
  EXPECT_LT(sentences, picture);
  EXPECT_LT(picture, table);
  std::size_t links = 0;
  for (const Sentence& sentence : made.conclusions[0].sentences) {
    for (const Piece& piece : sentence.pieces) links += piece.source.has_value();
  }
  const std::string first = page.substr(sentences, picture - sentences);
  const std::regex link("<a href=\"\\.\\./runs/[^\"]*#L[0-9]+\"");
  EXPECT_EQ(std::distance(std::sregex_iterator(first.begin(), first.end(), link), {}),
            static_cast<std::ptrdiff_t>(links));
}

TEST(Report, BarsOfWaysGoToTheRightAndGetRoom) {
  Figure bars{"bars", "Bars", "", Form::bars, {"way"}, "s", {}, {{"time", {}, {}, {}, {}, {}}}};
  for (int i = 0; i < 20; ++i) {
    bars.categories.push_back(text("way ", i));
    bars.series[0].y.push_back(i);
  }
  EXPECT_EQ(drawn_height(bars), 56 + 20 * 24);
  EXPECT_GT(pictured_height(bars), drawn_height(bars));
  const std::string page = html_page({"t", "", {}, {bars}}, "");
  EXPECT_NE(page.find(text("id=\"plot-bars\" style=\"height: ", drawn_height(bars), "px\"")), std::string::npos);
  EXPECT_NE(page.find("\"horizontal\":true"), std::string::npos);
  bars.x_titles = {"steps"};
  EXPECT_EQ(html_page({"t", "", {}, {bars}}, "").find("\"horizontal\":true"), std::string::npos);
}

TEST(Report, WhatWasPublishedStandsBeside) {
  const Published table{"Somebody (2020), table 1",
                        "Their machine was another.",
                        {"s_epoch"},
                        {{"ring", {50}}, {"fedavg", {25}}, {"gone", {NAN}}}};
  const Published elsewhere{"Of other ways", "", {"s_epoch"}, {{"gone", {1}}}};  // there is no run of "gone"
  const std::vector<ReportTable> tables =
      published_tables({elsewhere, table}, {made_run("ring", 2, 0), made_run("ring", 2, 1), made_run("fedavg", 4, 0)});
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].id, "published-1");
  const ReportTable& found = tables[0];
  const auto row = [&](std::size_t i) {
    std::vector<std::string> texts;
    for (const ReportCell& cell : found.rows.at(i)) texts.push_back(cell.text);
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(row(0), (Texts{"ring", "98.50", "50.00", "1.000", "1.000"}));
  EXPECT_EQ(row(1), (Texts{"fedavg", "98.50", "25.00", "1.000", "0.5000"}));
  EXPECT_EQ(row(2), (Texts{"gone", "–", "–", "–", "–"}));
  EXPECT_EQ(found.rows[0][1].source->file.filename(), "summary.json");

  // Runs of one name that differ in more than their seed are no seeds of each other.
  std::vector<report::Run> unlike{made_run("ring", 2, 0), made_run("ring", 2, 1)};
  for (std::size_t i : {0, 1}) unlike[i].settings = {{"data.train_samples", i == 0 ? "30000" : "60000"}};
  unlike[1].summary.seconds.epoch = {200, 200};
  const auto apart = published_tables({table}, unlike).at(0).rows;
  ASSERT_EQ(apart.size(), 4u);
  EXPECT_EQ(apart[0][0].text + " " + apart[0][1].text, "ring, train_samples 30000 98.50");
  EXPECT_EQ(apart[1][0].text + " " + apart[1][1].text, "ring, train_samples 60000 200.0");
}

TEST(Report, MeasuresSayWhatTheyAreOf) {
  const report::Run run = made_run("ring", 2, 3);
  const std::map<std::string, double> wanted{
      {"accuracy", 93},  {"loss", 0.25},    {"s_total", 210},      {"s_epoch", 98.5},
      {"s_step", 0.010}, {"s_read", 0.001}, {"s_gradient", 0.005}, {"s_exchange", 0.004},
      {"images_s", 200}, {"cpu_user", 75},  {"cpu_system", 12.5},  {"mb_sent", 120},
      {"mb_upload", 30}, {"mb_read", 0},    {"s_forward", 0.002},  {"s_backward", 0.003}};
  ASSERT_EQ(measures().size(), wanted.size() + 3);
  EXPECT_FALSE(find_measure("mb_memory").of(run).has_value());
  report::Run large = run;
  large.summary.ranks[0].process.emplace().peak_resident_bytes = 200'000'000;
  large.summary.ranks[1].process.emplace().peak_resident_bytes = 300'000'000;
  EXPECT_EQ(find_measure("mb_memory").of(large), 300);
  EXPECT_FALSE(find_measure("mb_s_sent").of(run).has_value()) << "there is the loopback alone";
  for (const auto& [name, value] : wanted) EXPECT_NEAR(*find_measure(name).of(run), value, 1e-9) << name;
  EXPECT_NEAR(*find_measure("accuracy_own").of(run), 93, 1e-9) << "all ranks hold the same";
  report::Run apart = run;
  apart.summary.ranks[0].own_accuracy = 0.5;
  apart.summary.ranks[1].own_accuracy = 0.7;
  EXPECT_NEAR(*find_measure("accuracy_own").of(apart), 60, 1e-9);
  try {
    find_measure("s_epich");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean \"s_epoch\""), std::string::npos) << error.what();
  }
}

TEST(Report, StepsThatAreLeftOutAreInNoRateOrMean) {
  report::Run run = made_run("ring", 2, 0);
  for (Metrics& rank : run.ranks) {  // steps end at 30, 60, 90, 130, 160 and 190 s
    rank.steps[0].seconds[observe::Stage::forward] = rank.steps[1].seconds[observe::Stage::forward] = 1;
    rank.samples[1].time = 191;  // half of its 2 s after the last step
    rank.samples[1].cpu_user = 0.5;
    SampleLine early = rank.samples[0];
    early.time = 59;
    early.cpu_user = 100;
    rank.samples.insert(rank.samples.begin(), early);
  }
  EXPECT_GT(*find_measure("cpu_user").of(run), 1000);
  run.summary.steps_left_out = 2;
  EXPECT_NEAR(*find_measure("s_forward").of(run), 0.002, 1e-12);
  EXPECT_NEAR(*find_measure("cpu_user").of(run), 100 * (1.5 + 0.5 / 2) / 3, 1e-9);
  run.summary.steps_left_out = 6;
  EXPECT_FALSE(find_measure("s_forward").of(run).has_value());
  EXPECT_FALSE(find_measure("cpu_user").of(run).has_value());
}

TEST(Report, LinksLeadToWhereTheFilesAreWhateverTheirNames) {
  report::Run run = made_run("ring", 2, 0);
  run.folder = "exp#3 100%25/a?b:ü/0001-ring";
  const std::string page = html_page(report_of({run}, "t"), "");
  EXPECT_NE(page.find("href=\"exp%233%20100%2525/a%3Fb%3A%C3%BC/0001-ring/summary.json#L"), std::string::npos);
  EXPECT_EQ(page.find("href=\"exp#"), std::string::npos);
}

TEST(Report, ThePageHoldsTheLinesOfItsNumbers) {
  const TemporaryFolder folder;
  report::Run run = made_run("ring", 2, 0);
  run.folder = folder.path() / "0001-ring";
  std::filesystem::create_directories(run.folder);
  write_file(run.summary_file(), run.summary_text);
  for (Metrics& rank : run.ranks) rank.file = run.folder / rank.file.filename();
  write_file(run.ranks[0].file, "line one\nline two\nline three\nline four\nline </script> five\nline six\n");
  const Json lines = source_lines(report_of({run}, "t"), folder.path());
  const Json& summary = lines["0001-ring/summary.json"];
  const Source accuracy = run.source({"test", "accuracy"});
  EXPECT_NE(summary[std::to_string(accuracy.line)].get<std::string>().find("\"accuracy\": 0.9"), std::string::npos);
  EXPECT_TRUE(summary.contains(std::to_string(accuracy.line - 1))) << "with those around it";
  EXPECT_EQ(lines["0001-ring/metrics-0.jsonl"]["5"], "line </script> five");
  EXPECT_FALSE(lines["0001-ring/metrics-0.jsonl"].contains("4")) << "a line of metrics says all by itself";
  EXPECT_FALSE(lines.contains("0001-ring/metrics-1.jsonl")) << "which is not there";
  const std::string page = html_page(report_of({run}, "t"), folder.path());
  EXPECT_NE(page.find("line \\u003c/script> five"), std::string::npos);
}

std::string csv_of(const Report& report, const std::string& name) {
  for (const CsvFile& file : report_csv(report)) {
    if (file.name == name) return file.content;
  }
  return "no " + name;
}

TEST(Report, CsvIsAFileForEachTableWithItsNumbersInFull) {
  report::Run run = made_run("ring", 2, 0);
  run.summary.images_per_second = 1234567.890625;
  run.summary.test->loss = NAN;
  const Report made = report_of({run, run, made_run("ring", 2, 1)}, "t");
  const std::string runs = csv_of(made, "runs.csv");
  EXPECT_EQ(runs.substr(0, runs.find('\n')),
            "run,ranks,seed,\"accuracy, %\",s an epoch,of it waiting for the exchange,\"MB an epoch, busiest "
            "rank\",images/s");
  EXPECT_NE(line_of(runs, 2).find(",1234567.890625"), std::string::npos) << runs;
  EXPECT_TRUE(line_of(csv_of(made, "runs-more.csv"), 2).ends_with(",nan")) << csv_of(made, "runs-more.csv");
  const std::string ways = csv_of(made, "cells.csv");
  EXPECT_EQ(line_of(ways, 1).substr(0, 50), "way,seeds,runs,\"accuracy, %\",\"accuracy, % ±\",s an") << ways;
  EXPECT_EQ(line_of(ways, 2).substr(0, 9), "ring,2,3,") << ways;
  for (const CsvFile& file : report_csv(made)) {  // one table each: a head, and rows as long
    std::set<std::size_t> lengths;
    std::istringstream lines(file.content);
    for (std::string line; std::getline(lines, line);) {
      bool is_quoted = false;
      std::size_t commas = 0;
      for (const char c : line) {
        is_quoted ^= c == '"';
        commas += c == ',' && !is_quoted;
      }
      lengths.insert(commas);
    }
    EXPECT_EQ(lengths.size(), 1u) << file.name << ": " << file.content.substr(0, 400);
    EXPECT_GT(*lengths.begin(), 0u) << file.name;
  }
}

TEST(Report, WhatIsNotFiniteWasComputed) {
  report::Run run = made_run("ring", 2, 0), untested = made_run("fedavg", 2, 0);
  run.summary.test->loss = NAN;
  run.summary.not_finite = NotFinite{0, "test loss", "nan", 5, 1};
  untested.summary.test.reset();
  const Report made = report_of({run, untested}, "t");
  EXPECT_EQ(cell_of_row(made, "runs-more", "ring0", "loss").text, "not finite");
  EXPECT_EQ(cell_of_row(made, "runs-more", "fedavg0", "loss").text, "–");
  EXPECT_NE(made.lead.find("the test loss of rank 0 was nan"), std::string::npos) << made.lead;
}

TEST(Report, TheBusiestRanksBytesLinkToThatRank) {
  report::Run run = made_run("ring", 3, 0);
  run.summary.ranks[1].exchange_payload_sent = 77'000'000;
  run.summary_text = to_json(run.summary);
  const ReportCell cell = cell_of_row(report_of({run}, ""), "runs", "ring0", "MB an epoch, busiest rank");
  EXPECT_EQ(cell.number, 38.5);
  EXPECT_NE(line_of(run.summary_text, cell.source->line).find("\"payload_sent\": 77000000"), std::string::npos);
}

TEST(Report, ATextThatLooksLikeMarkupEndsNothing) {
  for (const char* name : {"</script><b>", "a<!--<script>b"}) {  // the second would hide the script's end
    const std::string page = html_page(report_of({made_run(name, 2, 0)}, "t"), "");
    EXPECT_EQ(page.find(name), std::string::npos);
  }
}

std::string csv_field(const std::string& text) { return text.find(',') == std::string::npos ? text : '"' + text + '"'; }

TEST(Report, FormsHaveTheSameNumbers) {
  const Report made = report();
  const Json json = Json::parse(report_json(made));
  EXPECT_EQ(figure_of(made, "accuracy").series[0].y, (std::vector<double>{50, 90.5}));
  const auto table = [&](const char* id) {
    return *std::find_if(json["tables"].begin(), json["tables"].end(),
                         [id](const Json& one) { return one["id"] == id; });
  };
  const Json columns = table("runs")["columns"];  // without model, data, codec and kind, which all runs have alike
  EXPECT_EQ(columns,
            (std::vector<std::string>{"run", "strategy", "ranks", "seed", "accuracy, %", "s an epoch",
                                      "of it waiting for the exchange", "MB an epoch, busiest rank", "images/s"}));
  EXPECT_NE(json["lead"].get<std::string>().find("model mnist-cnn"), std::string::npos);
  EXPECT_EQ(table("runs")["rows"][0][4]["source"], "runs/ring0/summary.json:16");
  EXPECT_EQ(json["runs"].size(), 3u);
  EXPECT_EQ(json["runs"][0]["folder"], "ring0");
  EXPECT_EQ(json["runs"][0]["measures"]["s_epoch"], 98.5);
  EXPECT_FALSE(json["runs"][0]["measures"].contains("mb_s_sent")) << "it has none";
  const Json sentence = json["conclusions"][0]["sentences"][0];
  EXPECT_EQ(sentence["text"], made.conclusions[0].sentences[0].str());
  EXPECT_EQ(sentence["numbers"][0]["source"], "runs/ring0/summary.json:21");
  const std::string csv = csv_of(made, "figure-accuracy.csv");
  EXPECT_EQ(line_of(csv, 1),
            "series,epochs,seconds of training,MB sent by all ranks together,% of the test set,±,source");
  EXPECT_NE(csv.find("\nring,2,197,120,90.5,"), std::string::npos) << csv;
  EXPECT_NE(csv.find(",runs/ring0/metrics-0.jsonl:10\n"), std::string::npos);
  EXPECT_NE(csv_of(made, "sentences.csv").find(text(",time,", csv_field(sentence["text"]), "\n")), std::string::npos)
      << csv_of(made, "sentences.csv");
  const std::string markdown = report_markdown(made);
  EXPECT_NE(markdown.find(text("\n- ", made.conclusions[0].sentences[0].str(), "\n")), std::string::npos);
  EXPECT_EQ(markdown.find("## CPU over time"), std::string::npos) << "of single runs, where there are several";
  EXPECT_NE(markdown.find("## Accuracy"), std::string::npos);
  EXPECT_NE(markdown.find("| 90.5 "), std::string::npos);
}

}  // namespace
}  // namespace ripieno::report
