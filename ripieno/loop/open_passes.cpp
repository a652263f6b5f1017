#include "ripieno/loop/open_passes.h"

#include <map>
#include <mutex>
#include <thread>

#include "ripieno/core/error.h"
#include "ripieno/loop/backward_end.h"

namespace ripieno::loop {
namespace {

struct Open {
  std::string doing;
  std::weak_ptr<const void> alive;
  std::thread::id thread;
  int backward;
};

struct OpenPasses {
  std::mutex mutex;
  std::map<const void*, std::map<const void*, Open>> of;  ///< by group and model

  void refuse(const void* group, const void* model, const std::string& doing) {
    for (const auto& [other, open] : of[group]) {
      const bool together = open.thread == std::this_thread::get_id() || open.backward == current_backward();
      if (other == model || together || open.alive.expired()) continue;
      fail(ErrorKind::usage, doing, " begins while ", open.doing,
           " goes on in another thread: the ranks of a group tell its models' passes apart by their order, which "
           "threads do not keep; give each model a process group of its own, or let the threads take turns");
    }
  }
};

OpenPasses& open_passes() {
  static OpenPasses all;
  return all;
}

}  // namespace

void refuse_beside_others(const void* group, const void* model, const std::string& doing) {
  OpenPasses& open = open_passes();
  const std::lock_guard lock(open.mutex);
  open.refuse(group, model, doing);
}

void open_pass(const void* group, const void* model, const std::string& doing, std::weak_ptr<const void> alive) {
  OpenPasses& open = open_passes();
  const std::lock_guard lock(open.mutex);
  open.refuse(group, model, doing);
  open.of[group][model] = {doing, std::move(alive), std::this_thread::get_id(), current_backward()};
}

void close_pass(const void* group, const void* model) {
  OpenPasses& open = open_passes();
  const std::lock_guard lock(open.mutex);
  const auto of_group = open.of.find(group);
  if (of_group == open.of.end()) return;
  of_group->second.erase(model);
  if (of_group->second.empty()) open.of.erase(of_group);
}

}  // namespace ripieno::loop
