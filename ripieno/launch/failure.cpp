#include "ripieno/launch/failure.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace ripieno::launch {
namespace {

nlohmann::json or_null(const std::optional<int>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json(nullptr);
}

}  // namespace

const Failure& cause_of(const std::vector<Failure>& failures) {
  const auto own = std::find_if(failures.begin(), failures.end(), [](const Failure& one) { return !one.follows; });
  if (own != failures.end()) return *own;
  const auto waited = [](const Failure& one) { return one.error.loss() && one.error.loss()->how == Lost::silent; };
  const bool some_waited = std::any_of(failures.begin(), failures.end(), waited);
  const auto first = some_waited ? std::find_if(failures.begin(), failures.end(), waited) : failures.begin();
  std::set<int> passed;
  for (auto at = first; passed.insert(at->rank).second;) {
    const std::optional<Loss>& loss = at->error.loss();
    if (!loss) return *at;
    const auto of = [&](int rank) {
      return std::find_if(failures.begin(), failures.end(),
                          [&](const Failure& one) { return one.rank == rank && (!some_waited || waited(one)); });
    };
    auto next = loss->told_by ? of(*loss->told_by) : failures.end();
    if (next == failures.end() && loss->rank >= 0) next = of(loss->rank);
    if (next == failures.end()) return *at;
    at = next;
  }
  return *first;  // they blame each other
}

void throw_cause(const std::vector<Failure>& failures, const std::vector<Failure>& losses) {
  const Failure& cause = cause_of(failures);
  const std::optional<Loss>& blamed = cause.error.loss();
  for (const Failure& loss : losses) {
    if (cause.follows && blamed && blamed->rank == loss.rank) throw loss.error;
  }
  if (cause.code) throw WorkerExited(cause.error, *cause.code);
  throw cause.error;
}

nlohmann::json to_json(const std::optional<Loss>& loss) {
  if (!loss) return nullptr;
  return {{"rank", loss->rank}, {"how", name(loss->how)}, {"told_by", or_null(loss->told_by)}};
}

std::optional<Loss> loss_from(const nlohmann::json& json) {
  if (!json.is_object() || !json.contains("rank") || !json["rank"].is_number_integer()) return std::nullopt;
  const auto how = json.find("how");
  const auto told_by = json.find("told_by");
  Loss loss{json["rank"].get<int>()};
  for (const Lost one : {Lost::ended, Lost::silent, Lost::gave_up, Lost::left_out}) {
    if (how != json.end() && *how == name(one)) loss.how = one;
  }
  if (told_by != json.end() && told_by->is_number_integer()) loss.told_by = told_by->get<int>();
  return loss;
}

nlohmann::json to_json(const Failure& failure) {
  return {{"rank", failure.rank},
          {"kind", name(failure.error.kind())},
          {"message", failure.error.what()},
          {"loss", to_json(failure.error.loss())},
          {"follows", failure.follows},
          {"code", or_null(failure.code)}};
}

Failure failure_from(const nlohmann::json& json) {
  try {
    const nlohmann::json& code = json.at("code");
    const Error error(kind_named(json.at("kind").get<std::string>()), json.at("message").get<std::string>(),
                      loss_from(json.at("loss")));
    return {json.at("rank").get<int>(), error, json.at("follows").get<bool>(),
            code.is_null() ? std::nullopt : std::optional(code.get<int>())};
  } catch (const nlohmann::json::exception&) {
    return {-1, Error(ErrorKind::internal, "said something that is no failure: " + json.dump()), false, std::nullopt};
  }
}

Error named(const Error& error, int rank) {
  const std::string said = error.what();
  return said.starts_with("rank ") ? error : error.reworded(text("rank ", rank, ": ", said));
}

ErrorKind kind_named(const std::string& kind) {
  for (ErrorKind k : {ErrorKind::internal, ErrorKind::usage, ErrorKind::data, ErrorKind::io, ErrorKind::network,
                      ErrorKind::peer, ErrorKind::mismatch}) {
    if (kind == name(k)) return k;
  }
  return ErrorKind::internal;
}

}  // namespace ripieno::launch
