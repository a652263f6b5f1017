#include "ripieno/membership/view_notes.h"

#include <array>
#include <charconv>

#include "ripieno/core/error.h"

namespace ripieno::membership {
namespace {

constexpr int most_seat = 1 << 20;  // beyond it, a range is none of ours
constexpr std::array all_words{ViewWord::stop,    ViewWord::ask,  ViewWord::promise, ViewWord::refuse,
                               ViewWord::propose, ViewWord::vote, ViewWord::decided};

/// "1 4-6"
std::string ranges(const Seats& seats) {
  std::string words;
  for (std::size_t i = 0; i < seats.size();) {
    std::size_t end = i + 1;
    while (end < seats.size() && seats[end] == seats[end - 1] + 1) ++end;
    words += text(words.empty() ? "" : " ", seats[i]);
    if (end > i + 1) words += text("-", seats[end - 1]);
    i = end;
  }
  return words;
}

/// Takes a note apart, from its front.
class NoteReader {
 public:
  explicit NoteReader(std::string_view note) : left_(note) {}

  bool skip(char expected) {
    if (left_.empty() || left_.front() != expected) return false;
    left_.remove_prefix(1);
    return true;
  }
  std::string_view word() {
    const std::size_t end = std::min(left_.find(' '), left_.size());
    const std::string_view word = left_.substr(0, end);
    left_.remove_prefix(end);
    return word;
  }
  template <class Number>
  bool number(Number* into) {
    const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), *into);
    if (error != std::errc()) return false;
    left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
    return true;
  }
  bool ballot(Ballot* into) {
    return number(&into->round) && skip('.') && number(&into->seat) && into->seat >= witness_seat;
  }
  /// " | 1 4-6"
  bool seats(Seats* into) {
    if (!skip(' ') || !skip('|')) return false;
    while (left_.size() > 1 && left_[0] == ' ' && left_[1] != '|' && !is_ballot_next()) {
      int first = 0, last = 0;
      if (!skip(' ') || !number(&first)) return false;
      last = first;
      if (skip('-') && !number(&last)) return false;
      if (first < 0 || last < first || last > most_seat || (!into->empty() && first <= into->back())) return false;
      for (int seat = first; seat <= last; ++seat) into->push_back(seat);
    }
    return true;
  }
  bool is_at_end() const { return left_.empty(); }

 private:
  /// Behind the seats of a message comes a ballot: "2.5".
  bool is_ballot_next() const {
    const std::size_t end = left_.find_first_of(" |-.", 1);
    return end != left_.npos && left_[end] == '.';
  }
  std::string_view left_;
};

std::string words_of(const Ballot& ballot) { return text(ballot.round, ".", ballot.seat); }

}  // namespace

std::string note_of(const ViewMessage& message) {
  const auto part = [](const Seats& seats) { return seats.empty() ? std::string(" |") : " | " + ranges(seats); };
  return text(name(message.word), " ", message.number, " ", words_of(message.ballot), part(message.seats),
              part(message.unheard), part(message.dead), " ", words_of(message.voted.ballot),
              part(message.voted.seats));
}

std::optional<ViewMessage> message_in(std::string_view note) {
  NoteReader reader(note);
  ViewMessage message;
  const std::string_view word = reader.word();
  bool is_known = false;
  for (const ViewWord one : all_words) {
    if (word != name(one)) continue;
    message.word = one;
    is_known = true;
  }
  const bool fits = is_known && reader.skip(' ') && reader.number(&message.number) && reader.skip(' ') &&
                    reader.ballot(&message.ballot) && reader.seats(&message.seats) && reader.seats(&message.unheard) &&
                    reader.seats(&message.dead) && reader.skip(' ') && reader.ballot(&message.voted.ballot) &&
                    reader.seats(&message.voted.seats) && reader.is_at_end();
  return fits ? std::optional(message) : std::nullopt;
}

}  // namespace ripieno::membership
