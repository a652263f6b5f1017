// The device that computes a model. Exchanged numbers and the optimiser's state are always on the host (host_copy.h).
#pragma once

#include <torch/torch.h>

#include <string>

namespace ripieno::train {

/// `name` is "cpu" or "cuda": the i-th rank of this host takes the i-th GPU that it sees, modulo their number. Throws
/// Error(usage) on another name, and, with the reason, if there is no GPU.
torch::Device find_device(const std::string& name, int local_rank);

/// How many GPUs there are to compute on, or why there are none, for people.
std::string gpus();

}  // namespace ripieno::train
