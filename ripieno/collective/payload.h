// What a schedule moves, and how it is sent and received. One executor (execute.h) runs all kinds of payload.
#pragma once

#include "ripieno/collective/communicator.h"

namespace ripieno::collective {

class Payload {
 public:
  virtual ~Payload() = default;

  /// The number of units that the schedule's ranges count: numbers, blocks, members' encodings.
  virtual std::size_t units() const = 0;

  /// Called before and after a step that has several transfers in one direction, or that receives into what it sends.
  virtual void begin(const Step&) {}
  virtual void end(const Step&) {}

  /// The payload and the step outlive these coroutines.
  virtual Task<> send(const Transfer& out) = 0;
  virtual Task<> receive(const Transfer& in) = 0;
  /// Sends and receives at once; if one fails, `on_error` must end the other.
  virtual Task<> exchange(const Transfer& out, const Transfer& in,
                          std::function<void(std::exception_ptr)> on_error) = 0;
  /// Called when a transfer has been received, before the next step.
  virtual void arrived(const Transfer&) {}
};

/// A payload that sends each transfer as one message.
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
  /// The peer is a rank of the endpoint. Payload and sink are valid until the transfer has ended.
  virtual transport::Outgoing outgoing(const Transfer& out) = 0;
  virtual transport::Incoming incoming(const Transfer& in) = 0;

  const Communicator comm_;
};

}  // namespace ripieno::collective
