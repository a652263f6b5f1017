// Watches backward passes through a FlatModel: says when all gradients of a bucket stand in the flat memory, and when
// its parameters are not read any more. Gradients replace the last ones, or are added up. Operations may write them
// into the flat memory themselves (gradient_loan.h); all others are brought there.
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
  /// Both must outlive it.
  BackwardWatch(const FlatModel& model, HostCopy& host);
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

  /// Zeroes the gradients, and starts to watch for ready buckets anew.
  void zero_gradients();
  /// The same without a pass over the memory: until collect_gradients(), the first gradient that a parameter gets
  /// replaces what was there, and operations may take the memory for it. With the loss whose backward() comes next, the
  /// gradient of a parameter that is used once counts from the moment at which it is written, before autograd
  /// accumulates it.
  void renew_gradients(const torch::Tensor& loss = {});

  /// Called, on the thread that runs backward(), once all gradients of a bucket stand in the flat memory and on the
  /// host. The bucket's parameters may still be read.
  std::function<void(std::size_t bucket)> on_ready;
  /// The same, once backward() does not read a bucket's parameters any more.
  std::function<void(std::size_t bucket)> on_released;
  /// Brings gradients to the host, and back those that the user's code has detached from the flat memory (zero_grad()
  /// sets them to none).
  void collect_gradients();
  /// The same for one bucket.
  void collect_gradients(std::size_t bucket);
  /// Whether, since the gradients were zeroed or renewed, one was added to in a bucket that had been announced.
  bool added_too_late() const { return added_too_late_; }

  /// For operations that write a parameter's gradient themselves, as GradientPlaces has it (fused/gradient_places.h).
  torch::Tensor take(const torch::Tensor& parameter);
  void written(const torch::Tensor& parameter);
  std::vector<torch::Tensor> parts(const torch::Tensor& parameter) const;
  void part_written(const torch::Tensor& parameter, std::size_t part);

 private:
  /// What is still to come of each bucket's pieces (Buckets::pieces).
  struct Tally {
    std::vector<std::size_t> left;
    std::vector<std::vector<bool>> seen;  // of each tensor's pieces

    /// Counts the piece; whether it was the bucket's last.
    bool completes(std::size_t tensor, std::size_t piece, std::size_t bucket);
  };
  void start();
  void accumulated(std::size_t tensor);
  /// The tensor, where its gradient counts as soon as it is written.
  std::optional<std::size_t> written_early(const torch::Tensor& parameter);
  void count(std::size_t tensor);
  void count(std::size_t tensor, std::size_t piece);
  void collect_gradient(std::size_t tensor);
  void bring_to_host(std::size_t bucket);

  const FlatModel& model_;
  HostCopy& host_;
  Tally gradients_, uses_left_;
  std::vector<bool> on_host_;  // of each bucket: its gradients have come to the host
  bool added_too_late_ = false;
  bool renewing_ = false;
  // While renewing, of each trained tensor:
  std::vector<bool> taken_;  // its place was given away
  std::vector<bool> early_;  // it is written and counted, but not accumulated yet: its gradient must stay undefined
  std::vector<std::size_t> uses_;    // by the loss that was given; 0: not known
  std::vector<GradientHook> hooks_;  // of each trained tensor
};

}  // namespace ripieno::train
