// A payload (collective/payload.h) of parts of memory, one for each rank, which need not lie one after the other. A
// schedule that moves whole chunks or blocks moves whole parts, each to or from the place where the user wants it.
#pragma once

#include "ripieno/c10d/host_tensor.h"
#include "ripieno/collective/payload.h"

namespace ripieno::c10d {

class PartsPayload final : public collective::MessagePayload {
 public:
  /// Part i of `from` is sent as unit i, part i of `into` is received as unit i; they may be the same.
  PartsPayload(collective::Communicator comm, transport::Message message, const Parts& from, const Parts& into)
      : MessagePayload(std::move(comm)), message_(message), from_(from), into_(into) {}

  std::size_t units() const override { return static_cast<std::size_t>(comm_.size()); }

 private:
  transport::Outgoing outgoing(const collective::Transfer& out) override;
  transport::Incoming incoming(const collective::Transfer& in) override;
  transport::Message message_of(Bytes part, DType type) const;

  const transport::Message message_;  ///< channel and operation
  const Parts& from_;
  const Parts& into_;
};

}  // namespace ripieno::c10d
