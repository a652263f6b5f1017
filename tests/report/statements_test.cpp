// Holds every sentence against the numbers that it is about, over random grids; the numbers are computed anew here.
#include "ripieno/report/statements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <regex>
#include <set>

#include "ripieno/core/error.h"
#include "ripieno/report/conclusions.h"
#include "ripieno/report/format.h"
#include "ripieno/report/statistics.h"
#include "tests/report/truth.h"

namespace ripieno::report {
namespace {

/// What is wrong about a statement; "" if it is right.
std::string wrong_about(const Statement& statement, const Truth& truth) {
  const Quantity q = statement.quantity;
  const std::string first = statement.subjects.empty() ? "" : statement.subjects[0];
  const auto value = [&](std::size_t i) { return statement.values.at(i).number; };
  const auto is_mean = [&](std::size_t i, const std::string& way, Quantity of) {
    return is_near(value(i), truth.mean(way, of));
  };
  const auto each = [&](const auto& holds) {
    return std::all_of(statement.subjects.begin(), statement.subjects.end(), holds);
  };
  const auto check = [](std::initializer_list<std::pair<bool, const char*>> all) {
    std::string wrongs;
    for (const auto& [holds, what] : all) wrongs += holds ? "" : text(" ", what);
    return wrongs;
  };
  const auto is_lower = [&](const std::string& a, const std::string& b) {
    return truth.is_ranked(a, b, q) == true && truth.pair(a, b, q).effect < 1;
  };
  const auto within = [&](const std::string& a, const std::string& b, double ratio) {
    return truth.mean(a, q) <= ratio * truth.mean(b, q) && truth.mean(b, q) <= ratio * truth.mean(a, q);
  };
  switch (statement.kind) {
    case Kind::best: {
      const bool lowest = is_near(truth.mean(first, q), truth.mean(truth.best(q), q));
      return check({{lowest, "not lowest"},
                    {is_mean(0, first, q), "value"},
                    {statement.object.empty() || statement.is_ranked == is_lower(first, statement.object), "ranked"}});
    }
    case Kind::unbeaten: {
      const double low = truth.mean(truth.best(q), q), own = truth.mean(first, q);
      return check({{is_mean(0, first, q), "value"},
                    {statement.is_nearly ? low < own && own <= 1.005 * low : low == own, "beaten"},
                    {truth.able(q).size() == 1 || truth.is_comparable(first, q), "compared with nobody"}});
    }
    case Kind::beside:
      return check({{is_mean(0, statement.object, q), "value"},
                    {q == Quantity::waiting ? is_mean(1, statement.object, Quantity::epoch)
                                            : is_near(value(1), truth.pair(statement.object, first, q).effect),
                     "ratio"}});
    case Kind::not_ranked:
      return check({{!is_lower(first, statement.object), "ranked"},
                    {statement.seeds == truth.pair(first, statement.object, q).seeds, "seeds"}});
    case Kind::price: {
      const auto pair = truth.pair(first, statement.object, Quantity::accuracy);
      return check({{is_mean(0, first, q) && is_mean(1, statement.object, q), "values"},
                    {is_near(value(2), pair.effect), "difference"},
                    {statement.is_ranked == truth.is_ranked(first, statement.object, q), "ranked"}});
    }
    case Kind::not_apart:
      return check(
          {{each([&](const auto& way) { return truth.is_ranked(way, statement.object, q) == false; }), "ranked"}});
    case Kind::as_much:
      return check({{each([&](const auto& way) { return within(way, statement.object, 1.005); }), "differs"}});
    case Kind::worst:
      return check({{is_near(value(0), truth.pair(first, statement.object, q).effect), "ratio"},
                    {truth.is_ranked(first, statement.object, q) == true, "not ranked"}});
    case Kind::short_of_target:
      return check(
          {{each([&](const auto& way) { return truth.mean(way, q) < truth.mean(statement.object, q); }), "not lower"},
           {each([&](const auto& way) { return !truth.is_able(way); }), "comes to it"},
           {value(0) == truth.target, "target"}});
    case Kind::never:
      return check({{each([&](const auto& way) { return !truth.is_able(way); }), "comes to it"}});
    case Kind::same_arithmetic: {
      double low = INFINITY, high = -INFINITY;
      bool alike = true;
      for (const std::string& way : statement.subjects) {
        low = std::min(low, truth.mean(way, Quantity::accuracy));
        high = std::max(high, truth.mean(way, Quantity::accuracy));
        alike = alike && is_near(truth.mean(way, Quantity::bytes), truth.mean(first, Quantity::bytes));
      }
      return check(
          {{is_near(value(0), low) && is_near(value(1), high), "values"}, {statement.is_nearly == alike, "bytes"}});
    }
    case Kind::tested: {
      std::size_t pairs = 0, seeds = 0;
      for (const Quantity one : {Quantity::epoch, Quantity::bytes,
                                 truth.target > 0 ? Quantity::reach : Quantity::waiting, Quantity::accuracy}) {
        for (const auto& names : truth.tested(one)) pairs += truth.pair(*names.begin(), *names.rbegin(), one).seeds > 1;
      }
      for (const auto& [way, runs] : truth.ways) {
        if (way != truth.baseline) seeds = std::max(seeds, truth.pair(way, truth.baseline, Quantity::epoch).seeds);
      }
      return check(
          {{value(0) == static_cast<double>(seeds), "seeds"}, {value(1) == static_cast<double>(pairs), "pairs"}});
    }
    case Kind::some_seeds:
      return check({{value(0) == static_cast<double>(truth.seeds_of(truth.baseline).size()), "seeds"},
                    {std::any_of(truth.ways.begin(), truth.ways.end(),
                                 [&](const auto& way) { return truth.seeds_of(way.first).size() < way.second.size(); }),
                     "all are compared"}});
    case Kind::one_seed: {
      std::set<std::string> few;
      for (const auto& [way, runs] : truth.ways) {
        if (way != truth.baseline && truth.pair(way, truth.baseline, Quantity::epoch).seeds < 2) few.insert(way);
      }
      const std::set<std::string> said(statement.subjects.begin(), statement.subjects.end());
      return check({{said.empty() ? few.size() + 1 == truth.ways.size() : said == few, "subjects"}});
    }
    case Kind::doubt: {
      if (statement.words.find("guessing") != std::string::npos)
        return check(
            {{each([&](const auto& way) { return truth.mean(way, Quantity::accuracy) <= guessed + 1e-9; }), "learnt"}});
      const auto has_its_bytes = [&](const std::string& way) {
        return std::any_of(statement.subjects.begin(), statement.subjects.end(), [&](const std::string& other) {
          return other != way && is_near(truth.mean(way, Quantity::bytes), truth.mean(other, Quantity::bytes));
        });
      };
      return check({{each(has_its_bytes), "sends other bytes"}});
    }
    default:
      return text(" a statement that no comparison makes: ", name(statement.kind));
  }
}

/// Whether the piece shows a number that the statement is about, or a ratio or difference of two of them.
bool shows(const std::string& piece, const Statement& statement) {
  std::vector<double> numbers;
  for (const StatedNumber& value : statement.values) {
    numbers.insert(numbers.end(), {value.number, 100 * (1 - 1 / value.number), -value.number});
    for (const StatedNumber& other : statement.values) numbers.push_back(100 * value.number / other.number);
  }
  for (const double number : numbers) {
    if (piece == format_seconds(number) || piece == format_bytes(number) || piece == format_percent(number / 100, 0))
      return true;
    for (int digits = 0; digits <= 4; ++digits) {
      if (piece == format_fixed(number, digits)) return true;
    }
  }
  return false;
}

/// What is wrong about the words, whatever the numbers.
std::string wrong_words(const Sentence& sentence) {
  const std::string said = sentence.str();
  for (const Piece& piece : sentence.pieces) {
    if (piece.source && std::none_of(sentence.statements.begin(), sentence.statements.end(),
                                     [&](const Statement& statement) { return shows(piece.text, statement); }))
      return " a number that no statement has: " + piece.text;
    if (!piece.source && piece.text.find_first_of("0123456789") != std::string::npos && sentence.about != "seeds" &&
        sentence.about != "doubt")
      return " a number without a source: " + piece.text;
  }
  for (const char* never :
       {R"(\(([\d.]+) against \1 )", R"(\b1\.0 times)", R"([ (]0(\.0+)? (%|points|times))", R"(\bnan\b|\binf\b|  )"}) {
    if (std::regex_search(said, std::regex(never))) return text(" words: ", never);
  }
  bool ranks = false, ranked = false;
  for (const Statement& statement : sentence.statements) {
    ranks |= statement.kind == Kind::not_ranked;
    ranked |= statement.kind == Kind::best && statement.is_ranked;
  }
  const bool says_so = std::regex_search(said, std::regex("is fastest|sends least|waits least| first, after"));
  if (says_so != ranked) return " says who is best";
  return ranks && ranked ? " ranks and does not" : "";
}

std::vector<std::string> wrongs(const Conclusion& found, const Truth& truth) {
  std::vector<std::string> all;
  for (const auto* sentences : {&found.sentences, &found.notes}) {
    for (const Sentence& sentence : *sentences) {
      std::string wrong = wrong_words(sentence);
      for (const Statement& statement : sentence.statements) {
        if (const std::string one = wrong_about(statement, truth); !one.empty())
          wrong += text(" ", name(statement.kind), ":", one);
      }
      if (!wrong.empty()) all.push_back(text(sentence.str(), " --", wrong));
    }
  }
  return all;
}

class Grids {
 public:
  explicit Grids(std::uint64_t seed) : random_(seed) {}

  Truth grid() {
    Truth truth;
    truth.is_virtual = chance(0.2);
    const std::size_t ways = 2 + random_() % 6, seeds = 1 + random_() % 5;
    std::vector<std::string> names{"ring", "ddp", "gather-scatter", "local-sgd", "fedavg", "ps-async", "diloco"};
    std::shuffle(names.begin(), names.end(), random_);
    const double shared_noise = pick({0, 0.02, 0.3}), own_noise = pick({0, 0.005, 0.02, 0.3}),
                 points = pick({0, 0.05, 1});
    const bool is_guessing = chance(0.1);
    std::vector<double> slow, luck;
    for (std::size_t seed = 0; seed < seeds; ++seed) {
      slow.push_back(std::exp(shared_noise * normal()));
      luck.push_back(points * normal());
    }
    for (std::size_t way = 0; way < ways; ++way) {
      Made usual;
      usual.seconds = pick({5, 5.01, 6, 10, 20 * uniform() + 0.1});
      usual.megabytes = pick({100, 100, 100.2, 50, 300 * uniform() + 1});
      usual.waited = usual.seconds * (0.01 + 0.9 * uniform());
      usual.last = is_guessing ? pick({9.5, 10, 11}) : pick({95, 95, 94.99, 93, 80, 10});
      usual.first = usual.last - pick({0.1, 5, 9});
      for (std::size_t seed = 0; seed < seeds; ++seed) {
        if (chance(0.1) && (seed + 1 < seeds || truth.ways.count(names[way]) > 0)) continue;
        Made run = usual;
        const double factor = slow[seed] * std::exp(own_noise * normal());
        run.seconds *= factor;
        run.waited *= factor;
        run.last = std::clamp(run.last + luck[seed] + 0.1 * points * normal(), 0.0, 100.0);
        truth.ways[names[way]][static_cast<std::int64_t>(seed)] = run;
      }
    }
    return truth;
  }

 private:
  double uniform() { return std::uniform_real_distribution<double>()(random_); }
  double normal() { return std::normal_distribution<double>()(random_); }
  bool chance(double p) { return uniform() < p; }
  double pick(const std::vector<double>& from) { return from[random_() % from.size()]; }

  std::mt19937_64 random_;
};

/// The conclusion from the grid's runs; the truth takes over whom it compares with, and its target.
Conclusion concluded(Truth* truth) {
  std::vector<report::Run> runs;
  for (const auto& [way, seeds] : truth->ways) {
    for (const auto& [seed, run] : seeds) {
      runs.push_back(made(way, seed, run));
      runs.back().guessing = {0.1, guessed / 100};
      if (truth->is_virtual) runs.back().summary.kind = "simulated";
    }
  }
  Conclusion found = conclusions(cells(runs)).at(0);
  truth->baseline = found.baseline;
  truth->target = found.target;
  return found;
}

TEST(Statements, EverySentenceHoldsAgainstTheNumbers) {
  Grids grids(1);
  std::map<std::string, int> kinds;
  for (int i = 0; i < 400; ++i) {
    Truth truth = grids.grid();
    const Conclusion found = concluded(&truth);
    EXPECT_TRUE(truth.target == 0 || truth.target > guessed);
    for (const std::string& wrong : wrongs(found, truth)) ADD_FAILURE() << "grid " << i << ": " << wrong;
    for (const auto* sentences : {&found.sentences, &found.notes}) {
      for (const Sentence& sentence : *sentences) {
        for (const Statement& statement : sentence.statements) ++kinds[name(statement.kind)];
      }
    }
    if (HasFailure()) return;
  }
  for (const Kind kind : {Kind::best, Kind::unbeaten, Kind::beside, Kind::not_ranked, Kind::price, Kind::not_apart,
                          Kind::as_much, Kind::worst, Kind::short_of_target, Kind::never, Kind::same_arithmetic,
                          Kind::tested, Kind::some_seeds, Kind::one_seed})
    EXPECT_GT(kinds[name(kind)], 10) << name(kind) << " was hardly tried";
}

/// Sentences about other numbers than those that are shown.
TEST(Statements, ASentenceThatContradictsItsNumbersIsFound) {
  Grids grids(2);
  int contradicted = 0, all = 0;
  for (int i = 0; i < 100; ++i) {
    Truth truth = grids.grid();
    const Conclusion found = concluded(&truth);
    for (auto& [seed, run] : truth.ways.at(found.baseline)) {
      run.seconds *= 3;
      run.megabytes *= 3;
    }
    ++all;
    contradicted += !wrongs(found, truth).empty();
  }
  EXPECT_GT(contradicted, 0.95 * all);
}

}  // namespace
}  // namespace ripieno::report
