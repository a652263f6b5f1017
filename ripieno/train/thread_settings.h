// What LibTorch keeps for each thread, carried from one to another: number of threads, modes of autograd, autocast, the current
// device and stream.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <c10/core/StreamGuard.h>

#include <optional>

namespace ripieno {

/// The settings of the thread that makes it.
class ThreadSettings {
 public:
  /// With the current stream of `device`, where it is not the CPU.
  explicit ThreadSettings(c10::Device device);

  /// Gives them to the calling thread as long as it lives; how many threads to compute with stays.
  class Here {
   public:
    explicit Here(const ThreadSettings& settings);
    ~Here();
    Here(const Here&) = delete;
    Here& operator=(const Here&) = delete;

   private:
    at::ThreadLocalStateGuard state_;
    bool cached_casts_before_;
    c10::OptionalStreamGuard stream_;
  };

 private:
  at::ThreadLocalState state_;
  int threads_;
  bool caches_casts_;
  std::optional<c10::Stream> stream_;
};

}  // namespace ripieno
