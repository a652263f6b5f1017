#include "apps/ripieno/mkl_kernels.h"

bool ripieno_mkl_takes_avx512() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

/// MKL calls this before it checks the processor's instructions; the program's definition takes precedence over the one
/// in LibTorch. It is not documented: if a LibTorch does not call it, nothing changes.
extern "C" int mkl_serv_intel_cpu_true() { return __builtin_cpu_is("intel") || ripieno_mkl_takes_avx512(); }
