#include "ripieno/c10d/parts_payload.h"

namespace ripieno::c10d {
namespace {

Bytes part_of(const Parts& parts, Range range) {
  require(range.size() == 1, "a schedule that moves ", range.size(), " parts in one message");
  return parts[static_cast<int>(range.begin)];
}

}  // namespace

transport::Outgoing PartsPayload::outgoing(const collective::Transfer& out) {
  const Bytes part = part_of(from_, out.range);
  return {comm_.member(out.peer), message_of(part, from_.type()), part};
}

transport::Incoming PartsPayload::incoming(const collective::Transfer& in) {
  const Bytes part = part_of(into_, in.range);
  return {comm_.member(in.peer), message_of(part, into_.type()), part};
}

transport::Message PartsPayload::message_of(Bytes part, DType type) const {
  transport::Message message = message_;
  message.type = type;
  message.count = part.size() / size_of(type);
  return message;
}

}  // namespace ripieno::c10d
