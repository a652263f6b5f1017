#include "ripieno/collective/charged.h"

namespace ripieno {
namespace {

class ChargedAverager final : public Averager {
 public:
  ChargedAverager(std::unique_ptr<Averager> inner, double number_s) : inner_(std::move(inner)), number_s_(number_s) {}

  Task<> average(Group group, std::size_t slot, FloatSpan numbers, double weight) override {
    if (is_charged(group)) co_await group.runtime().sleep(cost(numbers));
    co_await inner_->average(group, slot, numbers, weight);
  }

  Task<> average_by_parts(Group group, std::size_t slot, FloatSpan numbers, double weight,
                          std::function<void(Range)> averaged) override {
    if (is_charged(group)) co_await group.runtime().sleep(cost(numbers));
    co_await inner_->average_by_parts(group, slot, numbers, weight, std::move(averaged));
  }

  std::optional<std::uint64_t> bytes_sent(int rank, World world, std::size_t slot) const override {
    return inner_->bytes_sent(rank, world, slot);
  }
  void visit(StateVisitor& visitor) override { inner_->visit(visitor); }

 private:
  static bool is_charged(const Group& group) { return group.size() > 1 && group.runtime().is_virtual(); }
  Duration cost(FloatSpan numbers) const { return from_seconds(number_s_ * static_cast<double>(numbers.count)); }

  std::unique_ptr<Averager> inner_;
  double number_s_;
};

}  // namespace

std::unique_ptr<Averager> make_charged(std::unique_ptr<Averager> inner, double number_s) {
  return std::make_unique<ChargedAverager>(std::move(inner), number_s);
}

}  // namespace ripieno
