// Reads and augments the next batch while the present one is computed, on a thread of low priority. The batches are the
// same as the loader's.
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
  /// Nobody else may load from the loader while this object lives.
  explicit Prefetch(Loader& loader);
  ~Prefetch();
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  /// Returns the batch and requests the epoch's next one. Waits for the batch if the thread has begun it, else loads it
  /// on the caller's thread, so that a machine without time for the thread loses nothing. Throws as Loader::load.
  Batch take(BatchId id);
  /// Takes back a used batch, to reuse its memory.
  void give_back(Batch batch);
  /// Bytes read for the batches taken so far, and before the first.
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
  BatchId id_;     // of the batch that is wanted, loading or ready
  Loaded loaded_;  // once ready
  Batch memory_;   // to be reused
  std::uint64_t bytes_;
  std::thread thread_;
};

}  // namespace ripieno::data
