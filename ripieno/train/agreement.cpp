#include "ripieno/train/agreement.h"

#include <array>
#include <cmath>
#include <cstring>

#include "ripieno/collective/execute.h"
#include "ripieno/core/kernels.h"

namespace ripieno {
namespace {

constexpr std::size_t longest_text = 400;  // characters of an error that others are told
constexpr double rounding = 1e-4;          // relative: ranks on unlike processors may drift apart by so much

Task<> sum_over(Communicator comm, NumberSpan numbers) {
  const ExecuteOptions options{DType::fp64, Purpose::control};
  co_await all_reduce(find_route("reduce-broadcast"), comm, numbers, options);
}

Task<> give_all(Communicator comm, NumberSpan numbers) {
  const ExecuteOptions options{DType::fp64, Purpose::control};
  co_await broadcast(comm, numbers, options);
}

/// Every rank's text, up to longest_text characters of it, on every rank.
Task<std::vector<std::string>> texts_of_all(Communicator comm, std::string own) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<double> characters(ranks * longest_text);
  for (std::size_t i = 0; i < std::min(own.size(), longest_text); ++i) {
    characters[static_cast<std::size_t>(comm.rank()) * longest_text + i] = static_cast<unsigned char>(own[i]);
  }
  co_await sum_over(comm, NumberSpan(std::span(characters)));
  std::vector<std::string> texts(ranks);
  for (std::size_t i = 0; i < characters.size(); ++i) {
    if (characters[i] != 0) texts[i / longest_text] += static_cast<char>(characters[i]);
  }
  co_return texts;
}

/// 20 bits, so that sums of squares over 4,096 ranks are exact.
double code_of(const Attendance& mine) {
  std::uint64_t digest = 0xCBF29CE484222325ull;
  for (const char c : mine.doing) digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  const NumberSpan sample(const_cast<double*>(mine.sample.data()), mine.sample.size(), DType::fp64);  // only read
  digest = (digest ^ hash(sample)) * 0x9E3779B97F4A7C15ull;
  return static_cast<double>(digest >> 44);
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

Task<> throw_if_doing_differs(Communicator comm, const Attendance* mine) {
  const std::vector<std::string> doing = co_await texts_of_all(comm, mine->doing);
  for (std::size_t r = 1; r < doing.size(); ++r) {
    if (doing[r] == doing[0]) continue;
    if (mine->trouble) std::rethrow_exception(mine->trouble);
    fail(ErrorKind::mismatch, "rank 0 is in ", doing[0], ", but rank ", r, " in ", doing[r],
         ": all ranks must call step() and sum() equally often and in the same order");
  }
}

Task<> throw_trouble(Communicator comm, const Attendance* mine) {
  std::string own;
  if (mine->trouble) own = first_line_of(mine->trouble);
  const std::vector<std::string> troubles = co_await texts_of_all(comm, own);
  if (mine->trouble) std::rethrow_exception(mine->trouble);
  for (std::size_t r = 0; r < troubles.size(); ++r) {
    if (!troubles[r].empty()) fail(ErrorKind::peer, "rank ", r, " failed in ", mine->doing, ": ", troubles[r]);
  }
}

/// How far a sample is from rank 0's, relative to that.
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

Task<> throw_if_apart(Communicator comm, const Attendance* mine) {
  std::vector<double> first = mine->sample;
  co_await give_all(comm, NumberSpan(std::span(first)));
  std::vector<double> apart(static_cast<std::size_t>(comm.size()));
  apart[static_cast<std::size_t>(comm.rank())] = distance(mine->sample, first);
  co_await sum_over(comm, NumberSpan(std::span(apart)));
  for (std::size_t r = 1; r < apart.size(); ++r) {
    if (apart[r] <= rounding) continue;
    fail(ErrorKind::mismatch, "rank ", r, " holds other parameters than rank 0 in ", mine->doing, " (", 100 * apart[r],
         " % apart): what changes them between steps (loading, another optimiser or learning rate) must be the same on all ranks");
  }
}

}  // namespace

Task<double> meet(Communicator comm, Attendance mine) {
  const double ranks = comm.size(), code = code_of(mine);
  std::array<double, 5> sums{mine.number, mine.trouble ? 1. : 0., code, code * code, mine.replaced ? 1. : 0.};
  co_await sum_over(comm, NumberSpan(std::span<double>(sums)));
  const bool alike = sums[2] == ranks * code && sums[3] == ranks * code * code;  // both on all ranks, or on none
  if (!alike) co_await throw_if_doing_differs(comm, &mine);
  if (sums[1] > 0) co_await throw_trouble(comm, &mine);
  if (!alike) co_await throw_if_apart(comm, &mine);
  if (sums[4] > 0 && sums[4] < ranks) {
    fail(ErrorKind::mismatch, "the parameters were replaced (loaded?) on ", sums[4], " of ", ranks, " ranks before ", mine.doing,
         ": load them on all ranks, or before parallel()");
  }
  co_return sums[0];
}

Task<> compare_lines(Communicator comm, std::vector<std::string> mine) {
  std::string joined;
  for (const std::string& line : mine) joined += line + "\n";
  double size = static_cast<double>(joined.size());
  co_await give_all(comm, NumberSpan(&size, 1, DType::fp64));
  std::vector<double> first(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < std::min(first.size(), joined.size()); ++i) first[i] = static_cast<unsigned char>(joined[i]);
  co_await give_all(comm, NumberSpan(std::span(first)));

  std::vector<std::string> theirs(1);
  for (const double character : first) {
    if (character == '\n') {
      theirs.emplace_back();
    } else {
      theirs.back() += static_cast<char>(character);
    }
  }
  theirs.pop_back();
  const auto line = [](const std::vector<std::string>& lines, std::size_t i) { return i < lines.size() ? lines[i] : "nothing more"; };
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

}  // namespace ripieno
