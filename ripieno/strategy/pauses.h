// Pauses: points of training at which all ranks hold for a moment, to save, or to end there. Any rank may ask for one,
// at any time; all ranks then pause at the same point.
//
// ask      ends a communicator that nobody uses (Communicator::aside()): all ranks hear of it, whatever they wait for
// agree    each rank tells the others at which point it can hold first: at the end of the step that it is in. It begins
//          no other step before it knows all answers. The latest one counts
// pause    there, or at the first point after it where the strategy's state is complete (Strategy::is_complete())
//
// Until someone asks, a step costs the look at a flag.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "ripieno/collective/communicator.h"
#include "ripieno/strategy/strategy.h"

namespace ripieno::strategy {

/// Ends training on all ranks at a pause, where all have saved.
class Stopped : public std::exception {
 public:
  explicit Stopped(int signal) : signal_(signal) {}
  const char* what() const noexcept override { return "training was stopped"; }
  /// As given to ask_to_stop().
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// Used on the runtime's thread alone.
class Pauses {
 public:
  /// What is done at a pause: save; and end, if the signal is not 0.
  struct Wish {
    bool saves = false;
    int signal = 0;
  };

  /// Every rank of the communicator makes one. `first`: the first point that it comes to; `save` saves its state.
  Pauses(const collective::Communicator& comm, Point first, std::function<void(Point)> save);

  void ask_to_save() { ask({true, 0}); }
  void ask_to_stop(int signal) { ask({true, signal}); }

  /// When all ranks have come to the strategy's start, so that all can hear: what was asked for before is asked for
  /// now.
  void open();
  /// After a loss. What was agreed on before is forgotten, and asked for again by who wants it.
  void go_on_with(const collective::Communicator& alive);

  /// This rank is at `here`, where its state is complete or not, and will come to `next`. Returns what all ranks do
  /// here; to be called again after it, until there is nothing to do.
  Task<std::optional<Wish>> reach(Point here, Point next, bool is_complete);
  void save(Point here);
  /// Both, for a rank that serves others and does not hold: it is at `here`, where its state is complete, and will come
  /// to `next`. If training ends here, the others end it once all have saved. Before its state changes it awaits
  /// agreed(): what all agree on meanwhile is done as of `here`.
  void pass(Point here, Point next);
  Task<> agreed();
  /// This rank has come to the end of training.
  void leave();

  /// At a pause that ends training: returns when all have saved.
  Task<> all_have_saved();
  /// Whether this rank has saved at such a pause; 0: it has not.
  int stopped_by() const;

 private:
  struct State;
  void ask(Wish wish);

  std::shared_ptr<State> state_;
};

}  // namespace ripieno::strategy
