// Selects the kernels of LibTorch's fp32 matrix products. They are MKL's, which by itself uses its AVX-512 kernels only
// on Intel processors; on AMD's it uses others, half as fast. The executable `ripieno` uses them on every processor
// with AVX-512. No library has this: programs of others get MKL's own choice.
#pragma once

/// Whether MKL may use its AVX-512 kernels here.
extern "C" bool ripieno_mkl_takes_avx512();
