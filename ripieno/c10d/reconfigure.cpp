// Another membership for a group that there is: some of its processes and new ones (PyTorch 2.14's fault tolerance).
//
// 1. The processes agree on an id and on the handles of all, by means of their own.
// 2. Each claims its rank under that id in the group's store, so that an id used twice is noticed.
// 3. They meet there as a new group's ranks do (store_meeting.h). Only then does each part from the members of before.
#include <algorithm>
#include <charconv>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "ripieno/c10d/backend.h"
#include "ripieno/c10d/store_meeting.h"
#include "ripieno/transport/shared/hello.h"

namespace ripieno::c10d {
namespace {

constexpr std::string_view handles_begin = "ripieno:";

/// Of "ripieno:RANK:ID". Error(usage): it is not such a handle.
std::uint64_t first_rank(const std::string& handle) {
  std::uint64_t rank = 0;
  const char* end = handle.data() + handle.size();
  if (handle.starts_with(handles_begin)) {
    const auto [after, error] = std::from_chars(handle.data() + handles_begin.size(), end, rank);
    if (error == std::errc() && after + 1 < end && *after == ':') return rank;
  }
  fail(ErrorKind::usage, "reconfigure with handle '", handle,
       "', which is none of backend ripieno: take what get_reconfigure_handle() gives");
}

}  // namespace

std::string Backend::new_handle(int rank, const ::c10d::Backend::Options& options) {
  const std::vector<std::uint64_t>& global = options.global_ranks_in_group;
  const auto place = static_cast<std::size_t>(rank);
  return text(handles_begin, rank >= 0 && place < global.size() ? global[place] : place, ":", transport::check_word());
}

void Backend::reconfigure_to(std::int64_t id, const std::vector<std::string>& handles,
                             std::chrono::milliseconds timeout) {
  if (!store_) fail(ErrorKind::usage, "reconfigure: the group was joined without a store");
  std::vector<std::uint64_t> ranks;
  for (const std::string& handle : handles) {
    ranks.push_back(first_rank(handle));
    if (std::count(handles.begin(), handles.end(), handle) > 1)
      fail(ErrorKind::usage, "reconfigure: handle ", handle, " is there twice");
  }
  const auto own = std::find(handles.begin(), handles.end(), handle_);
  if (own == handles.end())
    fail(ErrorKind::usage, "reconfigure: this process, ", handle_, ", is not among the ", handles.size(), " handles");
  if (members_ && members_->free_comm) {
    fail(ErrorKind::usage,
         "reconfigure: ripieno.agree(), or DistributedDataParallel in C++, has made communicators of its own on the "
         "group: make it on a group that keeps its members");
  }

  const GroupPlace place{static_cast<int>(own - handles.begin()), static_cast<int>(handles.size()), name()};
  ::c10d::PrefixStore store(text("ripieno/reconfigure/", id), store_);
  const std::string claim = text(handle_, ", call ", ++claims_);
  if (store.compareSet(text("claim/", place.rank), std::string(), claim) != claim) {
    fail(ErrorKind::mismatch, "reconfigure: id ", id, " was already used by rank ", place.rank, " of ", place.name,
         ": each needs an id of its own");
  }
  auto met = std::make_unique<Members>(meet_by_store(store, place, timeout), ranks);
  part(text("it has been formed anew, with id ", id));

  const std::lock_guard lock(order_);
  rank_ = place.rank;
  size_ = place.size;
  options_->global_ranks_in_group = std::move(ranks);
  members_ = std::move(met);
  ++meetings_;
  has_failed_ = false;
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE

c10::intrusive_ptr<::c10d::Work> Backend::reconfigure(const ::c10d::ReconfigureOptions& options) {
  std::vector<std::string> handles;
  if (const auto* unordered = std::get_if<std::unordered_set<std::string>>(&options.handles)) {
    handles.assign(unordered->begin(), unordered->end());
    std::sort(handles.begin(), handles.end(), [](const std::string& a, const std::string& b) {
      return std::pair(first_rank(a), a) < std::pair(first_rank(b), b);
    });
  } else {
    handles = std::get<std::vector<std::string>>(options.handles);
  }
  reconfigure_to(options.uuid, handles, options.timeout.value_or(options_->timeout));
  const auto done = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  done->markCompleted(c10::IValue(Tensors()));
  return ::c10d::Work::create_from_future(done);
}

#endif

}  // namespace ripieno::c10d
