#include "ripieno/transport/aborts.h"

#include <algorithm>
#include <utility>

#include "ripieno/transport/inquiry.h"

namespace ripieno::transport {
namespace {

std::string message_of(std::exception_ptr error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an error without a message";
  }
}

/// The first `most` bytes of UTF-8, or a few less so that no character is cut.
std::string cut(const std::string& words, std::size_t most) {
  if (words.size() <= most) return words;
  while (most > 0 && (static_cast<unsigned char>(words[most]) & 0xC0) == 0x80) --most;
  return words.substr(0, most);
}

}  // namespace

Abort own_abort(Scope scope, std::exception_ptr error, int rank) {
  std::string words = message_of(error);
  words.resize(std::min(words.find('\n'), words.size()));
  if (const std::string own = text("rank ", rank, ": "); words.starts_with(own)) words.erase(0, own.size());
  return {scope, error, rank, cut(words, most_reason), loss_of(error)};
}

Loss passed_on(const std::optional<Loss>& loss, int origin) {
  return loss ? Loss{loss->rank, loss->how, origin} : Loss{origin, Lost::gave_up, origin};
}

std::exception_ptr gave_up(int rank, const Abort& heard) {
  std::string words = heard.reason.substr(0, most_reason);
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; };
  std::replace_if(words.begin(), words.end(), is_control, ' ');  // the text comes from outside
  return std::make_exception_ptr(
      Error(passed_on(heard.loss, heard.origin), text("rank ", rank, ": rank ", heard.origin, " gave up: ", words)));
}

const Abort* Aborts::find(Scope scope) const {
  if (ended_.empty()) return nullptr;
  const auto found = ended_.find(scope);
  return found == ended_.end() ? nullptr : &found->second.abort;
}

void Aborts::end(Scope scope, std::exception_ptr error) {
  if (!find(scope)) end(own_abort(scope, error, rank_));
}

void Aborts::hear(int peer, Abort heard) {
  if (heard.scope == notes_scope) {
    if (const auto inquiry = inquiry_.lock()) inquiry->hear(peer, heard.reason);
    return;
  }
  if (heard.scope == views_scope) {
    if (views_) views_(peer, heard.reason);
    return;
  }
  heard.reason.resize(std::min(heard.reason.size(), most_reason));
  heard.error = gave_up(rank_, heard);
  if (!find(heard.scope)) end(heard);
  ended_.at(heard.scope).know.insert(peer);
}

void Aborts::end(Abort abort) {
  const Abort& kept = ended_.emplace(abort.scope, Ended{abort, {}}).first->second.abort;
  for (const Watcher& watcher : watchers_) watcher(kept);
}

bool Aborts::must_tell(Scope scope, int peer) { return ended_.at(scope).know.insert(peer).second; }

}  // namespace ripieno::transport
