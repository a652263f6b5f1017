// The progress of a pass: the learner that computes the pass fills it in, and the strategy reads it through a Pass
// (strategy/learner.h).
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ripieno/core/async.h"
#include "ripieno/strategy/learner.h"

namespace ripieno::strategy {

struct PassProgress {
  PassProgress(Runtime& runtime, std::size_t buckets) : ready(runtime), done(runtime) {
    for (std::size_t i = 0; i < buckets; ++i) released.emplace_back(runtime);
  }

  /// No bucket follows. With an error, all that wait for a bucket's release or for the end get it.
  void end(std::exception_ptr error) {
    ready.push(std::nullopt);
    const auto end = [&](Event& event) { error ? event.fail(error) : event.set(); };
    for (Event& event : released) end(event);
    end(done);
  }

  Queue<std::optional<std::size_t>>
      ready;                    ///< buckets in the order in which their gradients become complete; nullopt at the end
  std::vector<Event> released;  ///< of each bucket: the pass no longer reads its parameters
  Event done;
  PassResult result;
};

/// A Pass that shares its progress with the coroutine that computes it.
class ProgressPass : public Pass {
 public:
  explicit ProgressPass(std::shared_ptr<PassProgress> progress) : progress_(std::move(progress)) {}

  Task<std::optional<std::size_t>> next_bucket() override { return progress_->ready.pop(); }
  bool reads(std::size_t bucket) const override { return !progress_->released[bucket].is_set(); }
  Task<> released(std::size_t bucket) override { return progress_->released[bucket].wait(); }
  BatchSize size() const override { return progress_->result; }
  Task<PassResult> finish() override {
    co_await progress_->done.wait();
    co_return progress_->result;
  }

 private:
  std::shared_ptr<PassProgress> progress_;
};

}  // namespace ripieno::strategy
