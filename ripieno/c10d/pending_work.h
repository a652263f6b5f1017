// The handle of an operation that a c10d group has begun.
//
// wait() moves the messages itself, on the caller's thread (core/progress.h). A future is made when somebody asks for
// one; it is completed, and its callbacks run, on a thread of their own (future_threads.h).
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "ripieno/c10d/future_threads.h"
#include "ripieno/core/progress.h"

namespace ripieno::c10d {

/// What was asked of a group.
struct Asked {
  ::c10d::OpType type = ::c10d::OpType::UNKNOWN;
  const char* title = nullptr;              ///< for profilers: "ripieno:all_reduce"
  std::vector<at::Tensor> inputs, outputs;  ///< the work's result() is `outputs`
  std::chrono::milliseconds timeout = ::c10d::kUnsetTimeout;
  bool is_async = true;   ///< false: the caller waits at once
  int root = -1;          ///< the rank where it begins or ends, if there is one
  bool is_apart = false;  ///< in an order of its own, so that ranks may begin it before or after the group's others
};

/// "ripieno:all_reduce number 3 of CPUFloatType[4]"
std::string described(const Asked& asked, std::uint64_t number);

class PendingWork final : public ::c10d::Work {
 public:
  PendingWork(int rank, const Asked& asked, std::uint64_t number, std::shared_ptr<FutureThreads> threads);

  /// Before the work is handed to the caller: what moves it.
  void moves_by(ripieno::Work task) { task_ = std::move(task); }
  /// Once, on the runtime's thread. `sender`: of a receive.
  void complete(std::exception_ptr error, int sender = -1);

  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override { return outputs_; }
  int sourceRank() const override;
  std::uint64_t getSequencenumber() const override { return number_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  static void resolve(c10::ivalue::Future& future, const std::exception_ptr& error,
                      const std::vector<at::Tensor>& outputs);

  const std::vector<at::Tensor> outputs_;
  const std::uint64_t number_;
  const std::shared_ptr<FutureThreads> threads_;
  ripieno::Work task_;
  int sender_ = -1;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  ///< if somebody asked for it
  bool is_over_ = false;
};

}  // namespace ripieno::c10d
