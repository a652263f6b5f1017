// How far a pass has come: what its Pass (strategy/learner.h) tells a strategy, and what the learner that computes it
// fills in.
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

  /// No bucket follows. With an error, whoever waits for a bucket's release or for the end gets it.
  void end(std::exception_ptr error) {
    ready.push(std::nullopt);
    const auto end = [&](Event& event) { error ? event.fail(error) : event.set(); };
    for (Event& event : released) end(event);
    end(done);
  }

  Queue<std::optional<std::size_t>>
      ready;                    ///< buckets in the order in which their gradients are complete; nothing at the end
  std::vector<Event> released;  ///< of each bucket: its parameters are not read any more
  Event done;
  PassResult result;
};

/// Shares the progress with the coroutine that computes the pass.
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
