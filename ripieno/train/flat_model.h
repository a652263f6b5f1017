// A module whose parameters, gradients and float buffers lie in one flat span each, so that everything below train/ works
// without tensors. The module keeps its tensors: they become views of the flat memory.
//
// A parameter that appears twice (tied weights) is one. One with requires_grad = false (frozen) is not trained and lies in
// `frozen`. One that a pass does not use keeps a gradient of zero, so ranks may use different ones.
//
// The spans lie on the host, where they are exchanged. A module on another device computes on flat memory there, and numbers cross
// where this header says so; on the CPU the two are one, and nothing crosses.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ripieno/core/memory.h"
#include "ripieno/fused/gradient_places.h"
#include "ripieno/strategy/learner.h"

namespace ripieno {

struct FlatOptions {
  std::size_t bucket_bytes = 25 << 20;  ///< a bucket takes whole tensors until it has at least so many bytes
  bool channels_last = false;           ///< the memory format of 4-dimensional parameters
  /// Whether the tensor that ends the first bucket, where it has two bucket_bytes or more, lies in two buckets, each of half of its rows
  /// (its first dimension): the last layer that counts can then go forward, and its gradient be exchanged, by halves. For whoever
  /// treats all numbers of a tensor alike.
  bool divide = false;
  Memory memory = own_memory;           ///< of parameters, gradients and buffers, which are what is exchanged
};

class FlatModel : public GradientPlaces {
 public:
  /// The module's parameters must all be of one floating-point type (fp32 or fp64) and on one device, as its float buffers are.
  /// Throws Error(usage) that names the tensor otherwise, or when nothing is trainable.
  FlatModel(std::shared_ptr<torch::nn::Module> module, FlatOptions options);
  ~FlatModel() override;
  FlatModel(const FlatModel&) = delete;
  FlatModel& operator=(const FlatModel&) = delete;

  torch::nn::Module& module() { return *module_; }
  const Layout& layout() const { return layout_; }
  /// How many of the layout's first tensors are the first layer's.
  std::size_t first_layer() const { return first_layer_; }
  NumberSpan parameters() const;
  NumberSpan gradients() const;
  NumberSpan buffers() const;
  NumberSpan frozen() const;

  /// The parameters and gradients that the module computes with: their addresses, which the host may not be able to read.
  NumberSpan computed_parameters() const;
  NumberSpan computed_gradients() const;
  /// Brings the host's numbers to where the module computes: trained parameters, frozen ones and buffers, both, or gradients.
  void parameters_to_device();
  void parameters_to_device(std::size_t bucket);
  void buffers_to_device();
  void state_to_device();
  void gradients_to_device();
  /// And back. Gradients come by themselves, before on_ready and in collect_gradients().
  void parameters_to_host();
  void buffers_to_host();

  /// Whether every tensor still lies in the flat memory. Loading into the module, or to(), makes it lie elsewhere.
  bool is_in_place() const;
  /// Copies what lies elsewhere into the flat memory and makes it lie there again; whether there was anything. Throws Error(usage)
  /// that names the tensor where one has another type, shape or device than it had, or a frozen one requires a gradient now.
  bool bring_back();
  /// Some of the numbers of each trained parameter, the same places each time.
  std::vector<double> sample() const;
  /// A line for each parameter: name, shape, type, and whether it is frozen.
  std::vector<std::string> lines() const;
  torch::Device device() const { return device_.parameters.device(); }
  /// Whether this is one of the trained parameters, or a frozen one.
  bool knows(const torch::Tensor& parameter) const;

  /// Whether the parameters of the first layer (those whose names begin as the first trained one's) get gradients: the next
  /// passes then leave theirs at zero and save the work.
  void train_first_layer(bool on);
  /// Zeroes the gradients, and starts to watch for ready buckets anew.
  void zero_gradients();
  /// The same without a pass over the memory: until collect_gradients(), the first gradient that a parameter gets replaces
  /// what was there, and operations that know GradientPlaces write it there themselves. With the loss whose backward() comes
  /// next, the gradient of a parameter that is used once counts from the moment at which it is written, not only accumulated.
  void renew_gradients(const torch::Tensor& loss = {});
  torch::Tensor take(const torch::Tensor& parameter) override;
  void written(const torch::Tensor& parameter) override;
  std::vector<torch::Tensor> parts(const torch::Tensor& parameter) override;
  void part_written(const torch::Tensor& parameter, std::size_t part) override;
  /// Called, on the thread that runs backward(), once all gradients of a bucket stand in the flat memory. Its parameters may still
  /// be read.
  std::function<void(std::size_t bucket)> on_ready;
  /// The same, once backward() does not read a bucket's parameters any more.
  std::function<void(std::size_t bucket)> on_released;
  /// Brings gradients to the host, and back those that the user's code has detached from the flat memory (zero_grad() sets them to
  /// none).
  void collect_gradients();
  /// The same for one bucket.
  void collect_gradients(std::size_t bucket);
  /// Whether, since zero_gradients(), a gradient was added to in a bucket that had been announced.
  bool added_too_late() const { return added_too_late_; }

 private:
  void make_buckets(const FlatOptions& options);
  bool on_host() const { return host_buckets_.empty(); }
  void lie_on_host_too(const Memory& memory);
  void cross(const torch::Tensor& to, const torch::Tensor& from);
  void gradients_to_host(std::size_t bucket);
  void watch_anew();
  /// Of the trained tensor that this one is, the whole of it.
  std::optional<std::size_t> index_of(const torch::Tensor& parameter) const;
  /// Where its gradient counts as soon as it is written.
  std::optional<std::size_t> written_early(const torch::Tensor& parameter);
  void accumulated(std::size_t tensor);
  void collect_gradient(std::size_t tensor);
  /// Remembers where a tensor lies in the flat memory.
  void settle(const std::string& name, const torch::Tensor& tensor);
  void choose_sample();

  struct Watch;
  /// A tensor of the module and where it lies in the flat memory.
  struct Home {
    std::string name;
    torch::Tensor tensor, place;
    bool frozen;
  };
  struct Flat {
    torch::Tensor parameters, gradients, buffers, frozen;
  };
  std::shared_ptr<torch::nn::Module> module_;
  Layout layout_;
  std::vector<torch::Tensor> trained_, gradient_views_;
  std::vector<Home> homes_;  // of parameters, trained and frozen, and buffers
  std::vector<std::size_t> sampled_;  // elements of the flat parameters
  torch::Tensor sampled_there_;       // the same, on a device that is not the CPU
  bool added_too_late_ = false;
  Flat device_, host_;         // the same tensors on the CPU
  std::vector<Flat> device_buckets_, host_buckets_;  // parameters and gradients of each; none on the CPU
  std::vector<bool> crossed_;  // of each bucket: its gradients have come to the host
  std::size_t first_layer_ = 0;         // trained tensors of the first layer
  std::vector<std::vector<std::size_t>> buckets_of_;  // of each trained tensor, by its rows: one, or of the divided tensor two
  std::vector<std::size_t> pieces_in_;                // of each bucket: tensors, or parts of one
  std::size_t divided_ = SIZE_MAX;                    // the tensor that lies in two buckets
  std::vector<torch::Tensor> divided_parts_;
  std::shared_ptr<Watch> watch_;
  bool renewing_ = false;
  std::vector<bool> taken_;  // while renewing: places that were given away
  std::vector<bool> early_;  // of those, written and counted, but not accumulated yet: their gradient must stay undefined
  std::vector<std::size_t> uses_;  // of each trained tensor by the loss that was given; 0: not known
};

}  // namespace ripieno
