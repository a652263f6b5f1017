// Which kernels LibTorch's fp32 matrix products take. They are MKL's, which by itself takes those for AVX-512 on
// Intel's processors only and on AMD's others, half as fast. This program has them wherever the processor has AVX-512;
// what is linked with the library alone has MKL as it comes.
#pragma once

/// Whether MKL may take its kernels for AVX-512 here.
extern "C" bool ripieno_mkl_takes_avx512();
