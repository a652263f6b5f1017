// The run of a loop of one's own, in a run folder (docs/runs.md): `ripieno watch`, `ripieno report` and TensorBoard
// then show it as they show the program's own runs.
//
//   ripieno::RunWriter run(group, {.name = "cifar10", .strategy = "ddp", .model = "resnet18", .epochs = 10});
//   run.watch(net->parameters());           // of a net that is DistributedDataParallel
//   for (...) {
//     { auto stage = run.stage("forward");  loss = ...; }
//     { auto stage = run.stage("backward"); loss.backward(); }
//     { auto stage = run.stage("optimise"); optimiser.step(); }
//     run.step({.loss = loss.item<double>(), .samples = 64});
//   }
//   run.epoch({.accuracy = 0.91, .loss = 0.32});
//   run.finish();                           // summary.json
//
// Times: those of the CPU's clock (where a GPU computes, synchronise before a stage ends), by stage as stage_clock.h
// says. Bytes: all that the group has exchanged, if its backend is Ripieno's; of other backends they are not known, and
// no file says 0. A step's line costs 10 to 30 us. All on one thread.
//
// Errors: Error(usage) for options and calls that cannot be; Error(io) if a file cannot be written, on the rank that
// writes it; Error(mismatch) if ranks differ in their options; the group's. Without finish() the run has no summary,
// and is shown as unfinished.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/core/runtime.h"
#include "ripieno/loop/agree.h"

namespace ripieno::loop {

struct RunWriterOptions {
  std::filesystem::path folder = "runs";  ///< in which rank 0 makes the run's own, with the next free number
  std::string name = "loop";              ///< of the run; its folder's ends with it
  std::string strategy = "own";           ///< the way to agree: "ddp", "diloco", ...
  std::string codec = "none";
  std::string model = "own", dataset = "own";
  std::uint64_t parameters = 0;                 ///< numbers that are trained; 0: those that are watched
  std::int64_t seed = 0;                        ///< runs that differ in it alone are compared as one way
  std::uint32_t epochs = 0;                     ///< planned, for the time left; 0: not known, here and below
  std::uint64_t steps_per_epoch = 0;            ///< of a rank
  std::uint32_t first_epoch = 0;                ///< above 0: the loop goes on from a checkpoint, after so many epochs
  std::map<std::string, std::string> settings;  ///< of the loop, as text; runs that differ here are not compared as one
  Duration sample_every = std::chrono::milliseconds(500);  ///< CPU, memory and network; 0: never
};

class RunWriter {
 public:
  struct Step {
    std::optional<double> loss;  ///< mean over this rank's samples
    std::int64_t samples = 0;    ///< of this rank, in this step
    double learning_rate = 0;
  };
  /// Of the test set, as far as it was evaluated.
  struct Test {
    std::optional<double> accuracy;  ///< 0 .. 1
    std::optional<double> loss;      ///< only with an accuracy
  };
  /// A stage, from its making to its end.
  class Stage {
   public:
    Stage(RunWriter& run, std::string_view name) : run_(run) { run_.enter(name); }
    ~Stage() { run_.leave(); }
    Stage(const Stage&) = delete;
    Stage& operator=(const Stage&) = delete;

   private:
    RunWriter& run_;
  };

  /// All ranks of the group call it, with the same options; `group` null: a single process. `device`: on which the
  /// backend takes tensors.
  RunWriter(c10::intrusive_ptr<::c10d::Backend> group, RunWriterOptions options, at::Device device = at::kCPU);
  ~RunWriter();
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  /// Gradients of these are exchanged within backward(): so it is known how long that waits at its end. The epochs'
  /// lines have a digest of them.
  void watch(const std::vector<torch::Tensor>& parameters);
  /// The same, for a caller who hooks the parameters himself, and calls gradient_is_there().
  void keep_digest_of(std::vector<torch::Tensor> parameters);
  void gradient_is_there();
  /// Of agreement.step() in a stage exchange, the optimiser's time counts as optimise; what is exchanged beside the
  /// loop counts as exchange_hidden. The agreement must outlive the run.
  void follow(Agreement& agreement);

  /// A stage until its end; may be within another one. The name: stage_named() (stage_clock.h).
  Stage stage(std::string_view name) { return {*this, name}; }
  void enter(std::string_view stage);
  void leave();
  /// Ends a step.
  void step(const Step& step);
  /// Ends an epoch.
  void epoch(const Test& test);
  void epoch() { epoch(Test{}); }
  /// All ranks call it: ends the run, with an epoch where steps have come since the last, and rank 0 writes its
  /// summary. A second call does nothing.
  void finish();

  /// The run's folder, as this rank sees it.
  const std::filesystem::path& folder() const;
  std::uint64_t steps() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ripieno::loop

namespace ripieno {
using loop::RunWriter, loop::RunWriterOptions;  // own loops need no rooms
}
