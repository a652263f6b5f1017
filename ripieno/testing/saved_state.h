// The content of a checkpoint, in memory by name, to test that a checkpoint is complete.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ripieno/core/error.h"
#include "ripieno/core/state.h"

namespace ripieno::testing {

/// Saves what a walk shows, or writes back what an earlier walk saved. Throws Error(mismatch) if a walk shows two
/// things under one name, or shows something to restore that was not saved or is of another size.
class SavedState final : public StateVisitor {
 public:
  void begin(bool restoring) {
    restoring_ = restoring;
    seen_.clear();
  }

  /// A saved number.
  std::int64_t number_of(std::string_view name) const { return numbers_.find(name)->second; }
  /// The name of something that differs between the two; empty if nothing does.
  std::string difference(const SavedState& other) const {
    for (const auto& [name, bytes] : spans_) {
      const auto found = other.spans_.find(name);
      if (found == other.spans_.end() || found->second != bytes) return name;
    }
    for (const auto& [name, number] : numbers_) {
      const auto found = other.numbers_.find(name);
      if (found == other.numbers_.end() || found->second != number) return name;
    }
    return spans_.size() == other.spans_.size() && numbers_.size() == other.numbers_.size() ? "" : "what is saved";
  }

  void span(std::string_view name, NumberSpan values) override {
    std::vector<std::byte>& saved = entry(spans_, name);
    const Bytes all = values.bytes();
    if (!restoring_) saved.assign(all.begin(), all.end());
    if (saved.size() != all.size()) {
      fail(ErrorKind::mismatch, "state ", name, " was saved with ", saved.size(), " bytes and has ", all.size(),
           " when resumed");
    }
    std::copy(saved.begin(), saved.end(), all.begin());
  }

  void number(std::string_view name, std::int64_t& value) override {
    std::int64_t& saved = entry(numbers_, name);
    (restoring_ ? value : saved) = restoring_ ? saved : value;
  }

 private:
  template <class T>
  T& entry(std::map<std::string, T, std::less<>>& all, std::string_view name) {
    if (!seen_.insert(std::string(name)).second)
      fail(ErrorKind::mismatch, "visit() shows two things by the name ", name);
    const auto found = all.find(name);
    if (restoring_ && found == all.end()) {
      fail(ErrorKind::mismatch, "state ", name, " was not saved, and is there when resumed");
    }
    return found != all.end() ? found->second : all[std::string(name)];
  }

  bool restoring_ = false;
  std::set<std::string> seen_;
  std::map<std::string, std::vector<std::byte>, std::less<>> spans_;
  std::map<std::string, std::int64_t, std::less<>> numbers_;
};

}  // namespace ripieno::testing
