// The measurements of `ripieno bench`: operations along routes, with buffers of several sizes (bench_command.cpp reads
// the command line and prints). Sizes, bandwidths and the check of results are those of nccl-tests (doc/PERFORMANCE.md
// and src/*.cu there, at commit a0b82b2), in place.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ripieno/collective/schedule.h"
#include "ripieno/core/span.h"
#include "ripieno/launch/placement.h"

namespace ripieno::program {

struct BenchArguments {
  std::string operation = "all-reduce";  ///< see find_operations()
  std::string begin = "4K", end = "128M";
  double factor = 2;
  int ranks = 2, root = 0, iterations = 20, warmup = 3;
  std::vector<std::string> routes{"auto"};
  std::string type = "fp32", reduction = "sum", wire = "auto";
  std::int64_t segment_kb = -1;  ///< -1: see segment_bytes() in bench.cpp
  std::size_t drain = 0;         ///< bytes
  std::string transport = "tcp";

  /// All of the above except `ranks`, as words of the command line.
  std::vector<std::string> words() const;
};

/// Throw Error(usage), which lists the known names, for an unknown name.
DType find_type(const std::string& name);
collective::Reduction find_reduction(const std::string& name);

/// The type on the wire. Throws Error(usage) for a format that cannot carry the type.
DType wire_of(const BenchArguments& arguments);

/// One row of the table.
struct BenchRow {
  transport::Collective operation = transport::Collective::all_reduce;
  std::string route;         ///< "auto" until measured
  std::size_t elements = 0;  ///< of a rank's buffer
  DType type = DType::fp32;
  int ranks = 1;
  std::vector<double> times_us = {};  ///< of each iteration, the mean over ranks
  std::uint64_t wrong = 0;            ///< elements, on all ranks

  std::size_t bytes() const { return elements * size_of(type); }
  /// The elements that nccl-tests counts: those of one rank's part if the operation moves such parts, else all.
  std::size_t count() const;
  double algbw() const;  ///< GB/s
  double busbw() const;  ///< GB/s: algbw times the bytes that must cross a rank's link per byte, whatever the route
};

/// All rows to measure, in order. Throws Error(usage) if there is no such operation, route or size.
std::vector<BenchRow> rows_of(const BenchArguments& arguments, int ranks);

/// One rank of the benchmark: joins the others and measures all rows. Rank 0 calls `tell` with each; `way` says how it
/// reaches the others.
void run_bench_rank(const BenchArguments& arguments, const launch::Placement& place,
                    const std::function<void(const BenchRow& row, const std::string& way)>& tell);

}  // namespace ripieno::program
