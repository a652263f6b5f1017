// Where a model is computed. What is exchanged and the optimiser's numbers lie on the host in any case (host_copy.h).
#pragma once

#include <torch/torch.h>

#include <string>

namespace ripieno::train {

/// "cpu", or "cuda": of the GPUs that this process sees, worker i takes the i-th, counted round.
/// Throws Error(usage) on another name, and where there is no GPU, with the reason.
torch::Device find_device(const std::string& name, int worker);

/// Whether there are GPUs to compute on: how many, or why not.
std::string gpus();

}  // namespace ripieno::train
