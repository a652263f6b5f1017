// Reads and augments the next batch while this one is computed on: on a thread of its own that yields to compute. The
// batches are those that the loader gives by itself.
#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "ripieno/data/batch_id.h"
#include "ripieno/data/loader.h"

namespace ripieno::data {

class Prefetch {
 public:
  /// Nobody else may load from the loader as long as this lives.
  explicit Prefetch(Loader& loader);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  /// The batch, and begins on the epoch's next one. What is begun is waited for, what is not is done by the caller: a
  /// machine with no time for the thread loses nothing. Throws what Loader::load throws.
  Batch take(BatchId id);
  /// A batch that is done with: its memory is used again.
  void give_back(Batch batch);
  /// Bytes that were read for the batches taken so far, and before the first.
  std::uint64_t bytes_read();

 private:
  struct Loaded {
    Batch batch;
    std::uint64_t bytes = 0;
    std::exception_ptr error;
  };
  enum class State { idle, wanted, loading, ready, ended };

  void serve();
  Loaded load(BatchId id, Batch memory);

  Loader& loader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::idle;
  BatchId id_;     // of what is wanted, loading or ready
  Loaded loaded_;  // once ready
  Batch memory_;   // to be used again
  std::uint64_t bytes_;
  std::thread thread_;
};

}  // namespace ripieno::data
