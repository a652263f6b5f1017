#include "ripieno/c10d/root_check.h"

#include <string_view>

#include "ripieno/core/async.h"

namespace ripieno::c10d {

void RootCheck::begins(const char* operation, std::uint64_t number, int root) const {
  if (comm_.size() == 1) return;
  Begun own{number, root, {}};
  std::string_view(operation).copy(own.operation.data(), own.operation.size() - 1);
  const transport::Message message{comm_.channel(channel_, observe::Purpose::control), "roots", DType::uint8,
                                   sizeof own};
  // Side by side, so that they go out, and are awaited, in the order of the calls.
  Flight(comm_.runtime(), hear(comm_, message, own));
  Flight(comm_.runtime(), tell(comm_, message, own));
}

Task<> RootCheck::tell(collective::Communicator comm, transport::Message message, Begun own) {
  const int next = comm.member((comm.rank() + 1) % comm.size());
  Task<> sending = comm.endpoint().send(next, message, std::as_bytes(std::span(&own, 1)));
  Task<std::exception_ptr> ending = error_of(std::move(sending));
  static_cast<void>(co_await std::move(ending));  // what ends the communicator, its operations tell
}

Task<> RootCheck::hear(collective::Communicator comm, transport::Message message, Begun own) {
  const int before = (comm.rank() + comm.size() - 1) % comm.size();
  Begun its;
  const Bytes into = std::as_writable_bytes(std::span(&its, 1));
  Task<> receiving = comm.endpoint().receive(comm.member(before), message, transport::Sink(into));
  Task<std::exception_ptr> ending = error_of(std::move(receiving));
  const std::exception_ptr error = co_await std::move(ending);
  if (error || its == own) co_return;
  its.operation.back() = 0;
  const auto name = [](const Begun& one) {
    return text(one.operation.data(), " number ", one.number, " with root ", one.root);
  };
  comm.abort(std::make_exception_ptr(
      Error(ErrorKind::mismatch, text("rank ", before, " has ", name(its), " where rank ", comm.rank(), " has ",
                                      name(own), ": all ranks must call the same operations with the same root"))));
}

}  // namespace ripieno::c10d
