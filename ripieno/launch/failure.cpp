#include "ripieno/launch/failure.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace ripieno::launch {
namespace {

std::optional<int> rank_behind(const std::string& words, std::string_view phrase) {
  const std::size_t at = words.find(phrase);
  if (at == std::string::npos) return std::nullopt;
  int rank = 0;
  const auto error = std::from_chars(words.data() + at + phrase.size(), words.data() + words.size(), rank).ec;
  return error == std::errc() ? std::optional(rank) : std::nullopt;
}

/// 2 from "rank 0: rank 2 gave up: ..".
std::optional<int> rank_before(const std::string& words, std::string_view phrase) {
  const std::size_t end = words.find(phrase);
  const std::size_t begin = end == std::string::npos ? end : words.rfind("rank ", end);
  if (begin == std::string::npos) return std::nullopt;
  return rank_behind(words.substr(begin, end - begin), "rank ");
}

}  // namespace

std::optional<Blame> blame_in(const std::string& words) {
  const std::optional<int> told_by = rank_before(words, " gave up: ");
  if (const auto rank = rank_behind(words, "gave up on rank ")) return Blame{*rank, true, told_by};
  if (const auto rank = rank_behind(words, "lost rank ")) return Blame{*rank, false, told_by};
  if (told_by) return Blame{*told_by, false, told_by};
  return std::nullopt;
}

bool is_left_out(const std::string& words) { return words.find("the others go on without it") != std::string::npos; }

const Failure& cause_of(const std::vector<Failure>& failures) {
  const auto own = std::find_if(failures.begin(), failures.end(), [](const Failure& one) { return !one.follows; });
  if (own != failures.end()) return *own;
  const auto waited = [](const Failure& one) {
    const auto blame = blame_in(one.error.what());
    return blame && blame->waited;
  };
  const bool some_waited = std::any_of(failures.begin(), failures.end(), waited);
  const auto first = some_waited ? std::find_if(failures.begin(), failures.end(), waited) : failures.begin();
  std::set<int> passed;
  for (auto at = first; passed.insert(at->rank).second;) {
    const auto blame = blame_in(at->error.what());
    if (!blame) return *at;
    const auto of = [&](int rank) {
      return std::find_if(failures.begin(), failures.end(),
                          [&](const Failure& one) { return one.rank == rank && (!some_waited || waited(one)); });
    };
    auto next = blame->told_by ? of(*blame->told_by) : failures.end();
    if (next == failures.end()) next = of(blame->rank);
    if (next == failures.end()) return *at;
    at = next;
  }
  return *first;  // they blame each other
}

void throw_cause(const std::vector<Failure>& failures, const std::vector<Failure>& losses) {
  const Failure& cause = cause_of(failures);
  const auto blame = cause.follows ? blame_in(cause.error.what()) : std::nullopt;
  for (const Failure& loss : losses) {
    if (blame && blame->rank == loss.rank) throw loss.error;
  }
  if (cause.code) throw WorkerExited(cause.error, *cause.code);
  throw cause.error;
}

nlohmann::json to_json(const Failure& failure) {
  nlohmann::json code = nullptr;
  if (failure.code) code = *failure.code;
  return {{"rank", failure.rank},
          {"kind", name(failure.error.kind())},
          {"message", failure.error.what()},
          {"follows", failure.follows},
          {"code", code}};
}

Failure failure_from(const nlohmann::json& json) {
  try {
    const nlohmann::json& code = json.at("code");
    const Error error(kind_named(json.at("kind").get<std::string>()), json.at("message").get<std::string>());
    return {json.at("rank").get<int>(), error, json.at("follows").get<bool>(),
            code.is_null() ? std::nullopt : std::optional(code.get<int>())};
  } catch (const nlohmann::json::exception&) {
    return {-1, Error(ErrorKind::internal, "said something that is no failure: " + json.dump()), false, std::nullopt};
  }
}

ErrorKind kind_named(const std::string& kind) {
  for (ErrorKind k : {ErrorKind::internal, ErrorKind::usage, ErrorKind::data, ErrorKind::io, ErrorKind::network,
                      ErrorKind::peer, ErrorKind::mismatch}) {
    if (kind == name(k)) return k;
  }
  return ErrorKind::internal;
}

}  // namespace ripieno::launch
