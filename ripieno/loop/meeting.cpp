#include "ripieno/loop/meeting.h"

namespace ripieno::loop {
namespace {

constexpr std::size_t longest_text = 400;  // characters that are sent to the others

/// Every rank's text, up to longest_text characters of it, on every rank.
Task<std::vector<std::string>> texts_of_all(collective::Communicator comm, std::string own) {
  return comm.all_gather(own.substr(0, longest_text));
}

std::string first_line_of(const std::exception_ptr& trouble) {
  if (!trouble) return "";
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

}  // namespace

Task<> meet(collective::Communicator comm, std::string doing, std::exception_ptr trouble) {
  Task<std::vector<std::string>> gathering = texts_of_all(comm, first_line_of(trouble));
  const std::vector<std::string> troubles = co_await std::move(gathering);
  if (trouble) std::rethrow_exception(trouble);
  for (std::size_t rank = 0; rank < troubles.size(); ++rank) {
    if (troubles[rank].empty()) continue;
    fail(Loss{static_cast<int>(rank), Lost::gave_up}, "rank ", rank, " failed in ", doing, ": ", troubles[rank]);
  }
}

Task<> compare_lines(collective::Communicator comm, std::vector<std::string> mine, std::string rule) {
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
    if (!difference.empty()) fail(ErrorKind::mismatch, difference, ": ", rule);
  }
}

}  // namespace ripieno::loop
