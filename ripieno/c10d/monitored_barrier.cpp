// The barrier that names the ranks which have not come.
#include <algorithm>

#include "ripieno/c10d/backend.h"

namespace ripieno::c10d {
namespace {

constexpr auto of_rank = static_cast<TypeCode>(at::ScalarType::Int);
constexpr auto of_nothing = static_cast<TypeCode>(at::ScalarType::Byte);

}  // namespace

std::string list_of(const std::vector<int>& ranks) {
  std::string list = ranks.size() == 1 ? "rank" : "ranks";
  for (std::size_t i = 0; i < ranks.size(); ++i) list += text(i == 0 ? " " : ", ", ranks[i]);
  return list;
}

void Backend::monitoredBarrier(const ::c10d::BarrierOptions& options, bool wait_for_all) {
  Tag tag = 0;
  {
    const std::lock_guard lock(order_);
    tag = internal_tags + static_cast<Tag>(members().barriers++);
  }
  const Duration limit = options.timeout == std::chrono::milliseconds(0) ? Duration(0) : limit_of(options.timeout);
  progress().run(title("monitored_barrier"),
                 rank_ == 0 ? monitor_others(tag, limit, wait_for_all) : be_monitored(tag, limit));
}

/// Rank 0 waits for a message of every other rank, and then answers each with the first rank that is missing, or -1.
Task<> Backend::monitor_others(Tag tag, Duration limit, bool wait_for_all) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size_));
  std::vector<Task<>> awaited;
  for (int rank = 1; rank < size_; ++rank)
    awaited.push_back(hear_from(rank, tag, limit, &errors[static_cast<std::size_t>(rank)]));
  Task<> together = all(runtime(), std::move(awaited), [](const std::exception_ptr&) {});
  co_await std::move(together);
  std::vector<int> missing;
  for (int rank = 1; rank < size_; ++rank) {
    if (errors[static_cast<std::size_t>(rank)]) missing.push_back(rank);
  }
  std::int32_t first = missing.empty() ? -1 : missing[0];
  for (int rank = 1; rank < size_; ++rank) {
    if (errors[static_cast<std::size_t>(rank)]) continue;
    Task<> answering =
        members_->messages->send(rank, tag, std::as_writable_bytes(std::span(&first, 1)), of_rank, limit_of({}));
    co_await std::move(answering);
  }
  if (missing.empty()) co_return;
  if (!wait_for_all) missing.resize(1);
  std::string names = list_of(missing);
  names[0] = 'R';
  if (limit == Duration(0) && !wait_for_all)
    fail(Loss{missing[0], Lost::silent}, "Rank 0 timed out in monitoredBarrier after 0 ms: it waits for ",
         list_of(missing));
  fail(Loss{missing[0], Lost::silent}, names, " failed to pass monitoredBarrier in ",
       std::chrono::duration_cast<std::chrono::milliseconds>(limit).count(), " ms");
}

Task<> Backend::hear_from(int rank, Tag tag, Duration limit, std::exception_ptr* error) {
  try {
    Task<int> hearing = members_->messages->receive(rank, tag, {}, of_nothing, limit);
    co_await std::move(hearing);
  } catch (...) {
    *error = std::current_exception();
  }
}

Task<> Backend::be_monitored(Tag tag, Duration limit) {
  std::int32_t missing = -1;
  std::string why;
  try {
    Task<> coming = members_->messages->send(0, tag, {}, of_nothing, limit_of({}));
    co_await std::move(coming);
    Task<int> waiting =
        members_->messages->receive(0, tag, std::as_writable_bytes(std::span(&missing, 1)), of_rank, 2 * limit);
    co_await std::move(waiting);
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (missing >= 0) why = text("rank ", missing, " has not come");
  if (why.empty()) co_return;
  fail(Loss{missing, Lost::silent, 0}, "Rank ", rank_,
       " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please "
       "check rank 0 logs for faulty rank: ",
       why);
}

}  // namespace ripieno::c10d
