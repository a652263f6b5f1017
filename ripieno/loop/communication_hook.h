// How DistributedDataParallel averages a bucket of gradients: a function, of which these are the ready-made ones.
//
//   ripieno::DistributedDataParallel ddp(net, group, {.hook = ripieno::hooks::powersgd(2)});
//
// One's own, here the mean of values clipped at 1:
//   [](ripieno::ProcessGroup group, ripieno::GradientBucket bucket) {
//     std::vector<torch::Tensor> tensors{bucket.numbers.clamp_(-1, 1).div_(group->getSize())};
//     return group->allreduce(tensors);
//   }
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <vector>

#include "ripieno/codec/codec.h"
#include "ripieno/loop/process_group.h"

namespace ripieno::loop {

struct GradientBucket {
  int index = 0;                         ///< from 0; a backward pass makes buckets ready in about this order
  int generation = 0;                    ///< buckets are formed anew after the first pass and when parameters change
  std::uint64_t parameters = 0;          ///< a code of the names of the bucket's parameters
  torch::Tensor numbers;                 ///< of one dimension: all gradients of the bucket, one after the other
  std::vector<torch::Tensor> gradients;  ///< parts of `numbers`, with the shapes of their parameters
  const void* model = nullptr;           ///< the same for all buckets of a model; tells models apart
};

/// Begins an exchange whose end leaves the average in place in `numbers`, and returns its handle. Called on all ranks
/// for the same buckets in the same order, in the thread that runs backward(), whose pass may still go on.
using CommunicationHook = std::function<c10::intrusive_ptr<::c10d::Work>(ProcessGroup group, GradientBucket bucket)>;

/// A hook that averages with a codec (codec/codec.h), which keeps what it loses for the next step unless error_feedback
/// is off. Gradients must be fp32 or fp64. A hook serves one model; copies are the same hook. Error(usage): a bad
/// option; a second model.
///
/// torch::save(hook, file) and torch::load(hook, file) save and load what it keeps of this rank's gradients: residuals,
/// powersgd's factors. Each rank has a file of its own. Both between backward passes, loading into a hook with the same
/// options; a bucket of the same parameters goes on from there.
class CodecHook {
 public:
  explicit CodecHook(codec::CodecOptions options);
  c10::intrusive_ptr<::c10d::Work> operator()(const ProcessGroup& group, const GradientBucket& bucket) const;

  const std::string& codec() const;
  void save(torch::serialize::OutputArchive& archive) const;
  /// Error(usage): another codec's.
  void load(torch::serialize::InputArchive& archive);

 private:
  struct State;
  std::shared_ptr<State> state_;
};
inline torch::serialize::OutputArchive& operator<<(torch::serialize::OutputArchive& archive, const CodecHook& hook) {
  hook.save(archive);
  return archive;
}
inline torch::serialize::InputArchive& operator>>(torch::serialize::InputArchive& archive, CodecHook& hook) {
  hook.load(archive);
  return archive;
}

}  // namespace ripieno::loop

namespace ripieno::loop::hooks {

inline CodecHook fp16() { return CodecHook({.name = "fp16"}); }
inline CodecHook bf16() { return CodecHook({.name = "bf16"}); }
/// `block` numbers share a scale. This and the following keep what they lose for the next step, if error_feedback.
inline CodecHook int8(std::size_t block = 256, bool error_feedback = true) {
  return CodecHook({.name = "int8", .error_feedback = error_feedback, .block = block});
}
/// `bits` a number, 2 .. 8.
inline CodecHook qsgd(int bits = 4, std::size_t block = 256, bool error_feedback = true) {
  return CodecHook({.name = "qsgd", .error_feedback = error_feedback, .block = block, .bits = bits});
}
inline CodecHook sign(std::size_t block = 256, bool error_feedback = true) {
  return CodecHook({.name = "sign", .error_feedback = error_feedback, .block = block});
}
/// The largest `fraction` of the numbers, (0, 1].
inline CodecHook topk(double fraction = 0.01, bool error_feedback = true) {
  return CodecHook({.name = "topk", .error_feedback = error_feedback, .fraction = fraction});
}
inline CodecHook topk_sampled(double fraction = 0.01, bool error_feedback = true) {
  return CodecHook({.name = "topk-sampled", .error_feedback = error_feedback, .fraction = fraction});
}
/// Two factors of `rank` columns for each matrix.
inline CodecHook powersgd(int rank = 2, bool error_feedback = true) {
  return CodecHook({.name = "powersgd", .error_feedback = error_feedback, .rank = rank});
}

}  // namespace ripieno::loop::hooks

namespace ripieno {
using loop::CodecHook, loop::CommunicationHook, loop::GradientBucket;  // own loops need no rooms
namespace hooks = loop::hooks;
}  // namespace ripieno
