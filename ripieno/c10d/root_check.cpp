#include "ripieno/c10d/root_check.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <string_view>

#include "ripieno/c10d/tagged_messages.h"

namespace ripieno::c10d {
namespace {

constexpr transport::Scope roots_scope = 0x726F6F7473;  // no communicator of split() has it but by a rare chance

}  // namespace

RootCheck::RootCheck(const collective::Communicator& group)
    : group_(group),
      comm_(group.shared_endpoint(), everybody(group.endpoint()), roots_scope),
      message_{{observe::Purpose::control, 0, roots_scope}, "roots", DType::uint8, sizeof(Begun)} {
  group_.takes_along(comm_);
}

void RootCheck::begins(const char* operation, std::uint64_t number, int root) {
  if (comm_.size() == 1) return;
  Begun own{number, root, {}};
  std::string_view(operation).copy(own.operation.data(), own.operation.size() - 1);
  // Side by side, so that they go out, and are awaited, in the order of the calls.
  const auto comparison = std::make_shared<Comparison>(comm_.runtime());
  latest_ = comparison->over;
  start(hear(shared_from_this(), own), comparison);
  start(tell(shared_from_this(), own), comparison);
}

void RootCheck::start(Task<> task, const std::shared_ptr<Comparison>& comparison) {
  ++running_;
  asio::co_spawn(comm_.runtime().context(), counted(shared_from_this(), std::move(task), comparison), asio::detached);
}

Task<> RootCheck::counted(Self self, Task<> task, std::shared_ptr<Comparison> comparison) {
  Task<std::exception_ptr> ending = error_of(std::move(task));
  static_cast<void>(co_await std::move(ending));  // what ends the group, its operations tell
  --self->running_;
  if (--comparison->tasks == 0) comparison->over->set();
}

Task<> RootCheck::close(Self self) {
  const collective::Communicator& comm = self->comm_;
  const std::string why = text("rank ", comm.rank(), ": the group has ended");
  comm.endpoint().abort(roots_scope, {comm.rank()}, std::make_exception_ptr(Error(ErrorKind::peer, why)));
  while (self->running_ > 0) {
    Task<> yielding = comm.runtime().yield();
    co_await std::move(yielding);
  }
}

Task<> RootCheck::tell(Self self, Begun own) {
  const collective::Communicator& comm = self->comm_;
  const int next = (comm.rank() + 1) % comm.size();
  Task<> sending = comm.endpoint().send(next, self->message_, std::as_bytes(std::span(&own, 1)));
  co_await std::move(sending);
}

Task<> RootCheck::hear(Self self, Begun own) {
  const collective::Communicator& comm = self->comm_;
  const int before = (comm.rank() + comm.size() - 1) % comm.size();
  Begun its;
  const Bytes into = std::as_writable_bytes(std::span(&its, 1));
  Task<> receiving = comm.endpoint().receive(before, self->message_, transport::Sink(into));
  co_await std::move(receiving);
  if (its == own) co_return;
  its.operation.back() = 0;
  const auto name = [](const Begun& one) {
    return text(one.operation.data(), " number ", one.number, " with root ", one.root);
  };
  self->mismatch_ = std::make_exception_ptr(
      Error(ErrorKind::mismatch, text("rank ", before, " has ", name(its), " where rank ", comm.rank(), " has ",
                                      name(own), ": all ranks must call the same operations with the same root")));
  self->group_.abort(self->mismatch_);
}

}  // namespace ripieno::c10d
