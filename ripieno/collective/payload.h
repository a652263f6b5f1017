// What a schedule moves, and how it goes out and comes in: the executor (execute.h) is one, its payloads are several.
#pragma once

#include "ripieno/collective/communicator.h"

namespace ripieno::collective {

class Payload {
 public:
  virtual ~Payload() = default;

  /// What the schedule's ranges count: numbers, blocks, the members' encodings.
  virtual std::size_t units() const = 0;

  /// Before and after a step of more than one transfer one way, or one that receives into what it sends.
  virtual void begin(const Step&) {}
  virtual void end(const Step&) {}

  /// The coroutines outlive neither the payload nor the step.
  virtual Task<> send(const Transfer& out) = 0;
  virtual Task<> receive(const Transfer& in) = 0;
  /// Both at once; `on_error` makes one end when the other has failed.
  virtual Task<> exchange(const Transfer& out, const Transfer& in,
                          std::function<void(std::exception_ptr)> on_error) = 0;
  /// What was received is there; before the next step.
  virtual void arrived(const Transfer&) {}
};

/// One whose every transfer is one message.
class MessagePayload : public Payload {
 public:
  explicit MessagePayload(Communicator comm) : comm_(std::move(comm)) {}

  Task<> send(const Transfer& out) override {
    const transport::Outgoing message = outgoing(out);
    return comm_.endpoint().send(message.peer, message.message, message.payload);
  }
  Task<> receive(const Transfer& in) override {
    const transport::Incoming message = incoming(in);
    return comm_.endpoint().receive(message.peer, message.message, message.into);
  }
  Task<> exchange(const Transfer& out, const Transfer& in, std::function<void(std::exception_ptr)> on_error) override {
    const transport::Outgoing leaving = outgoing(out);
    return comm_.endpoint().exchange(leaving, incoming(in), std::move(on_error));
  }

 protected:
  /// The peer is the endpoint's. Payload and sink are valid until the transfer has ended.
  virtual transport::Outgoing outgoing(const Transfer& out) = 0;
  virtual transport::Incoming incoming(const Transfer& in) = 0;

  const Communicator comm_;
};

}  // namespace ripieno::collective
