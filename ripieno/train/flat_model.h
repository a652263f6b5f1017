// A module whose parameters, gradients and float buffers lie in one flat block each, on the module's device. The module
// keeps its tensors: they become views of these blocks. Everything below train/ then works on spans, without tensors.
//
// A parameter that appears twice (tied weights) counts once. One with requires_grad = false (frozen) is not trained and
// lies in `frozen`. One that a pass does not use has a gradient of zero, so ranks may use different ones.
//
// Other classes work on a FlatModel: HostCopy (what is exchanged lies on the host), BackwardWatch (a backward pass's
// gradients, bucket by bucket) and TensorHomes (whether the tensors still lie where they were put).
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
  Memory memory = own_memory;           ///< of the blocks that lie on the host, which are what is exchanged
};

/// One block each; undefined where there is none.
struct FlatBlocks {
  torch::Tensor parameters, gradients, buffers, frozen;
};

class FlatModel {
 public:
  /// The module's parameters must all be of one floating-point type (fp32 or fp64) and on one device, as its float
  /// buffers are. Throws Error(usage) that names the tensor otherwise, or when nothing is trainable.
  FlatModel(std::shared_ptr<torch::nn::Module> module, const FlatOptions& options);
  FlatModel(const FlatModel&) = delete;
  FlatModel& operator=(const FlatModel&) = delete;

  torch::nn::Module& module() const { return *module_; }
  torch::Device device() const { return blocks_.parameters.device(); }
  const strategy::Layout& layout() const { return layout_; }
  /// How the trained tensors lie in the layout's buckets.
  const Buckets& buckets() const { return buckets_; }
  /// How many of the layout's first tensors are the first layer's: those whose names begin as the first one's.
  std::size_t first_layer() const { return first_layer_; }

  const FlatBlocks& blocks() const { return blocks_; }
  /// The numbers that the module computes with. On another device these are addresses that the host may not be able to
  /// read.
  NumberSpan parameters() const;
  NumberSpan gradients() const;
  NumberSpan buffers() const;
  NumberSpan frozen() const;

  /// The trained parameters, in the layout's order, and the part of the gradients' block that belongs to each.
  const std::vector<torch::Tensor>& trained() const { return trained_; }
  const std::vector<torch::Tensor>& gradient_places() const { return gradient_places_; }
  /// The trained parameter that lies at the same address and has the same shape as this tensor; none where there is
  /// none.
  std::optional<std::size_t> index_of(const torch::Tensor& parameter) const;
  /// The two halves of the parameter that lies in two buckets (BucketOptions::divide); of others nothing.
  std::vector<torch::Tensor> parts_of(const torch::Tensor& parameter) const;

  /// Whether the parameters of the first layer get gradients. Where they do not, the next passes save that work and
  /// leave zeros.
  void train_first_layer(bool on);

 private:
  /// Takes the module's tensors, each once, and their layout. Returns their type and device.
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
