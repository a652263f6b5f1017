#include "apps/ripieno/mkl_kernels.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

extern "C" int mkl_serv_intel_cpu_true();

namespace ripieno::model {
namespace {

TEST(MklKernels, AreChosenByTheInstructionsThatThereAre) {
  if (!at::hasMKL()) GTEST_SKIP() << "this LibTorch has no MKL";
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "mkl_serv_intel_cpu_true"), reinterpret_cast<void*>(&mkl_serv_intel_cpu_true))
      << "MKL asks another";
  EXPECT_NE(dlsym(RTLD_NEXT, "mkl_serv_intel_cpu_true"), nullptr) << "this MKL does not ask it any more";
  EXPECT_TRUE(mkl_serv_intel_cpu_true() || !ripieno_mkl_takes_avx512());
}

}  // namespace
}  // namespace ripieno::model
