// A short pause in a loop that polls memory which another core writes.
#pragma once

namespace ripieno {

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace ripieno
