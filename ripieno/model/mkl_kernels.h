// Which kernels LibTorch's fp32 matrix products take. They are MKL's, which by itself takes those for AVX-512 on Intel's processors only
// and on AMD's others, half as fast. Programs that are linked with this room have them wherever the processor has AVX-512.
#pragma once

/// Whether MKL may take its kernels for AVX-512 here.
extern "C" bool ripieno_mkl_takes_avx512();
