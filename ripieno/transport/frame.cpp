#include "ripieno/transport/frame.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iomanip>

#include "ripieno/transport/checksum.h"

namespace ripieno::transport {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are written as they lie in memory");

constexpr std::uint32_t magic = 0x4E504952;         // "RIPN"
constexpr std::uint64_t most_payload = 1ull << 48;  // a larger message means that the stream is out of step

template <class T>
void put(FrameBytes& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class T>
T get(const FrameBytes& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

constexpr std::uint64_t ways_to_be_lost = 4;

std::uint64_t number_of(const std::optional<Loss>& loss) {
  if (!loss) return 0;
  const auto rank = static_cast<std::uint32_t>(loss->rank + 1);
  return (static_cast<std::uint64_t>(loss->how) + 1) << 32 | rank;
}

bool is_loss(std::uint64_t number) { return number == 0 || (number >> 32) - 1 < ways_to_be_lost; }

std::optional<Loss> loss_in(std::uint64_t number) {
  if (number == 0) return std::nullopt;
  return Loss{static_cast<int>(static_cast<std::uint32_t>(number)) - 1, static_cast<Lost>((number >> 32) - 1)};
}

std::uint32_t checksum_of(FrameBytes bytes) {
  put(bytes, 0, magic);
  Checksum checksum;
  checksum.add(bytes);
  return checksum.value();
}

}  // namespace

Frame make_frame(const Message& message, std::uint32_t epoch, std::uint32_t sequence, std::uint64_t payload) {
  Frame frame{epoch, sequence, payload, message.channel, message.type, message.count, {}, FrameKind::message};
  require(message.operation.size() < frame.operation.size(), "an operation's name has at most 19 characters, but '",
          message.operation, "' has more");
  std::copy(message.operation.begin(), message.operation.end(), frame.operation.begin());
  return frame;
}

Frame make_frame(const Abort& abort, std::uint32_t epoch) {
  Frame frame;
  frame.epoch = epoch;
  frame.payload = abort.reason.size();
  frame.channel = {observe::Purpose{}, static_cast<std::uint32_t>(abort.origin), abort.scope};
  frame.type = DType{};
  frame.count = number_of(abort.loss);
  frame.kind = FrameKind::abort;
  return frame;
}

Abort abort_in(const Frame& frame, std::string reason) {
  return {frame.channel.scope, nullptr, static_cast<int>(frame.channel.id), std::move(reason), loss_in(frame.count)};
}

void seal(FrameBytes& bytes) { put(bytes, 0, checksum_of(bytes)); }

Error not_a_header(int rank, int peer, const FrameBytes& bytes) {
  return Error(ErrorKind::mismatch,
               text("rank ", rank, ": rank ", peer, " sent bytes that are not a message's header (their checksum is ",
                    std::hex, std::setfill('0'), std::setw(8), checksum_of(bytes), ", and they say ", std::setw(8),
                    get<std::uint32_t>(bytes, 0),
                    "): memory or a network card has changed them, or the ranks run different versions"));
}

FrameBytes encode(const Frame& frame) {
  FrameBytes bytes{};
  put(bytes, 4, frame.epoch);
  put(bytes, 8, frame.channel.scope);
  put(bytes, 16, frame.count);
  put(bytes, 24, frame.payload);
  put(bytes, 32, frame.channel.id);
  put(bytes, 36, frame.channel.purpose);
  put(bytes, 37, frame.type);
  put(bytes, 39, frame.kind);
  put(bytes, 40, frame.sequence);
  put(bytes, 44, frame.operation);
  seal(bytes);
  return bytes;
}

std::optional<Frame> decode(const FrameBytes& bytes) {
  const auto purpose = get<std::uint8_t>(bytes, 36);
  const auto type = get<std::uint8_t>(bytes, 37);
  const auto kind = get<std::uint8_t>(bytes, 39);
  Frame frame;
  frame.epoch = get<std::uint32_t>(bytes, 4);
  frame.channel.scope = get<Scope>(bytes, 8);
  frame.count = get<std::uint64_t>(bytes, 16);
  frame.payload = get<std::uint64_t>(bytes, 24);
  frame.channel.id = get<std::uint32_t>(bytes, 32);
  frame.sequence = get<std::uint32_t>(bytes, 40);
  frame.operation = get<std::array<char, 20>>(bytes, 44);
  const bool printable = std::all_of(frame.operation.begin(), frame.operation.end(),
                                     [](char c) { return c == 0 || (c >= 32 && c < 127); });
  if (get<std::uint32_t>(bytes, 0) != checksum_of(bytes) || purpose >= observe::purposes.size() || type >= dtypes ||
      get<std::uint8_t>(bytes, 38) != 0 || kind > static_cast<int>(FrameKind::abort) || frame.operation.back() != 0 ||
      !printable || frame.payload > most_payload) {
    return std::nullopt;
  }
  frame.channel.purpose = static_cast<observe::Purpose>(purpose);
  frame.type = static_cast<DType>(type);
  frame.kind = static_cast<FrameKind>(kind);
  if (frame.kind == FrameKind::abort && (frame.payload > most_reason || !is_loss(frame.count))) return std::nullopt;
  return frame;
}

std::string describe(const Message& message, std::uint64_t payload) {
  return text(describe(message), " (", payload, " bytes)");
}

}  // namespace ripieno::transport
