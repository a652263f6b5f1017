#include "ripieno/train/agreement.h"

#include <cmath>
#include <cstring>

#include "ripieno/numeric/elementwise.h"

namespace ripieno::train {
namespace {

constexpr std::size_t longest_text = 400;  // characters of an error that are sent to the others
constexpr double rounding = 1e-4;          // relative: ranks on different processors may drift apart by this much

/// Every rank's text, up to longest_text characters of it, on every rank.
Task<std::vector<std::string>> texts_of_all(collective::Communicator comm, std::string own) {
  return comm.all_gather(own.substr(0, longest_text));
}

/// A rank's attendance as a few numbers.
struct AttendanceCard {
  double number;
  std::uint64_t code;  ///< hash of what it does and which parameters it holds
  std::uint64_t has_trouble, replaced;
};

AttendanceCard card_of(const Attendance& mine) {
  const NumberSpan sample(const_cast<double*>(mine.sample.data()), mine.sample.size(), DType::fp64);  // read only
  return {mine.number, hash(mine.doing) ^ (numeric::hash(sample) * 0x9E3779B97F4A7C15ull), mine.trouble ? 1u : 0u,
          mine.replaced ? 1u : 0u};
}

std::string first_line_of(std::exception_ptr trouble) {
  std::string said = "an exception that is no std::exception";
  try {
    std::rethrow_exception(trouble);
  } catch (const std::exception& error) {
    said = error.what();
  } catch (...) {
  }
  said = said.substr(0, said.find('\n'));
  return said.empty() ? "an exception without a text" : said;
}

Task<> throw_if_doing_differs(collective::Communicator comm, const Attendance* mine) {
  const std::vector<std::string> doing = co_await texts_of_all(comm, mine->doing);
  for (std::size_t r = 1; r < doing.size(); ++r) {
    if (doing[r] == doing[0]) continue;
    if (mine->trouble) std::rethrow_exception(mine->trouble);
    fail(ErrorKind::mismatch, "rank 0 is in ", doing[0], ", but rank ", r, " in ", doing[r],
         ": all ranks must call step() and sum() equally often and in the same order");
  }
}

Task<> throw_trouble(collective::Communicator comm, const Attendance* mine) {
  std::string own;
  if (mine->trouble) own = first_line_of(mine->trouble);
  const std::vector<std::string> troubles = co_await texts_of_all(comm, own);
  if (mine->trouble) std::rethrow_exception(mine->trouble);
  for (std::size_t r = 0; r < troubles.size(); ++r) {
    if (!troubles[r].empty()) fail(ErrorKind::peer, "rank ", r, " failed in ", mine->doing, ": ", troubles[r]);
  }
}

/// The distance of a sample from rank 0's, relative to rank 0's.
double distance(const std::vector<double>& own, const std::vector<double>& first) {
  if (std::memcmp(own.data(), first.data(), own.size() * sizeof(double)) == 0) return 0;
  double square = 0, norm = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    square += (own[i] - first[i]) * (own[i] - first[i]);
    norm += first[i] * first[i];
  }
  const double relative = std::sqrt(square / norm);
  return std::isfinite(relative) ? relative : 1;
}

Task<> throw_if_apart(collective::Communicator comm, const Attendance* mine) {
  const std::vector<double> first = co_await comm.broadcast(mine->sample);
  const double own = distance(mine->sample, first);
  const std::vector<double> apart = co_await comm.all_gather(own);
  for (std::size_t r = 1; r < apart.size(); ++r) {
    if (apart[r] <= rounding) continue;
    fail(ErrorKind::mismatch, "rank ", r, " holds other parameters than rank 0 in ", mine->doing, " (", 100 * apart[r],
         " % apart): what changes them between steps (loading, another optimiser or learning rate) must be the same on "
         "all ranks");
  }
}

}  // namespace

Task<double> meet(collective::Communicator comm, Attendance mine) {
  const AttendanceCard own = card_of(mine);
  const std::vector<AttendanceCard> cards = co_await comm.all_gather(own);
  double sum = 0;
  std::size_t troubles = 0, replaced = 0;
  bool alike = true;
  for (const AttendanceCard& card : cards) {
    sum += card.number;
    troubles += card.has_trouble;
    replaced += card.replaced;
    alike = alike && card.code == cards[0].code;
  }
  if (!alike) co_await throw_if_doing_differs(comm, &mine);
  if (troubles > 0) co_await throw_trouble(comm, &mine);
  if (!alike) co_await throw_if_apart(comm, &mine);
  if (replaced > 0 && replaced < cards.size()) {
    fail(ErrorKind::mismatch, "the parameters were replaced (loaded?) on ", replaced, " of ", cards.size(),
         " ranks before ", mine.doing, ": load them on all ranks, or before parallel()");
  }
  co_return sum;
}

Task<> compare_lines(collective::Communicator comm, std::vector<std::string> mine) {
  std::string joined;
  for (const std::string& line : mine) joined += line + "\n";
  const std::string first = co_await comm.broadcast(joined);

  std::vector<std::string> theirs(1);
  for (const char character : first) {
    if (character == '\n') {
      theirs.emplace_back();
    } else {
      theirs.back() += character;
    }
  }
  theirs.pop_back();
  const auto line = [](const std::vector<std::string>& lines, std::size_t i) {
    return i < lines.size() ? lines[i] : "nothing more";
  };
  std::string differs;
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()) && differs.empty(); ++i) {
    if (line(mine, i) == line(theirs, i)) continue;
    differs = text("rank ", comm.rank(), " has ", line(mine, i), " where rank 0 has ", line(theirs, i));
  }
  const std::vector<std::string> differences = co_await texts_of_all(comm, differs);
  for (const std::string& difference : differences) {
    if (!difference.empty()) fail(ErrorKind::mismatch, difference, ": all ranks must make the same model and options");
  }
}

}  // namespace ripieno::train
