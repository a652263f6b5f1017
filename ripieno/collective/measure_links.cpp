#include "ripieno/collective/measure_links.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "ripieno/core/async.h"

namespace ripieno::collective {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::size_t first_pings = 5, more_pings = 16;
constexpr Duration patience_of_pings = milliseconds(300), patience = std::chrono::seconds(4);
constexpr std::size_t cars = 32, quarter = cars / 4;  // the messages of a train
constexpr std::size_t first_bytes = 4 << 10, most_bytes = 32 << 20;
constexpr Duration long_enough = milliseconds(40), longest_needed = milliseconds(500);
constexpr std::size_t trains_compared = 3;
constexpr double alike = 1.5;                        // quarters agree if all are within this factor
constexpr double most_mbit_s = 1e6;                  // more than any link has
constexpr Duration alike_pings = microseconds(100);  // short times that differ by less are alike

/// The links of a rank to the next and from the previous.
struct Ring {
  Communicator comm;
  std::uint32_t channel;
  int next() const { return comm.member((comm.rank() + 1) % comm.size()); }
  int previous() const { return comm.member((comm.rank() + comm.size() - 1) % comm.size()); }
  /// Not control messages: for these a slow endpoint's sender waits until they have arrived (transport/shaped.h).
  transport::Message message(std::size_t bytes) const {
    return {comm.channel(channel, observe::Purpose::setup), "measure links", DType::fp32, bytes / 4};
  }
};

Task<> send(Ring ring, std::size_t bytes) {
  const ConstBytes nothing(static_cast<const std::byte*>(nullptr), bytes);
  for (std::size_t car = 0; car < cars; ++car)
    co_await ring.comm.endpoint().send(ring.next(), ring.message(bytes), nothing);
}

Task<> receive(Ring ring, std::size_t bytes, Duration* arrived) {
  co_await ring.comm.endpoint().receive(ring.previous(), ring.message(bytes),
                                        Bytes(static_cast<std::byte*>(nullptr), bytes));
  *arrived = ring.comm.runtime().now();
}

/// The times of a train's last two quarters, and of all of it.
struct Train {
  std::size_t bytes = 0;  // of a quarter
  Duration third{0}, fourth{0}, all{0};
};

/// The same on all ranks: each time is the slowest's.
Task<Train> train(Ring ring, std::size_t bytes) {
  Runtime& runtime = ring.comm.runtime();
  const std::size_t car = bytes / cars;
  const Duration start = runtime.now();
  std::array<Duration, cars> arrived{};
  std::vector<Task<>> tasks;
  for (Duration& one : arrived) tasks.push_back(receive(ring, car, &one));
  tasks.push_back(send(ring, car));
  Task<> together = all(runtime, std::move(tasks), ring.comm.ending());
  co_await std::move(together);
  Train own{quarter * car, arrived[3 * quarter - 1] - arrived[2 * quarter - 1],
            arrived[cars - 1] - arrived[3 * quarter - 1], runtime.now() - start};
  const std::vector<Train> trains = co_await ring.comm.all_gather(own);
  for (const Train& one : trains) {
    own.third = std::max(own.third, one.third);
    own.fourth = std::max(own.fourth, one.fourth);
    own.all = std::max(own.all, one.all);
  }
  co_return own;
}

/// Adds the times of messages of 4 bytes: of each, the mean over the ranks.
template <std::size_t count>
Task<> add_pings(Ring ring, std::vector<Duration>* times) {
  std::array<Duration, count> own;
  for (Duration& one : own) {
    const Duration start = ring.comm.runtime().now();
    const transport::Outgoing out{ring.next(), ring.message(4), ConstBytes(static_cast<const std::byte*>(nullptr), 4)};
    const transport::Incoming in{ring.previous(), ring.message(4), Bytes(static_cast<std::byte*>(nullptr), 4)};
    Task<> together = ring.comm.endpoint().exchange(out, in, ring.comm.ending());
    co_await std::move(together);
    one = ring.comm.runtime().now() - start;
  }
  const auto all = co_await ring.comm.all_gather(own);
  for (std::size_t i = 0; i < count; ++i) {
    Duration sum{0};
    for (const auto& of_rank : all) sum += of_rank[i];
    times->push_back(sum / static_cast<std::int64_t>(all.size()));
  }
}

std::string shown(Duration time) { return text(std::llround(seconds(time) * 1e6), " us"); }
double mbit_s(double seconds_a_byte) { return 8e-6 / std::max(seconds_a_byte, 1e-18); }
/// With three significant digits.
std::string shown(double rate) {
  if (rate > most_mbit_s) return "more than any link has";
  const double unit = std::pow(10.0, std::floor(std::log10(rate)) - 2);
  return text(std::round(rate / unit) * unit, " Mb/s");
}

void add(std::string* doubt, const std::string& more) { *doubt += (doubt->empty() ? "" : "; ") + more; }

Task<> measure_latency(Ring ring, MeasuredLinks* found) {
  std::vector<Duration> times;
  co_await add_pings<first_pings>(ring, &times);
  const Duration taken = std::accumulate(times.begin(), times.end(), Duration(0));
  if (taken * static_cast<std::int64_t>(more_pings / first_pings) < patience_of_pings)
    co_await add_pings<more_pings>(ring, &times);
  std::sort(times.begin(), times.end());
  found->link.latency = times[times.size() / 2];
  const Duration low = times[times.size() / 4], high = times[3 * times.size() / 4];
  if (high <= 2 * low || high - low <= alike_pings) co_return;
  add(&found->doubt, text("short messages take from ", shown(low), " to ", shown(high),
                          ": not sure of the latency; takes ", shown(found->link.latency), ", the median"));
}

/// Seconds a byte of the quarters of the last trains, the fastest first.
std::vector<double> quarters_of(const std::vector<Train>& trains) {
  std::vector<double> all;
  for (std::size_t i = trains.size() - std::min(trains.size(), trains_compared); i < trains.size(); ++i) {
    for (const Duration time : {trains[i].third, trains[i].fourth})
      all.push_back(seconds(time) / static_cast<double>(trains[i].bytes));
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool agree(const std::vector<double>& sorted) { return sorted.back() <= alike * sorted.front(); }

/// Whether so many trains of full length say enough. Those of a second try replace the first three: the first may have
/// met a token bucket's burst or TCP's slow start. There is no third, or a calm while would be found in any storm.
bool suffice(const std::vector<Train>& trains) {
  return trains.size() == 2 * trains_compared || (trains.size() == trains_compared && agree(quarters_of(trains)));
}

Task<> measure_rate(Ring ring, MeasuredLinks* found) {
  const Duration enough = std::clamp(2 * found->link.latency, long_enough, longest_needed);
  std::vector<Train> trains;  // of full length
  Duration taken{0};
  std::size_t bytes = first_bytes;
  while (!suffice(trains)) {
    const Train one = co_await train(ring, bytes);
    taken += one.all;
    const double needed = seconds(enough) / std::max(1e-9, seconds(one.third + one.fourth));
    const bool is_short = trains.empty() && needed > 1 && bytes < most_bytes;
    if (!is_short || taken > patience) trains.push_back(one);
    if (taken > patience) break;
    if (is_short)
      bytes = std::min(most_bytes, bytes * static_cast<std::size_t>(std::clamp(std::ceil(1.2 * needed), 2.0, 8.0)));
  }
  const std::vector<double> quarters = quarters_of(trains);
  double per_byte = (quarters[(quarters.size() - 1) / 2] + quarters[quarters.size() / 2]) / 2;
  const std::string size = text(" in trains of ", bytes >> 10, " KiB");
  if (mbit_s(per_byte) > most_mbit_s) {
    per_byte = seconds(transport::LinkModel{}.per_byte);
    add(&found->doubt, text("the rate was ", shown(mbit_s(quarters.front())), size, ": not believed; takes ",
                            shown(mbit_s(per_byte))));
  } else if (!agree(quarters)) {
    per_byte = quarters.back();
    add(&found->doubt, text("the rate was ", shown(mbit_s(quarters.back())), " to ", shown(mbit_s(quarters.front())),
                            size, ": not sure of it; takes the slowest"));
  } else if (trains.size() < trains_compared) {
    add(&found->doubt, text("there was no time for more than ", trains.size(), " of ", trains_compared, " measurements",
                            size, ": not sure of the rate; takes ", shown(mbit_s(per_byte))));
  }
  found->link.per_byte = std::max(Duration(1), from_seconds(per_byte));
}

}  // namespace

Task<MeasuredLinks> measure_links(Communicator comm) {
  MeasuredLinks found;
  if (comm.size() == 1) co_return found;
  const Ring ring{comm, comm.take_channels()};
  co_await measure_latency(ring, &found);
  co_await measure_rate(ring, &found);
  co_return found;
}

}  // namespace ripieno::collective
