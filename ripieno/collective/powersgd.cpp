#include "ripieno/collective/powersgd.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>

#include "ripieno/collective/check.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/slot_channels.h"
#include "ripieno/core/hash.h"
#include "ripieno/numeric/elementwise.h"

namespace ripieno::collective {
namespace {

template <class T>
using Rows = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <class T>
using Columns = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;

/// The places of a matrix and its factors: in the slot's numbers, and in the packed P and Q of all matrices.
struct Factored {
  Range range;
  std::size_t rows, columns, rank;
  std::size_t p, q;
};

/// A slot's numbers, divided by how they are averaged.
struct Factorisation {
  std::size_t elements = 0;
  std::vector<Factored> matrices;
  std::vector<Range> rest;                  ///< averaged uncompressed
  std::size_t p = 0, q = 0, rest_size = 0;  ///< numbers in all P, in all Q, and in `rest`
};

Factorisation make_plan(const Slot& slot, PowerSgdOptions options) {
  Factorisation plan;
  plan.elements = slot.elements;
  std::size_t checked = 0, done = 0;
  const auto keep = [&](std::size_t end) {
    if (end > done) plan.rest.push_back({done, end});
    plan.rest_size += end - done;
  };
  for (const auto& [range, rows, columns] : slot.matrices) {
    const bool inside = checked <= range.begin && range.begin <= range.end && range.end <= slot.elements;
    if (!inside || range.size() != rows * columns) {
      fail(ErrorKind::usage, "a matrix of ", rows, " x ", columns, " at [", range.begin, ", ", range.end,
           ") of a slot of ", slot.elements,
           " numbers: matrices ascend, do not overlap and have rows x columns numbers");
    }
    checked = range.end;
    const std::size_t rank = std::min({static_cast<std::size_t>(options.rank), rows, columns});
    const bool smaller = (rows + columns) * rank < rows * columns;
    if (rank == 0 || (!smaller && !options.factor_all)) continue;
    keep(range.begin);
    done = range.end;
    plan.matrices.push_back({range, rows, columns, rank, plan.p, plan.q});
    plan.p += rows * rank;
    plan.q += columns * rank;
  }
  keep(slot.elements);
  return plan;
}

template <class T>
void draw(T* numbers, std::size_t count, Random& random) {
  std::generate_n(numbers, count, [&] { return static_cast<T>(random.uniform(-1, 1)); });
}

/// Modified Gram-Schmidt. P has no more columns than rows, and numbers that are finite.
template <class T>
void orthogonalise(Columns<T> p, Random& random) {
  const auto project = [&p](Eigen::Index j) {
    for (Eigen::Index i = 0; i < j; ++i) p.col(j) -= p.col(i).dot(p.col(j)) * p.col(i);
  };
  const T dependent = std::sqrt(std::numeric_limits<T>::epsilon()) * T(0.01);
  for (Eigen::Index j = 0; j < p.cols(); ++j) {
    const T size = p.col(j).cwiseAbs().maxCoeff();
    if (size > 0) p.col(j) /= size;  // so that squares neither overflow nor vanish
    T least = dependent * p.col(j).norm();
    project(j);
    while (!(p.col(j).norm() > least)) {  // 0, or dependent: a random direction, which no matrix keeps avoiding
      draw(p.col(j).data(), static_cast<std::size_t>(p.rows()), random);
      least = T(0.01) * p.col(j).norm();  // again if the earlier columns leave little of it
      project(j);
    }
    p.col(j) /= p.col(j).norm();
    project(j);  // once more, for what rounding left
    p.col(j) /= p.col(j).norm();
  }
}

/// Makes Q the next call's first guess. A column of 0 would never be anything else, and a row of 0 would hide its
/// column of M for as long as the others fill the rank: zeros become random numbers of the column's size. Powers of two
/// bring columns near 1, which changes no direction, so that P = M Q neither overflows nor vanishes.
template <class T>
void make_guess(Columns<T> q, Random& random) {
  for (Eigen::Index j = 0; j < q.cols(); ++j) {
    const T size = q.col(j).cwiseAbs().maxCoeff();
    const int exponent = size > 0 ? std::ilogb(size) + 1 : 0;
    for (T& x : q.col(j)) x = x == 0 ? static_cast<T>(random.uniform(-1, 1)) : std::scalbn(x, -exponent);
  }
}

template <class T>
class PowerSgdAverager final : public Averager {
 public:
  PowerSgdAverager(const AveragerOptions& options, PowerSgdOptions powersgd, const std::vector<Slot>& slots, DType type)
      : route_(find_route(options.route)),
        seed_(options.seed),
        channels_(slots.size()),
        error_feedback_(powersgd.error_feedback),
        type_(type),
        memory_(slots.size()) {
    for (const Slot& slot : slots) plans_.push_back(make_plan(slot, powersgd));
  }

  Task<> average(Communicator comm, std::size_t slot, NumberSpan numbers, double weight) override {
    const Factorisation& plan = plans_.at(slot);
    require(numbers.count == plan.elements && numbers.type == type_, "slot ", slot, " of ", plan.elements, " ",
            name(type_), " is averaged with ", numbers.count, " ", name(numbers.type));
    forget_staged(memory_[slot]);
    numeric::scale(numbers, weight);
    if (comm.size() == 1) co_return;
    const std::uint32_t channel = channels_.of(comm, slot);
    const ExecuteOptions options{type_, observe::Purpose::exchange, channel, 0};
    if (!numbers.data) {
      const NumberSpan first(nullptr, plan.p + plan.rest_size, type_), second(nullptr, plan.q, type_);
      co_await all_reduce(route_, comm, first, options);
      co_await all_reduce(route_, comm, second, options);
      co_return;
    }

    Memory& memory = ready(slot);
    std::vector<T> first(plan.p + plan.rest_size), second(plan.q);
    for (const Factored& f : plan.matrices) {
      if (error_feedback_) numeric::add(numbers.slice(f.range.begin, f.range.end), error(memory, f));  // 1.
      p(first, f).noalias() = m(numbers, f) * q(memory.q, f);                                          // 2.
    }
    copy_rest(plan, numbers, first, true);
    const NumberSpan first_numbers(first), second_numbers(second);
    co_await all_reduce(route_, comm, first_numbers, options);  // 3.

    // All ranks decide alike: the sums' bits are the same everywhere.
    bool finite = all_finite(first);
    std::vector<Random> random;  // by matrix
    for (const Factored& f : plan.matrices) {
      random.push_back(draws(slot, memory, f));
      if (p(first, f).allFinite()) {
        orthogonalise<T>(p(first, f), random.back());  // 4.
      } else {
        p(first, f).setConstant(std::numeric_limits<T>::quiet_NaN());
      }
      q(second, f).noalias() = m(numbers, f).transpose() * p(first, f);   // 5.
      m(numbers, f).noalias() -= p(first, f) * q(second, f).transpose();  // 6.
    }
    stage_error(plan, memory, numbers, finite);  // others may end before this member knows that all have
    co_await all_reduce(route_, comm, second_numbers, options);  // 7.

    finite = finite && all_finite(second);
    memory.has_staged_error = memory.has_staged_error && finite;
    for (const Factored& f : plan.matrices) {
      m(numbers, f).noalias() = p(first, f) * q(second, f).transpose();  // 8.
    }
    copy_rest(plan, numbers, first, false);
    if (!finite) co_return;
    for (std::size_t i = 0; i < random.size(); ++i) make_guess<T>(q(second, plan.matrices[i]), random[i]);  // 9.
    memory.staged_q = std::move(second);
  }

  void commit(std::size_t slot) override {
    Memory& memory = memory_.at(slot);
    if (memory.has_staged_error) std::swap(memory.error, memory.staged_error);
    if (!memory.staged_q.empty()) std::swap(memory.q, memory.staged_q);
    forget_staged(memory);
  }

  std::optional<std::uint64_t> bytes_sent(int rank, World world, std::size_t slot) const override {
    const Factorisation& plan = plans_.at(slot);
    const auto sent = [&](std::size_t elements) { return schedule_cost(route_, rank, world, elements).elements_sent; };
    return (sent(plan.p + plan.rest_size) + sent(plan.q)) * sizeof(T);
  }

  void visit(StateVisitor& visitor) override {
    for (std::size_t slot = 0; slot < plans_.size(); ++slot) {
      if (plans_[slot].matrices.empty()) continue;
      Memory& memory = ready(slot);
      const std::string name = text("averager.slot", slot);
      if (error_feedback_) visitor.span(name + ".residual", NumberSpan(memory.error));
      visitor.span(name + ".q", NumberSpan(memory.q));
    }
  }

  void visit_shared(StateVisitor& visitor) override {
    for (std::size_t slot = 0; slot < plans_.size(); ++slot) {
      if (!plans_[slot].matrices.empty()) visitor.span(text("averager.slot", slot, ".q"), NumberSpan(ready(slot).q));
    }
  }

 private:
  /// A slot's state, allocated at the first use.
  struct Memory {
    std::vector<T> error;  ///< as long as the slot, 0 outside matrices
    std::vector<T> q;
    std::vector<T> staged_error, staged_q;  ///< staged_q: empty if there is none
    bool has_staged_error = false;
  };

  static void forget_staged(Memory& memory) {
    memory.has_staged_error = false;
    memory.staged_q.clear();
  }

  /// 6. `finite`: the decision that all share. The error may overflow even so, and is then not staged: this member may
  ///    commit before it has seen the second sum, which would show that.
  void stage_error(const Factorisation& plan, Memory& memory, NumberSpan numbers, bool finite) {
    if (!finite || !error_feedback_ || plan.matrices.empty()) return;
    memory.staged_error.resize(plan.elements);
    for (const Factored& f : plan.matrices) {
      numeric::convert(NumberSpan(memory.staged_error).slice(f.range.begin, f.range.end),
                       numbers.slice(f.range.begin, f.range.end));
    }
    memory.has_staged_error = all_finite(memory.staged_error);
  }

  Memory& ready(std::size_t slot) {
    const Factorisation& plan = plans_[slot];
    Memory& memory = memory_[slot];
    if (plan.matrices.empty() || !memory.q.empty()) return memory;
    if (error_feedback_) memory.error.resize(plan.elements);
    memory.q.resize(plan.q);
    Random random(seed_, slot);
    draw(memory.q.data(), memory.q.size(), random);
    return memory;
  }

  /// For what a matrix leaves open. The last Q, a part of the committed state, makes them the same on all ranks, in an
  /// attempt that is taken again and after a resume, and others in the next call.
  Random draws(std::size_t slot, Memory& memory, const Factored& f) const {
    const auto last = q(memory.q, f);
    const std::string_view bytes(reinterpret_cast<const char*>(last.data()),
                                 static_cast<std::size_t>(last.size()) * sizeof(T));
    return Random(Random(seed_, slot).next() ^ hash(bytes), f.q);
  }

  static Rows<T> m(NumberSpan numbers, const Factored& f) {
    return Rows<T>(numbers.as<T>().data() + f.range.begin, static_cast<Eigen::Index>(f.rows),
                   static_cast<Eigen::Index>(f.columns));
  }
  static Columns<T> p(std::vector<T>& packed, const Factored& f) {
    return Columns<T>(packed.data() + f.p, static_cast<Eigen::Index>(f.rows), static_cast<Eigen::Index>(f.rank));
  }
  static Columns<T> q(std::vector<T>& packed, const Factored& f) {
    return Columns<T>(packed.data() + f.q, static_cast<Eigen::Index>(f.columns), static_cast<Eigen::Index>(f.rank));
  }
  static NumberSpan error(Memory& memory, const Factored& f) {
    return NumberSpan(memory.error).slice(f.range.begin, f.range.end);
  }
  static bool all_finite(const std::vector<T>& values) {
    return std::all_of(values.begin(), values.end(), [](T x) { return std::isfinite(x); });
  }

  /// In `packed`, the rest follows P.
  static void copy_rest(const Factorisation& plan, NumberSpan numbers, std::vector<T>& packed, bool pack) {
    std::size_t at = plan.p;
    for (const Range range : plan.rest) {
      const NumberSpan here = numbers.slice(range.begin, range.end);
      const NumberSpan there = NumberSpan(packed).slice(at, at + range.size());
      numeric::convert(pack ? there : here, pack ? here : there);
      at += range.size();
    }
  }

  const Route& route_;
  const std::uint64_t seed_;
  SlotChannels channels_;
  const bool error_feedback_;
  const DType type_;
  std::vector<Factorisation> plans_;
  std::vector<Memory> memory_;
};

}  // namespace

std::unique_ptr<Averager> make_powersgd(const AveragerOptions& options, PowerSgdOptions powersgd,
                                        std::vector<Slot> slots, DType type) {
  if (type == DType::fp64) return std::make_unique<PowerSgdAverager<double>>(options, powersgd, slots, type);
  return std::make_unique<PowerSgdAverager<float>>(options, powersgd, slots, type);
}

}  // namespace ripieno::collective
