// What sentences say, as data: every sentence is a list of statements about numbers of ways. Tests hold the statements
// against the numbers; statements.cpp alone gives them words.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ripieno/report/figure.h"

namespace ripieno::report {

/// A number that ways are compared by.
enum class Quantity {
  epoch,     ///< seconds of training an epoch
  bytes,     ///< that the busiest rank sends an epoch
  reach,     ///< seconds of training to the target accuracy
  waiting,   ///< seconds of an epoch in which workers wait for the exchange
  accuracy,  ///< at the end, per cent of the test set
  images,    ///< trained a second
};
const char* name(Quantity quantity);

struct StatedNumber {
  double number = 0;
  Source source;
};

struct Statement {
  enum class Kind {
    best,             ///< of all ways that come to the target, none's number is lower than the subject's, values[0];
                      ///< values[1]: the target, where some do not come to it, per cent; of waiting: the whole epoch
    unbeaten,         ///< the same of the way that others are compared with; if `is_nearly`: none is lower by 0.5 %
    beside,           ///< the object's number, values[0], over the subject's is values[1], seed by seed; of waiting
                      ///< values[1] is the object's whole epoch
    not_ranked,       ///< the seeds in common do not rank subject and object
    price,            ///< accuracies: the subject's, the object's, and their difference, seed by seed
    not_apart,        ///< the seeds in common rank none of the subjects beside the object
    as_much,          ///< the subjects' numbers are within 0.5 % of the object's
    worst,            ///< the subject's number is the highest; values[0]: over the object's, seed by seed
    short_of_target,  ///< the subjects' numbers are lower than the object's, but not all their runs come to values[0]
    never,            ///< not all of the subjects' runs come to the target
    took,             ///< the subject's own numbers, each with its quantity: see `quantities`
    same_arithmetic,  ///< the subjects take the same steps; values: their lowest and highest accuracy; `is_nearly`:
                      ///< they send the same
    alone,            ///< subject: a worker alone; values: its epoch, the object's, their ratio, the object's workers
    scales,           ///< values: the subject's workers, the object's, the ratio of images, the efficiency
    tested,           ///< values[0]: seeds, values[1]: pairs that were tested in all
    some_seeds,       ///< runs are missing: values[0]: by how many seeds ways are compared that all have
    one_seed,         ///< the subjects have one seed in common with what they are compared with, or none
    lost,             ///< `words`: which ranks a run of the subject lost; object: which run, where it has several
    doubt,            ///< object, subjects, words: why the experiment cannot answer its question, and what to change
  };
  Kind kind;
  Quantity quantity = Quantity::epoch;
  std::vector<std::string> subjects = {};  ///< names of ways
  std::string object = {};
  std::vector<StatedNumber> values = {};
  bool is_ranked = false;  ///< best, price, alone, scales: the seeds that both have tell them apart (pairing.h)
  bool is_nearly = false;  ///< see its kinds
  std::size_t seeds = 0;   ///< that subject and object have in common
  std::vector<Quantity> quantities = {};
  std::string words = {};
};
const char* name(Statement::Kind kind);

/// A piece of a sentence: words, the name of a way (a strategy with its options), or a number.
struct Piece {
  std::string text;
  std::optional<Source> source = {};  ///< of a number
  bool is_name = false;               ///< the name of a way
};

struct Sentence {
  /// "time", "bytes", "accuracy", "waiting", "run", "scaling"; of notes "losses", "arithmetic", "alone", "seeds",
  /// "doubt"
  std::string about;
  std::vector<Piece> pieces;
  std::vector<Statement> statements = {};  ///< all that it says
  std::string str() const;
};

/// The statements in words.
Sentence sentence_of(const std::string& about, std::vector<Statement> statements);

}  // namespace ripieno::report
