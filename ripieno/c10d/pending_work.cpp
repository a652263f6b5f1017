#include "ripieno/c10d/pending_work.h"

#include <set>

#include "ripieno/core/error.h"

namespace ripieno::c10d {

std::string described(const Asked& asked, std::uint64_t number) {
  std::string tensors;
  for (const at::Tensor& tensor : asked.inputs.empty() ? asked.outputs : asked.inputs)
    tensors += text(tensors.empty() ? " of " : ", ", tensor.toString(), tensor.sizes());
  return text(asked.title, " number ", number, tensors);
}

PendingWork::PendingWork(int rank, const Asked& asked, std::uint64_t number, std::shared_ptr<FutureThreads> threads)
    : ::c10d::Work(rank, asked.type, asked.title, asked.inputs),
      outputs_(asked.outputs),
      number_(number),
      threads_(std::move(threads)) {}

void PendingWork::complete(std::exception_ptr error, int sender) {
  sender_ = sender;
  finish(error);
  const std::lock_guard lock(future_mutex_);
  is_over_ = true;
  if (!future_) return;
  threads_->run([future = future_, error, outputs = outputs_] { resolve(*future, error, outputs); });
}

bool PendingWork::wait(std::chrono::milliseconds timeout) {
  if (timeout <= kNoTimeout) {
    if (!isCompleted()) task_.wait();
    timeout = kNoTimeout;
  }
  return ::c10d::Work::wait(timeout);
}

int PendingWork::sourceRank() const {
  return opType_ == ::c10d::OpType::RECV || opType_ == ::c10d::OpType::RECVANYSOURCE ? sender_
                                                                                     : ::c10d::Work::sourceRank();
}

c10::intrusive_ptr<c10::ivalue::Future> PendingWork::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (future_) return future_;
  std::set<std::pair<c10::DeviceType, c10::DeviceIndex>> others;
  for (const at::Tensor& tensor : outputs_) {
    if (!tensor.is_cpu()) others.emplace(tensor.device().type(), tensor.device().index());
  }
  std::vector<c10::Device> devices;
  for (const auto& [type, index] : others) devices.emplace_back(type, index);
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), devices);
  if (is_over_) resolve(*future_, exception(), outputs_);
  return future_;
}

void PendingWork::resolve(c10::ivalue::Future& future, const std::exception_ptr& error,
                          const std::vector<at::Tensor>& outputs) {
  if (error) {
    future.setError(error);
  } else {
    future.markCompleted(c10::IValue(outputs));
  }
}

}  // namespace ripieno::c10d
