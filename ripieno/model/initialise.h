// How a model's first weights are drawn, in place of its layers' own way.
#pragma once

#include <cstdint>

namespace torch::nn {
class Module;
}

namespace ripieno::model {

enum class Initialisation : std::uint8_t {
  standard,   ///< as each layer does by itself (LibTorch: uniform, a = sqrt(5)), or the model
  glorot,     ///< uniform in +- sqrt(6 / (in + out)): Glorot and Bengio, AISTATS 2010; what Keras does by default
  he,         ///< normal of deviation sqrt(2 / in): He et al., ICCV 2015
  orthogonal  ///< orthonormal rows, or columns: Saxe, McClelland and Ganguli, ICLR 2014
};

/// Draws the weights of all convolutions and linear layers anew, from torch::manual_seed alone, and sets their biases
/// to 0. In and out count a weight's numbers per output and per input. What is not trained stays as it is, as do all
/// other layers.
void initialise(torch::nn::Module& module, Initialisation how);

}  // namespace ripieno::model
