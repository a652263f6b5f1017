#include "ripieno/collective/tune.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ripieno/collective/execute.h"

namespace ripieno::collective {
namespace {

constexpr int pings = 21;
constexpr std::size_t first_bytes = 64 << 10, most_bytes = 16 << 20;
constexpr Duration long_enough = std::chrono::milliseconds(20);
constexpr Duration message_time = std::chrono::milliseconds(2);
constexpr std::size_t in_the_way = 256 << 10;
constexpr std::size_t least_message = 64 << 10, most_message = 1 << 20, least_bucket = 4 << 10;

/// Sends bytes to the next rank and receives as many from the previous one, without storing them. Returns the mean time
/// over the ranks.
Task<Duration> shift(Communicator comm, std::uint32_t channel, std::size_t bytes) {
  const int next = comm.member((comm.rank() + 1) % comm.size());
  const int previous = comm.member((comm.rank() + comm.size() - 1) % comm.size());
  const transport::Message message{comm.channel(channel, observe::Purpose::control), "measure links", DType::fp32,
                                   bytes / 4};
  const transport::Outgoing out{next, message, ConstBytes(static_cast<const std::byte*>(nullptr), bytes)};
  const transport::Incoming in{previous, message, Bytes(static_cast<std::byte*>(nullptr), bytes)};
  const Duration start = comm.runtime().now();
  Task<> together = comm.endpoint().exchange(out, in, comm.ending());
  co_await std::move(together);
  const std::int64_t took = (comm.runtime().now() - start).count();
  const std::int64_t mean = co_await comm.all_reduce(took, Reduction::mean);
  co_return Duration(mean);
}

/// As a part of the time that the ring takes.
double share_of_ring(const Route& route, World world, std::uint64_t bytes, transport::LinkModel link) {
  const Route& ring = find_route("ring");
  const transport::LinkModel bytes_alone{Duration{0}, link.per_byte};
  const bool sends_no_more = route.time(world, bytes, bytes_alone) <= ring.time(world, bytes, bytes_alone);
  const transport::LinkModel judged = sends_no_more ? busy(link) : link;
  return seconds(route.time(world, bytes, judged)) / seconds(ring.time(world, bytes, judged));
}

}  // namespace

Task<transport::LinkModel> measure_links(Communicator comm) {
  transport::LinkModel link;
  if (comm.size() == 1) co_return link;
  const std::uint32_t channel = comm.take_channels();
  std::vector<Duration> times;  // 1
  for (int i = 0; i < pings; ++i) {
    const Duration took = co_await shift(comm, channel, 4);
    times.push_back(took);
  }
  std::nth_element(times.begin(), times.begin() + pings / 2, times.end());
  link.latency = times[pings / 2];
  Duration took{0};  // 2
  for (std::size_t bytes = first_bytes; took < long_enough && bytes <= most_bytes; bytes *= 2) {
    took = co_await shift(comm, channel, bytes);
    link.per_byte = std::max(Duration(1), (took - link.latency) / static_cast<std::int64_t>(bytes));
  }
  co_return link;
}

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
