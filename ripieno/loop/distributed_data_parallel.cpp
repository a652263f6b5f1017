#include "ripieno/loop/distributed_data_parallel.h"

#include <exception>

namespace ripieno::loop {
namespace {

void tell_others(const GradientExchange& exchange, const std::string& why) {
  try {
    exchange.group()->end(why, true);
  } catch (...) {  // the group can tell nobody any more
  }
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(std::shared_ptr<torch::nn::Module> net, ProcessGroup group,
                                                 DistributedDataParallelOptions options)
    : exchange_(std::make_shared<GradientExchange>(std::move(net), std::move(group), std::move(options))),
      exceptions_(std::uncaught_exceptions()) {
  exchange_->start();
}

DistributedDataParallel::~DistributedDataParallel() {
  if (!exchange_ || exchange_->has_failed() || std::uncaught_exceptions() <= exceptions_) return;
  tell_others(*exchange_, text("an exception has ended the loop of rank ", rank()));
}

NoSync::NoSync(DistributedDataParallel& ddp) : exchange_(ddp.exchange_), before_(ddp.exchange_->averages) {
  exchange_->averages = false;
}

NoSync::~NoSync() { exchange_->averages = before_; }

Join::Join(DistributedDataParallel& ddp, bool divide_by_present) : exchange_(ddp.exchange_) {
  exchange_->begin_uneven(divide_by_present);
}

Join::~Join() {
  if (finished_) return;
  exchange_->leave_uneven();
  tell_others(*exchange_, "a rank has left its Join without finish()");
}

void Join::finish(const std::function<void()>& step) {
  if (finished_) fail(ErrorKind::usage, "finish() of a Join that has finished");
  const bool steps = static_cast<bool>(step);
  while (exchange_->accompany(steps)) {
    if (steps) step();
  }
  exchange_->end_uneven();
  finished_ = true;
}

}  // namespace ripieno::loop
