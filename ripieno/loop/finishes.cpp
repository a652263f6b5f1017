#include "ripieno/loop/finishes.h"

namespace ripieno::loop {

Finishes::Finishes(collective::Communicator comm, std::uint64_t unit, std::string name)
    : comm_(std::move(comm)),
      unit_(unit),
      name_(std::move(name)),
      channel_(comm_.channel(comm_.take_channels(), observe::Purpose::control)),
      heard_(static_cast<std::size_t>(comm_.size()), -1) {}

transport::Message Finishes::message() const { return {channel_, "finish", DType::uint8, sizeof(std::uint64_t)}; }

void Finishes::listen(std::function<void(std::exception_ptr)> on_error) {
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank != comm_.rank()) listening_.emplace_back(comm_.runtime(), hear(rank, on_error));
  }
}

Task<> Finishes::hear(int rank, std::function<void(std::exception_ptr)> on_error) {
  std::exception_ptr error;
  try {
    std::uint64_t steps = 0;
    const Bytes room = std::as_writable_bytes(std::span(&steps, 1));
    co_await comm_.endpoint().receive(comm_.member(rank), message(), room);
    heard_[static_cast<std::size_t>(rank)] = static_cast<std::int64_t>(steps);
    compare(rank);
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) co_return;
  on_error(error);
  std::rethrow_exception(error);
}

void Finishes::compare(int rank) const {
  const std::int64_t theirs = heard_[static_cast<std::size_t>(rank)];
  if (theirs < 0 || unit_ == 0) return;
  const auto mine = static_cast<std::int64_t>(steps_ / unit_);
  if (finished_ ? mine == theirs : mine <= theirs) return;
  fail(ErrorKind::mismatch, "rank ", rank, " called finish() after ", theirs, " ", name_, theirs == 1 ? "" : "s",
       ", but rank ", comm_.rank(), finished_ ? " after " : " is in number ", mine,
       ": with this strategy all ranks must take equally many");
}

void Finishes::steps(std::uint64_t step) {
  steps_ = step;
  for (int rank = 0; rank < comm_.size(); ++rank) compare(rank);
}

Task<> Finishes::finish() {
  finished_ = true;
  for (int rank = 0; rank < comm_.size(); ++rank) compare(rank);
  const std::uint64_t mine = unit_ == 0 ? steps_ : steps_ / unit_;
  const ConstBytes told = std::as_bytes(std::span(&mine, 1));
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank != comm_.rank()) co_await comm_.endpoint().send(comm_.member(rank), message(), told);
  }
  if (unit_ == 0) co_return;
  for (Flight& one : listening_) {
    Task<> landed = one.landed();
    co_await std::move(landed);
  }
}

Task<> Finishes::silent() {
  for (Flight& one : listening_) {
    Task<> landed = one.landed();
    Task<std::exception_ptr> ending = error_of(std::move(landed));
    co_await std::move(ending);
  }
}

}  // namespace ripieno::loop
