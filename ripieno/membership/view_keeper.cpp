#include "ripieno/membership/view_keeper.h"

#include <algorithm>
#include <charconv>

#include "ripieno/core/error.h"
#include "ripieno/membership/view_notes.h"

namespace ripieno::membership {
namespace {

/// "beat 3": the sender's view.
constexpr std::string_view beat_begins = "beat ";

std::optional<std::uint32_t> beat_in(std::string_view note) {
  if (!note.starts_with(beat_begins)) return std::nullopt;
  note.remove_prefix(beat_begins.size());
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(note.data(), note.data() + note.size(), number);
  return error == std::errc() && end == note.data() + note.size() ? std::optional(number) : std::nullopt;
}

}  // namespace

ViewKeeper::ViewKeeper(Runtime& runtime, int seat, Seats seats, ViewKeeperOptions options, Ways ways)
    : runtime_(runtime),
      options_(options),
      ways_(std::move(ways)),
      state_(first_view(seat, std::move(seats), options.has_witness)),
      next_(std::make_shared<Event>(runtime)) {}

void ViewKeeper::start() {
  for (const int seat : state_.view.seats) heard_[seat] = runtime_.now();
  looked_ = ticked_ = runtime_.now();
  look();
}

bool ViewKeeper::is_member(int seat) const {
  const Seats& seats = state_.view.seats;
  return std::binary_search(seats.begin(), seats.end(), seat);
}

/// Says beats, and looks who is silent; every beat again.
void ViewKeeper::look() {
  if (has_ended_ || state_.has_left) return;
  const Duration now = runtime_.now(), late = now - std::exchange(looked_, now) - options_.beat;
  if (late > options_.beat) {
    for (auto& [seat, at] : heard_) at += late;
  }
  const std::string beat = text(beat_begins, state_.view.number);
  const Seats seats = state_.view.seats;
  for (const int seat : seats) {
    if (seat != state_.seat && !lost_[seat]) ways_.tell(seat, beat);
  }
  for (const int seat : seats) {
    const bool is_silent = lost_[seat] || now - heard_[seat] > options_.silence;
    if (seat != state_.seat && is_silent) feed({ViewInput::What::silent, seat});
  }
  if (now - ticked_ >= options_.patience) {
    ticked_ = now;
    feed({ViewInput::What::tick});
  }
  ways_.call_at(now + options_.beat, [weak = weak_from_this()] {
    if (const auto keeper = weak.lock()) keeper->look();
  });
}

void ViewKeeper::hear(int seat, std::string_view note) {
  if (seat != witness_seat) heard_[seat] = runtime_.now();
  if (const auto number = beat_in(note)) {
    ViewInput input{ViewInput::What::heard, seat};
    input.message.number = *number;
    return feed(input);
  }
  if (const auto message = message_in(note)) return feed({ViewInput::What::said, seat, *message});
  fail(ErrorKind::mismatch, "rank ", state_.seat, ": rank ", seat, " said of views: ", note.substr(0, 100),
       ": do all ranks run the same version?");
}

void ViewKeeper::lose(int seat) {
  lost_[seat] = true;
  if (is_member(seat)) feed({ViewInput::What::silent, seat});
}

void ViewKeeper::died(int seat) { feed({ViewInput::What::died, seat}); }

void ViewKeeper::end() {
  has_ended_ = true;
  next_->set();
}

void ViewKeeper::feed(const ViewInput& input) {
  if (has_ended_) return;
  const std::uint32_t before = state_.view.number;
  const bool had_left = state_.has_left;
  const std::vector<ViewOutput> outputs = step(state_, input);
  for (const ViewOutput& output : outputs) {
    if (output.what == ViewOutput::What::say && !lost_[output.seat]) ways_.tell(output.seat, note_of(output.message));
  }
  if (state_.view.number == before && state_.has_left == had_left) return;
  std::exchange(next_, std::make_shared<Event>(runtime_))->set();
  if (!state_.has_left && ways_.taken) ways_.taken(state_.view);
}

Task<View> ViewKeeper::after(std::shared_ptr<ViewKeeper> keeper, std::uint32_t number) {
  while (keeper->view().number <= number && !keeper->has_left() && !keeper->has_ended_) {
    const std::shared_ptr<Event> next = keeper->next_;
    co_await next->wait();
  }
  const int seat = keeper->state_.seat;
  if (keeper->has_left()) {
    fail(Loss{seat, Lost::left_out}, "rank ", seat,
         ": the others go on without it, or it cannot reach as many as would be needed to go on; it was in ",
         describe(keeper->view()));
  }
  if (keeper->view().number <= number) fail(ErrorKind::peer, "rank ", seat, ": it ends, and waits for no view");
  co_return keeper->view();
}

std::optional<std::string> answer_of_witness(Voter& witness, std::string_view note) {
  const std::optional<ViewMessage> message = message_in(note);
  const std::optional<ViewMessage> answer = message ? witness.answer(*message) : std::nullopt;
  return answer ? std::optional(note_of(*answer)) : std::nullopt;
}

}  // namespace ripieno::membership
