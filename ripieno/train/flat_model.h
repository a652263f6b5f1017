// A module whose parameters, gradients and float buffers are each in one flat block, on the module's device. The module
// keeps its tensors, which become views of these blocks. Everything below train/ then works on spans, without tensors.
//
// A parameter that appears twice (tied weights) counts once. A parameter with requires_grad = false is not trained and
// is in `frozen`. A parameter that a pass does not use has a gradient of zero, so ranks may use different ones.
//
// Other classes work on a FlatModel: HostCopy (its numbers on the host, for exchanges), BackwardWatch (a backward
// pass's gradients, bucket by bucket) and TensorHomes (whether the tensors are still where they were put).
#pragma once

#include <torch/torch.h>

#include <memory>
#include <optional>
#include <vector>

#include "ripieno/core/memory.h"
#include "ripieno/strategy/learner.h"
#include "ripieno/train/buckets.h"

namespace ripieno::train {

struct FlatOptions {
  std::size_t bucket_bytes = 25 << 20;  ///< as in BucketOptions
  bool channels_last = false;           ///< the memory format of 4-dimensional parameters
  bool divide = false;                  ///< as in BucketOptions
  Memory memory = own_memory;           ///< of the blocks on the host, which are exchanged
};

/// One block each; undefined if empty.
struct FlatBlocks {
  torch::Tensor parameters, gradients, buffers, frozen;
};

class FlatModel {
 public:
  /// The module's parameters must all be of one floating-point type (fp32 or fp64) and on one device, and so must its
  /// float buffers. Throws Error(usage), which names the tensor, otherwise, and if nothing is trainable.
  FlatModel(std::shared_ptr<torch::nn::Module> module, const FlatOptions& options);
  FlatModel(const FlatModel&) = delete;
  FlatModel& operator=(const FlatModel&) = delete;

  torch::nn::Module& module() const { return *module_; }
  torch::Device device() const { return blocks_.parameters.device(); }
  const strategy::Layout& layout() const { return layout_; }
  /// The buckets of the trained tensors.
  const Buckets& buckets() const { return buckets_; }
  /// How many of the layout's first tensors belong to the first layer: those whose names begin like the first one's.
  std::size_t first_layer() const { return first_layer_; }

  const FlatBlocks& blocks() const { return blocks_; }
  /// The numbers that the module computes with. If the device is not the CPU, the host may be unable to read these
  /// addresses.
  NumberSpan parameters() const;
  NumberSpan gradients() const;
  NumberSpan buffers() const;
  NumberSpan frozen() const;

  /// The trained parameters, in the layout's order, and each one's part of the gradients' block.
  const std::vector<torch::Tensor>& trained() const { return trained_; }
  const std::vector<torch::Tensor>& gradient_places() const { return gradient_places_; }
  /// The index of the trained parameter with this tensor's address and shape, if there is one.
  std::optional<std::size_t> index_of(const torch::Tensor& parameter) const;
  /// The two halves of the parameter that lies in two buckets (BucketOptions::divide); empty for other parameters.
  std::vector<torch::Tensor> parts_of(const torch::Tensor& parameter) const;

  /// Puts a trained parameter's gradient back into the flat memory if the user's code has detached it from there
  /// (zero_grad() sets it to none).
  void collect_gradient(std::size_t tensor) const;

  /// Sets whether the first layer's parameters get gradients. If not, later passes save that work and leave zeros.
  void train_first_layer(bool on);

 private:
  /// Collects the module's tensors, each once, and their layout. Returns their type and device.
  torch::TensorOptions take_tensors(std::vector<torch::Tensor>& frozen, std::vector<torch::Tensor>& buffers);
  void place_gradients(const torch::TensorOptions& kind, const FlatOptions& options);

  std::shared_ptr<torch::nn::Module> module_;
  strategy::Layout layout_;
  Buckets buckets_;
  FlatBlocks blocks_;
  std::vector<torch::Tensor> trained_, gradient_places_;
  std::vector<torch::Tensor> divided_parts_;
  std::size_t first_layer_ = 0;
};

}  // namespace ripieno::train
