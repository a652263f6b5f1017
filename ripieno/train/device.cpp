#include "ripieno/train/device.h"

#include "ripieno/core/error.h"

namespace ripieno::train {
namespace {

std::string why_no_gpu() {
  return at::globalContext().hasCUDART() ? "LibTorch finds none, or no driver for it"
                                         : "this LibTorch is built without CUDA";
}

}  // namespace

torch::Device find_device(const std::string& name, int local_rank) {
  if (name == "cpu") return torch::kCPU;
  if (name != "cuda") fail(ErrorKind::usage, "there is no device \"", name, "\"; there are cpu, cuda");
  const int count = static_cast<unsigned char>(torch::cuda::device_count());
  if (count == 0)
    fail(ErrorKind::usage, "train.device = cuda, but there is no GPU to compute on: ", why_no_gpu(),
         "; take train.device = cpu");
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(local_rank % count)};
}

std::string gpus() {
  const auto count = torch::cuda::device_count();
  return count > 0 ? text(count, " by CUDA") : "none: " + why_no_gpu();
}

}  // namespace ripieno::train
