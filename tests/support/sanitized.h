// Whether a sanitizer looks on, which makes all of it some ten times as slow: what a test then repeats less often.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace ripieno::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// Memory that is taken while it lives may be left behind: where a run ends by an error, the coroutines that still wait
/// for each other (at a queue that they own together, say) are not destroyed, since a job's process ends then.
class [[maybe_unused]] MayLeaveWaiting {
 public:
#if defined(__SANITIZE_ADDRESS__)
  MayLeaveWaiting() { __lsan_disable(); }
  ~MayLeaveWaiting() { __lsan_enable(); }
#else
  MayLeaveWaiting() = default;
#endif
  MayLeaveWaiting(const MayLeaveWaiting&) = delete;
  MayLeaveWaiting& operator=(const MayLeaveWaiting&) = delete;
};

}  // namespace ripieno::testing
