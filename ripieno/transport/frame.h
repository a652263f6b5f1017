// The 64 bytes that precede every payload on a connection, whatever carries it, little-endian:
//    0 checksum u32  16 count u64            36 purpose u8   40 sequence u32
//    4 epoch u32     24 payload bytes u64    37 type u8      44 operation, 20 characters
//    8 scope u64     32 channel id u32       38 zero u8
//                                            39 kind u8
// The checksum is of the other bytes, after a magic number in its place. The operation ends with zeros. An abort
// (Endpoint::abort) is the last frame of its scope. Its channel id is the rank that gave up first, its payload that
// rank's reason, its count the loss that made it give up (0: none; else the rank plus 1, and above its 32 bits, how it
// was lost, plus 1), and its other fields are zero.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "ripieno/transport/aborts.h"

namespace ripieno::transport {

enum class FrameKind : std::uint8_t { message, abort };

struct Frame {
  std::uint32_t epoch = 0;
  std::uint32_t sequence = 0;  ///< the message's number on its channel, from 0, modulo 2^32
  std::uint64_t payload = 0;   ///< bytes
  Channel channel;
  DType type = DType::fp32;
  std::uint64_t count = 0;
  std::array<char, 20> operation{};  ///< ends with a zero
  FrameKind kind = FrameKind::message;

  /// Views `operation` of this frame: the frame must outlive it.
  Message message() const { return {channel, operation.data(), type, count}; }
};

inline constexpr std::size_t frame_bytes = 64;
using FrameBytes = std::array<std::byte, frame_bytes>;

/// An operation of more than 19 characters is an Error(internal).
Frame make_frame(const Message& message, std::uint32_t epoch, std::uint32_t sequence, std::uint64_t payload);

/// The frame that announces an abort; its reason follows.
Frame make_frame(const Abort& abort, std::uint32_t epoch);

/// What such a frame and the reason behind it tell. It has no error yet (Aborts::hear).
Abort abort_in(const Frame& frame, std::string reason);

FrameBytes encode(const Frame& frame);

/// Puts the checksum to a header's other bytes.
void seal(FrameBytes& bytes);

/// nullopt if encode() cannot have made the bytes, which come from outside.
std::optional<Frame> decode(const FrameBytes& bytes);

/// Error(mismatch): what `peer` has sent `rank` is no header, with both checksums.
Error not_a_header(int rank, int peer, const FrameBytes& bytes);

/// "ring of 1024 fp32 on exchange channel 0 (4096 bytes)"
std::string describe(const Message& message, std::uint64_t payload);

}  // namespace ripieno::transport
