// Watches backward passes through a FlatModel: tells when all gradients of a bucket are in the flat memory, and when
// the pass no longer reads the bucket's parameters. Gradients replace the previous ones or are added to them.
// Operations may write them into the flat memory themselves (gradient_loan.h); others are copied there.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <vector>

#include "ripieno/train/flat_model.h"
#include "ripieno/train/host_copy.h"
#include "ripieno/train/torch_internals.h"

namespace ripieno::train {

class BackwardWatch {
 public:
  /// Both must outlive this object.
  BackwardWatch(const FlatModel& model, HostCopy& host);
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

  /// Zeroes the gradients and starts watching for ready buckets again.
  void zero_gradients();
  /// As zero_gradients(), without a pass over the memory: until collect_gradients(), a parameter's first gradient
  /// replaces the old one, and operations may take the memory for it. With `loss`, whose backward() comes next, the
  /// gradient of a parameter that the loss uses once counts as ready when it is written, before autograd accumulates
  /// it.
  void renew_gradients(const torch::Tensor& loss = {});

  /// Called, on the thread that runs backward(), once all gradients of a bucket are in the flat memory and on the host.
  /// The pass may still read the bucket's parameters.
  std::function<void(std::size_t bucket)> on_ready;
  /// Called likewise once backward() no longer reads a bucket's parameters.
  std::function<void(std::size_t bucket)> on_released;
  /// Copies gradients to the host, after putting back into the flat memory those that the user's code has detached from
  /// it (zero_grad() sets them to none).
  void collect_gradients();
  /// collect_gradients() for one bucket.
  void collect_gradients(std::size_t bucket);

  /// For operations that write a parameter's gradient themselves: the functions of fused/gradient_places.h.
  torch::Tensor take(const torch::Tensor& parameter);
  void written(const torch::Tensor& parameter);
  std::vector<torch::Tensor> parts(const torch::Tensor& parameter) const;
  void part_written(const torch::Tensor& parameter, std::size_t part);

 private:
  /// Counts the pieces (Buckets::pieces) that each bucket still waits for.
  struct Tally {
    std::vector<std::size_t> left;
    std::vector<std::vector<bool>> seen;  // of each tensor's pieces

    /// Counts a piece; returns whether it was the bucket's last.
    bool completes(std::size_t tensor, std::size_t piece, std::size_t bucket);
  };
  void start();
  void accumulated(std::size_t tensor);
  /// The tensor's index, if its gradient counts as soon as it is written.
  std::optional<std::size_t> written_early(const torch::Tensor& parameter);
  void count(std::size_t tensor);
  void count(std::size_t tensor, std::size_t piece);
  void collect_gradient(std::size_t tensor);
  void bring_to_host(std::size_t bucket);

  const FlatModel& model_;
  HostCopy& host_;
  Tally gradients_, uses_left_;
  std::vector<bool> on_host_;  // by bucket: its gradients are on the host
  bool renewing_ = false;
  // While renewing, by trained tensor:
  std::vector<bool> taken_;          // an operation has taken its place
  std::vector<bool> early_;          // written and counted, but not accumulated yet: its gradient must stay undefined
  std::vector<std::size_t> uses_;    // uses by the given loss; 0: unknown
  std::vector<GradientHook> hooks_;  // by trained tensor
};

}  // namespace ripieno::train
