#include "apps/ripieno/mkl_kernels.h"

bool ripieno_mkl_takes_avx512() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}

/// What MKL asks before it looks which instructions there are; a program's own comes before that in LibTorch. Not
/// documented: where a LibTorch does not ask it, nothing changes.
extern "C" int mkl_serv_intel_cpu_true() { return __builtin_cpu_is("intel") || ripieno_mkl_takes_avx512(); }
