// What an exchange is cut into and which way it goes, chosen by what the links are found to be, in two parts: a
// measurement, which all ranks take part in, and a choice, which is a pure function of its result. The measure is the
// alpha-beta model: a message of b bytes takes alpha + b beta.
//
// The measurement: every rank sends to the next one and receives from the one before, all at once, as rings do.
//   1. alpha: the median of 21 messages of 4 bytes.
//   2. beta: messages of 64 KiB, doubled until one takes 20 ms (or is of 16 MiB), so that what a link can take at once
//      flatters little; (T - alpha) / b of the last.
//   Both are the mean over the ranks. It takes about 0.1 s.
// The choice, for n bytes of gradients:
//   - a segment is P messages of what a link carries in 2 ms, each of 64 KiB to 1 MiB (a ring sends a P-th of it at a
//   time):
//     the work that a message costs is then small beside its time on the wire, one segment's adding is hidden by the
//     next one's sending, and what is urgent waits for little;
//   - a bucket is of sqrt(n T0 / beta') bytes, where an all-reduce of b bytes takes T0 + b beta' (T0: the rounds'
//   alphas):
//     n / b starts cost as much as the last bucket's bytes, which nothing hides. The least sum of the two (Shi, Chu and
//     Li, MG-WFBP: Efficient data communication for distributed synchronous SGD algorithms, INFOCOM 2019);
//   - the ring carries what is large. What is small (a bucket whose T0 counts) goes another way where that, by the
//   closed
//     forms of Route::time, is at least a tenth faster than the ring. A route that sends no more than the ring is
//     judged on busy links: each of its fewer rounds waits behind what other buckets have there. One that sends more is
//     judged on idle ones, as it would take from the others what it gains. small_bytes is the largest power of two for
//     which one is faster, small_route the one that gains most for so many bytes.
#pragma once

#include <string>

#include "ripieno/collective/communicator.h"

namespace ripieno::collective {

/// Every member calls it, and all get the same. A group of one: LinkModel's defaults, at once.
Task<transport::LinkModel> measure_links(Communicator comm);

/// The same link where other messages are always under way: each message waits for 256 KiB of theirs (tcp_link.cpp
/// leaves 256 KiB unsent in the kernel, which has about as much on the wire).
transport::LinkModel busy(transport::LinkModel link);

struct Tuning {
  std::size_t segment_bytes = 0;     ///< ExecuteOptions::segment_bytes
  std::size_t bucket_bytes = 0;      ///< 4 KiB .. n
  std::string small_route = "ring";  ///< of what is no larger than
  std::size_t small_bytes = 0;
};

/// For `bytes` > 0 bytes that are averaged a step, in buckets.
Tuning tune(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective
