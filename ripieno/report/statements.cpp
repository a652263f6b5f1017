#include "ripieno/report/statements.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/words.h"

namespace ripieno::report {
namespace {

constexpr const char* kind_names[] = {
    "best",    "unbeaten", "beside",          "not_ranked", "price",    "not_apart",
    "as_much", "worst",    "short_of_target", "never",      "took",     "same_arithmetic",
    "alone",   "scales",   "tested",          "some_seeds", "one_seed", "lost",
    "doubt"};
constexpr const char* quantity_names[] = {"epoch", "bytes", "reach", "waiting", "accuracy", "images"};

bool is_plural(const Statement& statement) { return statement.subjects.size() > 1; }

/// A number of seeds: "one seed", "three seeds".
std::string seeds_in_words(std::size_t seeds) { return number_in_words(seeds) + (seeds == 1 ? " seed" : " seeds"); }

/// The time or the bytes of an epoch.
std::string amount(Quantity quantity, double number) {
  return quantity == Quantity::bytes ? format_bytes(number) : format_seconds(number);
}

void add_part_of_epoch(Words& words, const StatedNumber& waited, const StatedNumber& epoch) {
  words.number(format_seconds(waited.number), waited.source).say(" an epoch (");
  words.number(format_percent(epoch.number > 0 ? waited.number / epoch.number : 0, 0), waited.source).say(" of it)");
}

void add_target(Words& words, const StatedNumber& target) {
  words.number(percent(target.number), target.source).say(" % of the test set");
}

void say_best(Words& words, const Statement& statement) {
  const bool ranked = statement.is_ranked;
  const StatedNumber& own = statement.values[0];
  words.way(statement.subjects[0]);
  if (statement.quantity == Quantity::reach) {
    words.say(ranked ? " comes to " : " came to ");
    add_target(words, statement.values[1]);
    words.say(ranked ? " first, after " : " soonest, after ")
        .number(format_seconds(own.number), own.source)
        .say(" of training");
    return;
  }
  if (statement.quantity == Quantity::waiting) {
    words.say(ranked ? " waits least for its exchange: " : " waited least for its exchange: ");
    return add_part_of_epoch(words, own, statement.values[1]);
  }
  const bool is_bytes = statement.quantity == Quantity::bytes;
  words.say(is_bytes ? (ranked ? " sends least" : " sent least") : (ranked ? " is fastest" : " took least time"));
  if (statement.values.size() > 1) {
    words.say(" of those that come to ");
    add_target(words, statement.values[1]);
  }
  words.say(": ").number(amount(statement.quantity, own.number), own.source).say(" an epoch");
  if (is_bytes) words.say(" from its busiest rank");
}

void say_unbeaten(Words& words, const Statement& statement) {
  const StatedNumber& own = statement.values[0];
  const std::string clearly = statement.is_nearly ? "clearly " : "";
  const auto add_condition = [&](const char* verb) {
    words.say("No way ");
    if (statement.values.size() > 1) {
      words.say("that comes to ");
      add_target(words, statement.values[1]);
      words.say(" ");
    }
    words.say(verb);
  };
  switch (statement.quantity) {
    case Quantity::reach:
      words.say("No way comes to ");
      add_target(words, statement.values[1]);
      words.say(text(" ", clearly, "sooner than ")).way(statement.subjects[0]).say(", after ");
      words.number(format_seconds(own.number), own.source).say(" of training");
      return;
    case Quantity::waiting:
      words.say(text("No way waits ", clearly, "less for its exchange than ")).way(statement.subjects[0]).say(", ");
      return add_part_of_epoch(words, own, statement.values[1]);
    case Quantity::bytes:
      add_condition("sends ");
      words.say(text(clearly, "less than ")).way(statement.subjects[0]).say(", whose busiest rank sends ");
      words.number(format_bytes(own.number), own.source).say(" an epoch");
      return;
    default:
      add_condition("is ");
      words.say(text(clearly, "faster than ")).way(statement.subjects[0]).say(", with ");
      words.number(format_seconds(own.number), own.source).say(" an epoch");
  }
}

/// "2.1 times as fast as ring (4.85 s)", or, for less than a tenth, "4 % less time than ring (4.85 s)".
void say_beside(Words& words, const Statement& statement) {
  const StatedNumber &other = statement.values[0], &second = statement.values[1];
  if (statement.quantity == Quantity::waiting) {
    words.say(", where ").way(statement.object).say(statement.is_ranked ? " waits " : " waited ");
    return add_part_of_epoch(words, other, second);
  }
  words.say(statement.quantity == Quantity::reach ? ": " : ", ");
  const double ratio = second.number;
  const bool is_bytes = statement.quantity == Quantity::bytes;
  if (!std::isfinite(ratio)) {  // beside nothing
    words.say("where ").way(statement.object).say(" sends ").number(format_bytes(other.number), other.source);
    return;
  }
  if (ratio >= 1.1) {
    words.number(ratio_in_words(ratio), second.source)
        .say(is_bytes ? " times fewer bytes than " : " times as fast as ");
  } else if (ratio > 1) {
    words.number(small_percent(100 * (1 - 1 / ratio)), second.source)
        .say(is_bytes ? " % fewer bytes than " : " % less time than ");
  } else {  // means and ratios of seeds need not agree on who is first
    words.say(is_bytes ? "as many bytes seed by seed as " : "though not faster seed by seed than ");
  }
  words.way(statement.object).say(" (").number(amount(statement.quantity, other.number), other.source).say(")");
}

void say_not_ranked(Words& words, const Statement& statement) {
  if (statement.seeds == 0) {
    words.say(", but they have no seed in common, and are not ranked");
  } else {
    words.say(
        text(", but ", seeds_in_words(statement.seeds), statement.seeds == 1 ? " ranks nothing" : " do not rank them"));
  }
}

/// ", for 0.2 points less accuracy (96.9 against 97.1 %)": what winning costs.
void say_price(Words& words, const Statement& statement) {
  const StatedNumber &own = statement.values[0], &other = statement.values[1], &difference = statement.values[2];
  const int digits = digits_apart(own.number, other.number);
  if (digits < 0) {
    words.say(", at the same accuracy (").number(percent(own.number), own.source).say(" %)");
    return;
  }
  const auto add_both = [&] {
    words.number(format_fixed(own.number, digits), own.source).say(" against ");
    words.number(format_fixed(other.number, digits), other.source).say(" %");
  };
  if (statement.is_ranked) {
    const bool is_less = difference.number < 0;
    words.say(is_less ? ", for " : ", with ")
        .number(format_fixed(std::abs(difference.number), std::max(digits, decimals_of(difference.number))), own.source)
        .say(is_less ? " points less accuracy (" : " points more accuracy (");
    add_both();
  } else if (statement.seeds > 1) {
    words.say(", and accuracy cannot be told apart (");
    add_both();
  } else {
    words.say("; accuracy: ");
    add_both();
    words.say(statement.seeds == 1 ? " (of one seed" : " (of other seeds");
  }
  words.say(")");
}

void say_not_apart(Words& words, const Statement& statement, bool after_unbeaten) {
  if (after_unbeaten && statement.quantity != Quantity::bytes) {
    words.say(", from which ").names(statement.subjects).say(" cannot be told apart");
  } else {
    words.say("; ").names(statement.subjects).say(" cannot be told apart from it");
  }
}

void say_as_much(Words& words, const Statement& statement, bool after_unbeaten) {
  words.say("; ").names(statement.subjects);
  if (statement.quantity == Quantity::bytes) {
    words.say(is_plural(statement) ? " send as " : " sends as ").say(after_unbeaten ? "much" : "little");
  } else {
    words.say(is_plural(statement) ? " take as long" : " takes as long");
  }
}

void say_worst(Words& words, const Statement& statement) {
  words.say("; ")
      .way(statement.subjects[0])
      .say(statement.quantity == Quantity::bytes ? " sends " : " takes ")
      .number(ratio_in_words(statement.values[0].number), statement.values[0].source)
      .say(statement.quantity == Quantity::bytes ? " times as much" : " times as long");
}

void say_short_of_target(Words& words, const Statement& statement) {
  words.say("; ").names(statement.subjects).say(statement.quantity == Quantity::bytes ? " sent less" : " took less");
  words.say(is_plural(statement) ? ", but do not come to " : ", but does not come to ");
  add_target(words, statement.values[0]);
}

void say_took(Words& words, const Statement& statement) {
  words.way(statement.subjects[0]);
  std::string before;
  double epoch = 0;
  for (std::size_t i = 0; i < statement.quantities.size(); ++i) {
    const StatedNumber& value = statement.values[i];
    switch (statement.quantities[i]) {
      case Quantity::epoch:
        epoch = value.number;
        words.say(" took ").number(format_seconds(value.number), value.source).say(" an epoch");
        break;
      case Quantity::waiting:
        words.say(", ").number(format_percent(value.number / epoch, 0), value.source);
        words.say(" of it waiting for the exchange");
        break;
      case Quantity::bytes:
        words.say(i > 0 ? "; its" : "'s").say(" busiest rank sent ");
        words.number(format_bytes(value.number), value.source).say(" an epoch");
        break;
      default:
        words.say(i > 0 ? "; it got " : " got ").number(percent(value.number), value.source);
        words.say(" % of the test set right");
    }
  }
  if (statement.quantities.empty()) words.say(" has not come to the end of an epoch");
}

void say_same_arithmetic(Words& words, const Statement& statement) {
  const StatedNumber &low = statement.values[0], &high = statement.values[1];
  words.names(statement.subjects).say(" do the same arithmetic: ");
  const int digits = digits_apart(low.number, high.number);
  if (digits < 0) {
    words.say("their accuracy is the same, ").number(percent(low.number), low.source);
    words.say(statement.is_nearly ? " %, and they send as much; only time can differ"
                                  : " %; only time and bytes can differ");
  } else {
    words.say("what differs in their accuracy (").number(format_fixed(low.number, digits), low.source).say(" to ");
    words.number(format_fixed(high.number, digits), high.source).say(" %) is the order of sums, that is, rounding");
  }
}

/// Of two numbers, whether their seeds tell them apart.
void say_chance(Words& words, const Statement& statement) {
  if (statement.is_ranked) return;
  words.say(statement.seeds == 0   ? "; they have no seed in common, so that this may be chance"
            : statement.seeds == 1 ? "; of one seed, this may be chance"
                                   : text("; ", seeds_in_words(statement.seeds), " do not tell them apart"));
}

void say_alone(Words& words, const Statement& statement) {
  const StatedNumber &alone = statement.values[0], &together = statement.values[1], &ratio = statement.values[2];
  words.say("One worker alone (").way(statement.subjects[0]).say(") takes ");
  words.number(format_seconds(alone.number), alone.source).say(" an epoch; ").way(statement.object);
  words.say(text(" on ", format_short(statement.values[3].number), " workers takes "));
  words.number(format_seconds(together.number), together.source);
  if (statement.is_ranked || ratio.number >= 1.1) {
    words.say(", ").number(times_in_words(ratio.number), ratio.source).say(" times as fast");
  }
  say_chance(words, statement);
}

void say_scales(Words& words, const Statement& statement) {
  words.way(statement.subjects[0]).say(text(" on ", format_short(statement.values[0].number), " workers trains "));
  words.number(times_in_words(statement.values[2].number), statement.values[2].source)
      .say(text(" times as many images a second as on ", format_short(statement.values[1].number),
                ": an efficiency of "))
      .number(format_percent(statement.values[3].number, 0), statement.values[3].source);
  say_chance(words, statement);
}

void say_tested(Words& words, const Statement& statement) {
  const auto seeds = static_cast<std::size_t>(statement.values[0].number),
             pairs = static_cast<std::size_t>(statement.values[1].number);
  words.say(
      text("Ways are compared seed by seed, by paired t-tests (times and bytes as ratios) over ", seeds_in_words(seeds),
           ": ", number_in_words(pairs), pairs == 1 ? " pair" : " pairs",
           " in all. A pair is ranked at a level of 5 %, which holds for all pairs of one number together (Holm's "
           "correction)"));
}

void say_some_seeds(Words& words, const Statement& statement) {
  words.say(text("Some ways lack seeds that others have: sentences compare the ",
                 number_in_words(static_cast<std::size_t>(statement.values[0].number)),
                 " seeds that they have in common, tables and figures show all"));
}

void say_one_seed(Words& words, const Statement& statement) {
  if (statement.subjects.empty()) {
    words.say(
        "One seed each: what was measured is told, but nothing measured is ranked, since another run may turn it "
        "round");
  } else {
    words.say("Times and accuracies of ").names(statement.subjects);
    words.say(text(" are not ranked: ", is_plural(statement) ? "they have" : "it has",
                   " fewer than two seeds in common with what ", is_plural(statement) ? "they are" : "it is",
                   " compared with"));
  }
  words.say("; to rank ways, set seeds = 5 in the recipe");
}

void say(Words& words, const Statement& statement, const Statement* before) {
  using Kind = Statement::Kind;
  const bool after_unbeaten = before && before->kind == Kind::unbeaten;
  switch (statement.kind) {
    case Kind::best:
      return say_best(words, statement);
    case Kind::unbeaten:
      return say_unbeaten(words, statement);
    case Kind::beside:
      return say_beside(words, statement);
    case Kind::not_ranked:
      return say_not_ranked(words, statement);
    case Kind::price:
      return say_price(words, statement);
    case Kind::not_apart:
      return say_not_apart(words, statement, after_unbeaten);
    case Kind::as_much:
      return say_as_much(words, statement, after_unbeaten);
    case Kind::worst:
      return say_worst(words, statement);
    case Kind::short_of_target:
      return say_short_of_target(words, statement);
    case Kind::never:
      words.say("; ").names(statement.subjects);
      words.say(is_plural(statement) ? " do not come to it" : " does not come to it");
      return;
    case Kind::took:
      return say_took(words, statement);
    case Kind::same_arithmetic:
      return say_same_arithmetic(words, statement);
    case Kind::alone:
      return say_alone(words, statement);
    case Kind::scales:
      return say_scales(words, statement);
    case Kind::tested:
      return say_tested(words, statement);
    case Kind::some_seeds:
      return say_some_seeds(words, statement);
    case Kind::one_seed:
      return say_one_seed(words, statement);
    case Kind::lost:
      words.way(statement.subjects[0]).say(statement.object + ": ").number(statement.words, statement.values[0].source);
      return;
    case Kind::doubt:
      words.say(statement.object).names(statement.subjects).say(statement.words);
  }
}

}  // namespace

const char* name(Quantity quantity) { return quantity_names[static_cast<std::size_t>(quantity)]; }
const char* name(Statement::Kind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

std::string Sentence::str() const {
  std::string all;
  for (const Piece& piece : pieces) all += piece.text;
  return all;
}

Sentence sentence_of(const std::string& about, std::vector<Statement> statements) {
  Words words;
  const Statement* before = nullptr;
  for (const Statement& statement : statements) {
    say(words, statement, before);
    before = &statement;
  }
  return {about, words.end(), std::move(statements)};
}

}  // namespace ripieno::report
