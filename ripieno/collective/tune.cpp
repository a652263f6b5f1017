#include "ripieno/collective/tune.h"

#include <algorithm>
#include <cmath>

namespace ripieno::collective {
namespace {

constexpr Duration message_time = std::chrono::milliseconds(2);
constexpr std::size_t in_the_way = 256 << 10;
constexpr std::size_t least_message = 64 << 10, most_message = 1 << 20, least_bucket = 4 << 10;

/// As a part of the time that the ring takes.
double share_of_ring(const Route& route, World world, std::uint64_t bytes, transport::LinkModel link) {
  const Route& ring = find_route("ring");
  const transport::LinkModel bytes_alone{Duration{0}, link.per_byte};
  const bool sends_no_more = route.time(world, bytes, bytes_alone) <= ring.time(world, bytes, bytes_alone);
  const transport::LinkModel judged = sends_no_more ? busy(link) : link;
  return seconds(route.time(world, bytes, judged)) / seconds(ring.time(world, bytes, judged));
}

}  // namespace

transport::LinkModel busy(transport::LinkModel link) {
  link.latency += link.per_byte * static_cast<std::int64_t>(in_the_way);
  return link;
}

Tuning tune(World world, std::uint64_t bytes, transport::LinkModel link) {
  require(bytes > 0, "nothing is averaged: there is nothing to tune");
  Tuning tuning;
  const double beta = seconds(std::max(Duration(1), link.per_byte));
  const auto message =
      std::clamp(static_cast<std::size_t>(std::llround(seconds(message_time) / beta)), least_message, most_message);
  tuning.segment_bytes = message * static_cast<std::size_t>(world.ranks);

  const Route& ring = find_route("ring");
  const double start = seconds(ring.time(world, 0, link));
  const double per_byte = 2.0 * (world.ranks - 1) / world.ranks * beta;
  const double bucket =
      world.ranks == 1 ? static_cast<double>(bytes) : std::sqrt(static_cast<double>(bytes) * start / per_byte);
  const auto least = std::min<std::uint64_t>(least_bucket, bytes);
  tuning.bucket_bytes = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(std::min(bucket, 1e18)), least, bytes);

  for (std::uint64_t size = 1; size <= bytes && world.ranks > 1; size *= 2) {
    double best = 0.9;
    for (const Route& route : routes()) {
      const double share = route.looks_at_nodes ? 1 : share_of_ring(route, world, size, link);
      if (share >= best) continue;
      best = share;
      tuning.small_route = route.name;
      tuning.small_bytes = size;
    }
    if (tuning.small_bytes != size) break;
  }
  return tuning;
}

}  // namespace ripieno::collective
