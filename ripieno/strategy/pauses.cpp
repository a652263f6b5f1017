#include "ripieno/strategy/pauses.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "ripieno/core/async.h"

namespace ripieno::strategy {

/// Shared with the tasks that exchange answers.
struct Pauses::State : std::enable_shared_from_this<Pauses::State> {
  State(const collective::Communicator& its_comm, Point first, std::function<void(Point)> its_save)
      : comm(its_comm), save(std::move(its_save)), next(first) {
    begin_round();
  }

  /// A communicator that tells of a request, and one for the answers.
  struct Round {
    collective::Communicator bell, answers;
    bool rung = false;
  };
  struct Answer {
    std::uint32_t epoch, step;
    std::int32_t saves, signal;
  };

  Round round(std::uint64_t number) const { return {comm.aside(2 * number), comm.aside(2 * number + 1)}; }

  /// A peer may be one round ahead of this rank.
  void begin_round() {
    current = following ? std::move(following) : round(number);
    following = round(number + 1);
    target.reset();
    agreed = {};
    for (Round* one : {&*current, &*following}) one->rung = one->rung || early.erase(one->bell.scope()) > 0;
    if (current->rung) return agree();
    if (is_open && wanted.saves) ring();
  }
  void end_round() {
    ++number;
    begin_round();
  }

  void ring() {
    const Error request(ErrorKind::peer, "asks all to pause");
    if (comm.size() > 1) current->bell.abort(std::make_exception_ptr(request));
    agree();
  }
  void heard(transport::Scope scope) {
    if (scope == current->bell.scope()) return agree();
    if (scope == following->bell.scope()) {
      following->rung = true;
    } else {
      early.insert(scope);  // after a loss, of a peer that goes on already; or of something else that has ended
    }
  }

  void agree() {
    current->rung = true;
    if (agreeing || target) return;
    agreeing = std::make_shared<Event>(comm.runtime());
    const Answer mine{next.epoch, next.step, wanted.saves, wanted.signal};
    // Not at once: the transport may be in the middle of a message.
    const auto begin = [self = shared_from_this(), mine, answers = current->answers, done = agreeing] {
      asio::co_spawn(answers.runtime().context(), exchange(self, answers, mine, done), asio::detached);
    };
    asio::post(comm.runtime().context(), begin);
  }

  static Task<> exchange(std::shared_ptr<State> self, collective::Communicator answers, Answer mine,
                         std::shared_ptr<Event> done) {
    try {
      const std::vector<Answer> all = co_await answers.all_gather(mine);
      if (self->agreeing == done) self->settle(all);
    } catch (const std::exception&) {  // a rank is lost: training says so
    }
    if (self->agreeing == done) {
      self->agreeing = nullptr;
      if (self->passed) self->do_what_is_due();
    }
    done->set();
  }

  void settle(const std::vector<Answer>& all) {
    Point latest;
    for (const Answer& one : all) {
      latest = std::max(latest, Point{one.epoch, one.step});
      agreed.saves = agreed.saves || one.saves;
      agreed.signal = std::max<int>(agreed.signal, one.signal);
    }
    target = latest;
    if (agreed.signal > 0 || wanted.signal == 0) wanted = {};
  }

  std::optional<Wish> due(Point here) {
    if (!target || here < *target) return std::nullopt;
    const Wish now = agreed;
    if (now.signal > 0) {
      stopping = now.signal;
      ended = current->answers;
    }
    end_round();
    return now;
  }

  void save_at(Point here) {
    save(here);
    stopped_by = stopping;
  }

  /// For a rank that does not hold, where it has passed.
  void do_what_is_due() {
    const std::optional<Wish> wish = due(*passed);
    if (!wish) return;
    save_at(*passed);
    if (wish->signal > 0) asio::co_spawn(comm.runtime().context(), meet(*ended), asio::detached);
  }
  static Task<> meet(collective::Communicator stopped) {
    Task<> meeting = stopped.barrier();
    co_await error_of(std::move(meeting));  // an error of a rank that has not saved is its own
  }

  collective::Communicator comm;
  const std::function<void(Point)> save;
  Point next;                        // at which this rank can hold first
  std::optional<Point> passed;       // while the state of a rank that does not hold is still that of this point
  std::set<transport::Scope> early;  // bells that were heard before this rank had them
  std::uint64_t number = 0;
  std::optional<Round> current, following;
  std::shared_ptr<Event> agreeing;  // while answers are exchanged
  std::optional<Point> target;      // once they are
  Wish wanted, agreed;
  std::optional<collective::Communicator> ended;  // where all ranks meet that have stopped
  int stopping = 0, stopped_by = 0;
  bool is_open = false;
};

Pauses::Pauses(const collective::Communicator& comm, Point first, std::function<void(Point)> save)
    : state_(std::make_shared<State>(comm, first, std::move(save))) {
  comm.endpoint().watch_aborts([weak = std::weak_ptr(state_)](transport::Scope scope, std::exception_ptr) {
    if (const auto state = weak.lock()) state->heard(scope);
  });
}

void Pauses::ask(Wish wish) {
  state_->wanted.saves = state_->wanted.saves || wish.saves;
  state_->wanted.signal = std::max(state_->wanted.signal, wish.signal);
  if (state_->is_open && !state_->agreeing && !state_->target) state_->ring();
}

void Pauses::open() {
  state_->is_open = true;
  if (state_->wanted.saves && !state_->agreeing && !state_->target) state_->ring();
}

void Pauses::go_on_with(const collective::Communicator& alive) {
  State& state = *state_;
  const Wish forgotten = state.agreed;
  state.wanted.saves = state.wanted.saves || forgotten.saves;
  state.wanted.signal = std::max(state.wanted.signal, forgotten.signal);
  if (const auto agreeing = std::exchange(state.agreeing, nullptr)) {
    const Error loss(ErrorKind::peer, "a rank was lost while all agreed on a pause");
    state.current->answers.abort(std::make_exception_ptr(loss));
    agreeing->set();
  }
  state.comm = alive;
  state.number = 0;
  state.following.reset();
  state.begin_round();
}

Task<std::optional<Pauses::Wish>> Pauses::reach(Point here, Point next, bool is_complete) {
  const std::shared_ptr<State> state = state_;
  state->next = here;
  while (const auto agreeing = state->agreeing) co_await agreeing->wait();
  std::optional<Wish> wish;
  if (is_complete) wish = state->due(here);
  if (!wish) state->next = next;
  co_return wish;
}

void Pauses::save(Point here) { state_->save_at(here); }

void Pauses::pass(Point here, Point next) {
  state_->next = next;
  state_->passed = here;
  if (!state_->agreeing) state_->do_what_is_due();
}

Task<> Pauses::agreed() {
  const std::shared_ptr<State> state = state_;
  while (const auto agreeing = state->agreeing) co_await agreeing->wait();
  state->passed.reset();
}

void Pauses::leave() {
  state_->next = {UINT32_MAX, 0};
  state_->is_open = false;
}

Task<> Pauses::all_have_saved() { return state_->ended->barrier(); }

int Pauses::stopped_by() const { return state_->stopped_by; }

}  // namespace ripieno::strategy
