#include "ripieno/optim/optimiser.h"

#include <cmath>
#include <utility>

#include "ripieno/optim/adam.h"
#include "ripieno/optim/by_group.h"
#include "ripieno/optim/lookahead.h"
#include "ripieno/optim/muon.h"
#include "ripieno/optim/sgd.h"

namespace ripieno::optim {
namespace {

using Made = std::unique_ptr<Optimiser>;

struct Rule {
  const char* name;
  Made (*make)(const OptimiserOptions&, std::size_t, DType);
};

constexpr Rule rules[] = {
    {"sgd", [](const OptimiserOptions& o, std::size_t n, DType t) -> Made { return std::make_unique<Sgd>(o, n, t); }},
    {"adam",
     [](const OptimiserOptions& o, std::size_t n, DType t) -> Made {
       return std::make_unique<Adam>(o, Adam::WeightDecay::l2, n, t);
     }},
    {"adamw",
     [](const OptimiserOptions& o, std::size_t n, DType t) -> Made {
       return std::make_unique<Adam>(o, Adam::WeightDecay::decoupled, n, t);
     }},
    {"muon", [](const OptimiserOptions& o, std::size_t n, DType t) -> Made { return std::make_unique<Muon>(o, n, t); }},
};

/// The named optimiser, for all elements.
Made make_rule(const OptimiserOptions& options, std::size_t elements, DType type) {
  std::string names;
  for (const Rule& one : rules) {
    if (options.name == one.name) return one.make(options, elements, type);
    names += text(names.empty() ? "" : ", ", one.name);
  }
  fail(ErrorKind::usage, "optimiser: name = \"", options.name, "\" is unknown; the known ones are ", names);
}

// Both conditions are written so that NaN fails them.
void check_not_negative(const char* option, double value) {
  if (!(value >= 0 && std::isfinite(value))) {
    fail(ErrorKind::usage, "optimiser: ", option, " = ", value, "; give a finite number of 0 or more");
  }
}

void check_positive(const char* option, double value) {
  if (!(value > 0 && std::isfinite(value))) {
    fail(ErrorKind::usage, "optimiser: ", option, " = ", value, "; give a finite number above 0");
  }
}

void check_fraction(const char* option, double value) {
  if (!(value >= 0 && value < 1)) {
    fail(ErrorKind::usage, "optimiser: ", option, " = ", value, "; give a number from 0 to below 1");
  }
}

}  // namespace

std::unique_ptr<Optimiser> make_optimiser(const OptimiserOptions& options, std::size_t elements, DType type) {
  check_fraction("momentum", options.momentum);
  check_fraction("beta1", options.beta1);
  check_fraction("beta2", options.beta2);
  check_not_negative("weight_decay", options.weight_decay);
  check_not_negative("epsilon", options.epsilon);
  check_fraction("sgd_momentum", options.sgd_momentum);
  check_positive("newton_schulz", options.newton_schulz);
  check_positive("vector_factor", options.vector_factor);
  check_positive("head_factor", options.head_factor);
  check_not_negative("first_layer_steps", static_cast<double>(options.first_layer_steps));
  if (options.first_layer_steps > 0) check_not_negative("first_layer_rate", options.first_layer_rate);
  check_not_negative("lookahead_every", static_cast<double>(options.lookahead_every));
  check_fraction("lookahead_decay", options.lookahead_decay);
  check_not_negative("lookahead_power", options.lookahead_power);
  check_positive("total_steps", static_cast<double>(options.total_steps));
  if (options.nesterov && options.momentum == 0) {
    fail(ErrorKind::usage, "optimiser: nesterov = true with momentum = 0; give a momentum above 0");
  }
  if (type != DType::fp32 && type != DType::fp64) {
    fail(ErrorKind::usage, "optimiser: cannot step on weights in ", name(type), "; keep them in fp32 or fp64");
  }
  Made made = has_groups(options) ? std::make_unique<ByGroup>(options, elements, type, make_rule)
                                  : make_rule(options, elements, type);
  if (options.lookahead_every == 0) return made;
  return std::make_unique<Lookahead>(std::move(made), options, elements, type);
}

}  // namespace ripieno::optim
