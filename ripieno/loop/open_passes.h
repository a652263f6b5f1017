// The backward passes of a group's models that are open on this rank. Ranks tell the passes apart by their order, which
// one backward() keeps, however many models it goes through, and two threads do not.
#pragma once

#include <memory>
#include <string>

namespace ripieno::loop {

/// Refuses what begins on this thread, described by `doing`, while a pass of another model of the group is open in
/// another thread's backward(). Error(usage).
void refuse_beside_others(const void* group, const void* model, const std::string& doing);

/// As refuse_beside_others(), and from now on a pass of the model is open, until close_pass() or while `alive` lives.
void open_pass(const void* group, const void* model, const std::string& doing, std::weak_ptr<const void> alive);
void close_pass(const void* group, const void* model);

}  // namespace ripieno::loop
