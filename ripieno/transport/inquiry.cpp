#include "ripieno/transport/inquiry.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "ripieno/core/error.h"
#include "ripieno/transport/aborts.h"

namespace ripieno::transport {
namespace {

constexpr Duration longest_grace = std::chrono::seconds(1), shortest_grace = std::chrono::milliseconds(200);
constexpr int most_graces = 3;
/// What a rank has said so long before it was asked still counts: it is told to all once in that time.
constexpr Duration still_counts = longest_grace;

constexpr const char *question = "?", *answer = "!";

}  // namespace

Inquiry::Inquiry(Runtime& runtime, int rank, int size, Ways ways)
    : runtime_(runtime), rank_(rank), size_(size), ways_(std::move(ways)), said_(static_cast<std::size_t>(size)) {}

void Inquiry::ask(Duration timeout, Found found) {
  asking_.push_back(std::move(found));
  if (asking_.size() > 1) return;  // it is under way
  asked_at_ = runtime_.now();
  for (auto& said : said_) {
    if (said && said->at + still_counts < asked_at_) said.reset();
  }
  const std::string words = note(true);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) ways_.tell(peer, words);
  }
  told_all_ = asked_at_;
  wait_for_answers(std::clamp(timeout, shortest_grace, longest_grace), 1);
}

/// Where several ranks do not answer, the machine may be too busy for some of them: they get more time.
void Inquiry::wait_for_answers(Duration grace, int time) {
  end_of_grace_ = runtime_.call_at(runtime_.now() + grace, [weak = weak_from_this(), grace, time] {
    const auto inquiry = weak.lock();
    if (!inquiry) return;
    if (time < most_graces && inquiry->silent_culprits() > 1) {
      inquiry->wait_for_answers(grace, time + 1);
    } else {
      inquiry->conclude();
    }
  });
}

void Inquiry::hear(int peer, std::string_view note) {
  std::istringstream words{std::string(note.substr(0, most_reason))};
  std::string kind;
  words >> kind;
  Said said{{}, runtime_.now()};
  for (int rank = 0; words >> rank;) said.waits.push_back(rank);
  said_[static_cast<std::size_t>(peer)] = std::move(said);
  if (!asking_.empty() && all_have_answered()) {  // not within the link that has read this, which may end by it
    asio::post(runtime_.context(), [weak = weak_from_this()] {
      const auto inquiry = weak.lock();
      if (inquiry && inquiry->all_have_answered()) inquiry->conclude();
    });
  }
  if (kind != question) return;
  const Duration now = runtime_.now();
  const bool tells_all = !told_all_ || now - *told_all_ >= still_counts;
  if (tells_all) told_all_ = now;
  const std::string own = this->note(false);
  for (int other = 0; other < size_; ++other) {
    if (other == peer || (tells_all && other != rank_)) ways_.tell(other, own);
  }
}

/// "? 3 5": asks, and says that this rank waits for ranks 3 and 5.
std::string Inquiry::note(bool asks) const {
  std::string words = asks ? question : answer;
  for (const int rank : ways_.awaited()) {
    const std::string more = text(' ', rank);
    if (words.size() + more.size() > most_reason) break;  // some of those waited for are enough
    words += more;
  }
  return words;
}

bool Inquiry::all_have_answered() const {
  for (int rank = 0; rank < size_; ++rank) {
    const auto& said = said_[static_cast<std::size_t>(rank)];
    if (rank != rank_ && (!said || said->at < asked_at_)) return false;
  }
  return true;
}

std::vector<Waits> Inquiry::waits() const {
  std::vector<Waits> waits(said_.size());
  for (std::size_t rank = 0; rank < waits.size(); ++rank) {
    if (said_[rank]) waits[rank] = said_[rank]->waits;
  }
  waits[static_cast<std::size_t>(rank_)] = ways_.awaited();
  return waits;
}

std::ptrdiff_t Inquiry::silent_culprits() const {
  const std::vector<Waits> known = waits();
  const std::vector<int> culprits = transport::find_hang(rank_, known).culprits;
  return std::count_if(culprits.begin(), culprits.end(),
                       [&](int rank) { return !known[static_cast<std::size_t>(rank)]; });
}

void Inquiry::conclude() {
  if (asking_.empty()) return;
  runtime_.cancel(end_of_grace_);
  const Hang hang = find_hang(rank_, waits());
  for (const Found& found : std::exchange(asking_, {})) found(hang);
}

}  // namespace ripieno::transport
