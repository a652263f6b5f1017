// Scripts of losses, in views/: what happens, and below each line that, indented, what the seats do then. To see what a
// new script does, leave that out: the test prints it.
//
//   seats 0 1 2 3     the first view; with `witness` behind it there is one
//   2 dies            its process ends; messages to it are lost, its own are not
//   0 learns of 2     that it has died
//   0 misses 2        its detector says that it is silent
//   0 hears 2
//   cut 0 2           what 0 says to 2 is lost from now on
//   0 to 2            the next message on that way arrives
//   all arrive        messages, one after the other, until none is under way
//   time passes       for all that live
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ripieno/core/error.h"
#include "ripieno/membership/view.h"

namespace ripieno::membership {
namespace {

std::string list(const Seats& seats) {
  std::string words;
  for (const int seat : seats) words += text(words.empty() ? "" : " ", seat);
  return words.empty() ? "nobody" : words;
}

std::string who(int seat) { return seat == witness_seat ? "witness" : std::to_string(seat); }

std::string describe(const ViewMessage& message) {
  std::string words = text(name(message.word), " view ", message.number);
  if (message.ballot.round > 0) words += text(", ballot ", message.ballot.round, ".", message.ballot.seat);
  if (message.word == ViewWord::propose || message.word == ViewWord::decided) words += ": " + list(message.seats);
  if (message.voted.ballot.round > 0)
    words += text(", voted in ", message.voted.ballot.round, ".", message.voted.ballot.seat, ": ",
                  list(message.voted.seats));
  Seats silent;
  std::set_difference(message.unheard.begin(), message.unheard.end(), message.dead.begin(), message.dead.end(),
                      std::back_inserter(silent));
  if (!silent.empty()) words += "; misses " + list(silent);
  if (!message.dead.empty()) words += "; dead: " + list(message.dead);
  return words;
}

class Script {
 public:
  /// What the seats do because of a line.
  std::vector<std::string> run(const std::string& line) {
    done_.clear();
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    const auto number = [&](std::size_t i) { return words.at(i) == "witness" ? witness_seat : std::stoi(words.at(i)); };
    if (words.at(0) == "seats") {
      begin(words);
    } else if (words.at(0) == "cut") {
      cut_.insert({number(1), number(2)});
    } else if (line == "all arrive") {
      while (arrive_next()) {
      }
    } else if (line == "time passes") {
      for (auto& [seat, state] : seats_) act(seat, {ViewInput::What::tick});
    } else if (words.at(1) == "dies") {
      ended_.insert(number(0));
    } else if (words.at(1) == "to") {
      arrive(number(0), number(2));
    } else {
      const std::map<std::string, ViewInput::What> whats{
          {"learns", ViewInput::What::died}, {"misses", ViewInput::What::silent}, {"hears", ViewInput::What::heard}};
      act(number(0), {whats.at(words.at(1)), number(words.size() - 1)});
    }
    return done_;
  }

 private:
  void begin(const std::vector<std::string>& words) {
    Seats seats;
    for (std::size_t i = 1; i < words.size() && words[i] != "witness"; ++i) seats.push_back(std::stoi(words[i]));
    for (const int seat : seats) seats_[seat] = first_view(seat, seats, words.back() == "witness");
  }
  void say(int from, int to, const ViewMessage& message) {
    const bool is_lost = cut_.contains({from, to}) || ended_.contains(to);
    done_.push_back(text(who(from), " to ", who(to), ": ", describe(message), is_lost ? " (lost)" : ""));
    if (!is_lost) under_way_.push_back({from, to, message});
  }
  void act(int seat, const ViewInput& input) {
    ViewState& state = seats_.at(seat);
    if (ended_.contains(seat) || state.has_left) return;
    for (const ViewOutput& output : step(state, input)) {
      if (output.what == ViewOutput::What::say) say(seat, output.seat, output.message);
      if (output.what == ViewOutput::What::take)
        done_.push_back(text(seat, " takes ", membership::describe(output.view)));
      if (output.what == ViewOutput::What::leave) done_.push_back(text(seat, " leaves"));
    }
  }
  bool arrive_next() {
    if (under_way_.empty()) return false;
    arrive(under_way_.front().from, under_way_.front().to);
    return true;
  }
  void arrive(int from, int to) {
    const auto at = std::find_if(under_way_.begin(), under_way_.end(),
                                 [&](const UnderWay& one) { return one.from == from && one.to == to; });
    ASSERT_NE(at, under_way_.end()) << "nothing is under way from " << from << " to " << to;
    const ViewMessage message = at->message;
    under_way_.erase(at);
    if (to != witness_seat) return act(to, {ViewInput::What::said, from, message});
    if (const auto answer = witness_.answer(message)) say(witness_seat, from, *answer);
  }

  struct UnderWay {
    int from, to;
    ViewMessage message;
  };
  std::map<int, ViewState> seats_;
  Voter witness_;
  std::deque<UnderWay> under_way_;
  std::set<std::pair<int, int>> cut_;
  std::set<int> ended_;
  std::vector<std::string> done_;
};

TEST(ViewScripts, HappenAsTheySay) {
  int scripts = 0;
  for (const auto& file : std::filesystem::directory_iterator(RIPIENO_VIEWS)) {
    ++scripts;
    std::ifstream in(file.path());
    Script script;
    std::string expected, found;
    for (std::string line; std::getline(in, line);) {
      expected += line + "\n";
      if (line.starts_with("  ")) continue;
      found += line + "\n";
      if (line.empty() || line[0] == '#') continue;
      for (const std::string& done : script.run(line)) found += "  " + done + "\n";
    }
    EXPECT_EQ(found, expected) << file.path();
  }
  EXPECT_GE(scripts, 8);
}

}  // namespace
}  // namespace ripieno::membership
