#include "apps/ripieno/rank_states.h"

#include <sstream>

#include "apps/ripieno/job.h"
#include "ripieno/core/hash.h"

namespace ripieno::program {

RankStates::RankStates(const Settings& settings, RunFolder folder, std::shared_ptr<transport::CountedEndpoint> endpoint)
    : settings_(settings), folder_(folder), endpoint_(std::move(endpoint)), states_(folder, endpoint_->size()) {}

strategy::Point RankStates::open(const std::filesystem::path& run, std::uint32_t epochs) {
  from_ = run;
  const SavedStates::Saved found = SavedStates(open_run(run), endpoint_->size()).newest_of(endpoint_->rank());
  saved_.emplace(train::load_tensors(found.file), found.file);
  saved_->number("epochs_done", epochs_done_);
  saved_->number("steps_done", steps_done_);
  if (found.point > strategy::Point{epochs, 0}) {
    fail(ErrorKind::usage, found.file.string(), ": was saved ", described(found.point), ", and train.epochs is ",
         epochs, "; raise it with --set train.epochs=N");
  }
  return found.point;
}

void RankStates::hold(train::TorchLearner& learner, strategy::Strategy& strategy) {
  learner_ = &learner;
  strategy_ = &strategy;
}

/// A digest of the model's tensors as they lie in memory: saved numbers mean nothing in another order.
std::int64_t RankStates::layout_digest() const {
  std::ostringstream all;
  for (const auto& [name, tensor] : train::state_dict(learner_->model()))
    all << name << ' ' << tensor.sizes() << ' ' << tensor.strides() << '\n';
  return static_cast<std::int64_t>(hash(all.str()));
}

/// The saved numbers must mean the same in this run, and hold what all workers have learnt.
void RankStates::check() {
  std::int64_t ranks = 0, alike = 0, layout = 0;
  saved_->number("ranks", ranks);
  saved_->number("alike", alike);
  saved_->number("layout", layout);
  const std::string from = from_.string();
  if (layout != layout_digest()) {
    fail(ErrorKind::usage, from, ": its model is another, or its numbers lie in another order in memory, than that of ",
         settings_.shown("model"), " with ", settings_.shown("train.channels_last"),
         ": go on with the model and the train.channels_last of that run");
  }
  const bool fewer = endpoint_->size() < ranks;
  if (!alike && (fewer || strategy_of(settings_).exact)) {
    fail(ErrorKind::usage, from, ": its ", ranks, " ranks hold weights of their own, of which ",
         fewer ? text("only ", endpoint_->size(), " would be used")
               : text(settings_.shown("strategy"), " takes rank 0's"),
         ": go on with as many ranks, and with a strategy whose workers' weights differ, too");
  }
  check_steps();
}

/// Within an epoch, a number of steps says which samples are done only if the epoch is divided as it was.
void RankStates::check_steps() {
  std::int64_t steps = 0;
  saved_->number("steps_per_epoch", steps);
  if (steps_done_ == 0 || steps == learner_->steps_per_epoch()) return;
  fail(ErrorKind::usage, from_.string(), ": was saved within an epoch, after ", steps_done_, " of its ", steps,
       " steps, and an epoch of this run has ", learner_->steps_per_epoch(),
       ": go on with the data, the batch and the workers of that run");
}

Task<> RankStates::restore(collective::Communicator comm) {
  check();
  observe::Ledger earlier;
  visit(*saved_, earlier);
  endpoint_->ledger() += earlier;
  const strategy::Point own{static_cast<std::uint32_t>(epochs_done_), static_cast<std::uint32_t>(steps_done_)};
  const strategy::Point first = co_await comm.broadcast(own);
  if (first == own) co_return;
  fail(ErrorKind::mismatch, from_.string(), ": the state of rank ", endpoint_->rank(), " was saved ", described(own),
       ", rank 0's ", described(first));
}

/// The content of a rank's checkpoint, in one walk for writing and reading; the point comes first, as saved_states.h
/// requires.
void RankStates::visit(StateVisitor& visitor, observe::Ledger& ledger) {
  visitor.number("epochs_done", epochs_done_);
  visitor.number("steps_done", steps_done_);
  std::int64_t ranks = endpoint_->size(), alike = strategy_of(settings_).exact ? 1 : 0, layout = layout_digest(),
               steps = learner_->steps_per_epoch();
  visitor.number("ranks", ranks);
  visitor.number("alike", alike);
  visitor.number("layout", layout);
  visitor.number("steps_per_epoch", steps);
  ledger.visit(visitor);
  visitor.span("parameters", learner_->parameters());
  visitor.span("buffers", learner_->buffers());
  learner_->visit(visitor);
  strategy_->visit(visitor);
}

void RankStates::save(strategy::Point point) {
  epochs_done_ = point.epoch;
  steps_done_ = point.step;
  train::StateWriter writer;
  visit(writer, endpoint_->ledger());
  states_.save(endpoint_->rank(), point, writer.sealed());
  for (auto& [lost, states] : states_of_lost_) save_for(lost, states);
}

/// What the lost rank had sent is not known.
void RankStates::save_for(int lost, SavedStates& states) {
  train::StateWriter writer = train::StateWriter::without_residuals();
  observe::Ledger unknown;
  visit(writer, unknown);
  states.save(lost, {static_cast<std::uint32_t>(epochs_done_), static_cast<std::uint32_t>(steps_done_)},
              writer.sealed());
}

void RankStates::take_over(int lost) {
  states_of_lost_.try_emplace(lost, folder_, endpoint_->size()).first->second.take_over(lost);
}

void RankStates::save_missing(int lost, strategy::Point point) {
  SavedStates states(folder_, endpoint_->size());
  if (states.take_over(lost) == point) return;
  epochs_done_ = point.epoch;
  steps_done_ = point.step;
  save_for(lost, states);
}

}  // namespace ripieno::program
