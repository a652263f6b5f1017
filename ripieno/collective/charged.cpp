#include "ripieno/collective/charged.h"

namespace ripieno::collective {
namespace {

class ChargedAverager final : public Averager {
 public:
  ChargedAverager(std::unique_ptr<Averager> inner, double number_s) : inner_(std::move(inner)), number_s_(number_s) {}

  Task<> average(Communicator comm, std::size_t slot, NumberSpan numbers, double weight) override {
    if (is_charged(comm)) co_await comm.runtime().sleep(cost(numbers));
    co_await inner_->average(comm, slot, numbers, weight);
  }

  Task<> average_by_parts(Communicator comm, std::size_t slot, NumberSpan numbers, double weight,
                          std::function<void(Range)> averaged) override {
    if (is_charged(comm)) co_await comm.runtime().sleep(cost(numbers));
    co_await inner_->average_by_parts(comm, slot, numbers, weight, std::move(averaged));
  }

  std::optional<std::uint64_t> bytes_sent(int rank, World world, std::size_t slot) const override {
    return inner_->bytes_sent(rank, world, slot);
  }
  void commit(std::size_t slot) override { inner_->commit(slot); }
  void visit(StateVisitor& visitor) override { inner_->visit(visitor); }
  void visit_shared(StateVisitor& visitor) override { inner_->visit_shared(visitor); }

 private:
  static bool is_charged(const Communicator& comm) { return comm.size() > 1 && comm.runtime().is_virtual(); }
  Duration cost(NumberSpan numbers) const { return from_seconds(number_s_ * static_cast<double>(numbers.count)); }

  std::unique_ptr<Averager> inner_;
  double number_s_;
};

}  // namespace

std::unique_ptr<Averager> make_charged(std::unique_ptr<Averager> inner, double number_s) {
  return std::make_unique<ChargedAverager>(std::move(inner), number_s);
}

}  // namespace ripieno::collective
