#include "ripieno/strategy/outer.h"

#include <cmath>
#include <string>

namespace ripieno::strategy {
namespace {

struct Outer {
  std::string_view strategy;
  const char* optimiser;
  double rate;
  bool momentum, nesterov;
};

constexpr Outer outers[] = {
    {"fedavg", "sgd", 1, false, false},      {"local-sgd", "sgd", 1, false, false}, {"fedavgm", "sgd", 1, true, false},
    {"fedadam", "adam", 0.01, false, false}, {"diloco", "sgd", 0.7, true, true},
};

const Outer& find_outer(std::string_view strategy) {
  for (const Outer& outer : outers) {
    if (outer.strategy == strategy) return outer;
  }
  fail(ErrorKind::internal, "strategy ", strategy, " has no outer optimiser");
}

class WithPrefix final : public StateVisitor {
 public:
  explicit WithPrefix(StateVisitor& to) : to_(to) {}
  void span(std::string_view name, NumberSpan values) override { to_.span(prefixed(name), values); }
  void number(std::string_view name, std::int64_t& value) override { to_.number(prefixed(name), value); }

 private:
  static std::string prefixed(std::string_view name) { return text("outer.", name); }
  StateVisitor& to_;
};

}  // namespace

std::unique_ptr<optim::Optimiser> make_outer(std::string_view strategy, const OuterOptions& options,
                                             std::size_t elements, DType type) {
  const Outer& outer = find_outer(strategy);
  optim::OptimiserOptions made;
  made.name = outer.optimiser;
  made.momentum = outer.momentum ? options.momentum : 0;
  made.nesterov = outer.nesterov && options.momentum > 0;
  made.beta1 = options.beta1;
  made.beta2 = options.beta2;
  made.epsilon = options.epsilon;
  return optim::make_optimiser(made, elements, type);
}

double outer_rate(std::string_view strategy, const OuterOptions& options) {
  const double own = find_outer(strategy).rate;
  if (!(options.learning_rate >= 0 && std::isfinite(options.learning_rate))) {
    fail(ErrorKind::usage, "outer.learning_rate = ", options.learning_rate,
         "; give a finite number of 0 or more (0: ", own, ", which is ", strategy, "'s own)");
  }
  return options.learning_rate > 0 ? options.learning_rate : own;
}

void visit_outer(optim::Optimiser& outer, StateVisitor& visitor) {
  WithPrefix with_prefix(visitor);
  outer.visit(with_prefix);
}

}  // namespace ripieno::strategy
