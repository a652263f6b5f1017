// Explains a route for `ripieno explain`: its schedule, rounds, bytes and time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ripieno/collective/check.h"
#include "ripieno/collective/schedule.h"

namespace ripieno::program {

/// The links for which times are given, as on the command line.
struct AskedLinks {
  double latency_us = 50, mbit_s = 1000;
  transport::LinkModel model() const { return {from_seconds(latency_us * 1e-6), from_seconds(8e-6 / mbit_s)}; }
};

/// A route in a world, checked, with its costs.
struct WalkedRoute {
  const collective::Route& route;
  collective::World world;
  std::size_t elements;
  std::string wire;    ///< the format of the numbers
  std::size_t number;  ///< bytes of one of them
  AskedLinks links;
  std::vector<collective::ScheduleCost> costs;  ///< of each rank
  std::uint64_t total = 0, most = 0;            ///< bytes sent by all together, and by the busiest
  int rounds = 0;
  double seconds = 0;

  double buffer() const { return static_cast<double>(elements * number); }
};

/// Throws Error(usage) for an unknown wire format.
WalkedRoute walk_route(const collective::Route& route, collective::World world, std::size_t elements,
                       const std::string& wire, const AskedLinks& links);

/// "1,724,320 numbers in fp32 (6.90 MB) on 6 ranks, 2 a node"
std::string buffer_of(const WalkedRoute& walked);

/// Total costs: names and values.
std::vector<std::pair<std::string, std::string>> totals_of(const WalkedRoute& walked);

std::string route_text(const WalkedRoute& walked);
std::string route_json(const WalkedRoute& walked);

}  // namespace ripieno::program
