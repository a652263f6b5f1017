// Chooses segments, buckets and routes of an exchange to suit the links, which measure_links.h measures: a pure
// function of the alpha-beta model (a message of b bytes takes alpha + b beta).
//
// For n bytes of gradients:
//   - a segment is P messages, each of as much as a link carries in 2 ms but 64 KiB to 1 MiB (a ring sends a P-th of a
//   segment at a time). The work for a message is then small beside its time on the wire, sending one segment hides
//   adding the one before, and urgent messages wait only briefly;
//   - a bucket has sqrt(n T0 / beta') bytes, where an all-reduce of b bytes takes T0 + b beta' (T0: the rounds'
//     alphas). The n / b starts then cost as much as the last bucket's bytes, which nothing hides, and the sum of the
//     two is least (Shi, Chu and Li, MG-WFBP: Efficient data communication for distributed synchronous SGD algorithms,
//     INFOCOM 2019);
//   - the ring carries large buckets. A small bucket (one whose T0 counts) takes another route if that is at least a
//     tenth faster than the ring, by the closed forms of Route::time. A route that sends no more than the ring is timed
//     on busy links, where each of its fewer rounds waits behind other buckets' messages. A route that sends more is
//     timed on idle links, since it would take from other buckets what it gains. small_bytes is the largest power of
//     two for which a route is faster, small_route the route that gains most at that size.
#pragma once

#include <string>

#include "ripieno/collective/schedule.h"
#include "ripieno/transport/link_model.h"

namespace ripieno::collective {

/// The same link while other messages are always in flight: each message waits for 256 KiB of theirs (tcp/link.cpp
/// leaves 256 KiB unsent in the kernel, which has about as much on the wire).
transport::LinkModel busy(transport::LinkModel link);

struct Tuning {
  std::size_t segment_bytes = 0;     ///< ExecuteOptions::segment_bytes
  std::size_t bucket_bytes = 0;      ///< 4 KiB .. n
  std::string small_route = "ring";  ///< the route of buckets of up to small_bytes
  std::size_t small_bytes = 0;
};

/// For `bytes` > 0 bytes averaged a step, in buckets.
Tuning tune(World world, std::uint64_t bytes, transport::LinkModel link);

}  // namespace ripieno::collective
