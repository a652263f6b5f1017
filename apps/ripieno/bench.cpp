#include "apps/ripieno/bench.h"

#include <algorithm>
#include <array>
#include <set>

#include "apps/ripieno/bench_numbers.h"
#include "apps/ripieno/operations.h"
#include "ripieno/codec/wire.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/native.h"
#include "ripieno/collective/two_phase.h"
#include "ripieno/core/async.h"
#include "ripieno/core/edit_distance.h"
#include "ripieno/core/hash.h"
#include "ripieno/launch/join.h"
#include "ripieno/membership/clocks.h"
#include "ripieno/report/statistics.h"
#include "ripieno/strategy/registry.h"

namespace ripieno::program {
namespace {

constexpr std::size_t aligned_bytes = 16;  // nccl-tests: parts of a buffer are multiples of so many bytes

/// Whether each rank has a part of the buffer; nccl-tests then counts such parts.
bool has_parts(transport::Collective operation) {
  return operation != transport::Collective::all_reduce && operation != transport::Collective::broadcast &&
         operation != transport::Collective::reduce;
}

/// "4K", "128M", "1G", "512": powers of 1024, as nccl-tests reads them.
std::size_t parse_size(const std::string& given) {
  std::size_t end = 0;
  double value = -1;
  try {
    value = std::stod(given, &end);
  } catch (const std::exception&) {
  }
  const std::string unit = given.substr(std::min(end, given.size()));
  const double scale = unit.empty()                 ? 1
                       : unit == "K" || unit == "k" ? 0x1p10
                       : unit == "M" || unit == "m" ? 0x1p20
                       : unit == "G" || unit == "g" ? 0x1p30
                                                    : 0;
  if (!(value * scale >= 4) || value * scale > 0x1p36) {
    fail(ErrorKind::usage, "\"", given, "\" is no size from 4 to 64G; write it as 512, 4K, 128M or 1G");
  }
  return static_cast<std::size_t>(value * scale);
}

std::vector<std::size_t> sizes(const BenchArguments& arguments) {
  const std::size_t begin = parse_size(arguments.begin), end = parse_size(arguments.end);
  if (begin > end) fail(ErrorKind::usage, "-b ", arguments.begin, " is more than -e ", arguments.end);
  std::vector<std::size_t> all;
  for (double size = static_cast<double>(begin); size <= static_cast<double>(end); size *= arguments.factor) {
    all.push_back(static_cast<std::size_t>(size));
  }
  return all;
}

/// Elements of a buffer of up to so many bytes.
std::size_t elements_of(transport::Collective operation, std::size_t bytes, DType type, int ranks) {
  const std::size_t count = bytes / size_of(type);
  if (!has_parts(operation)) return count;
  const std::size_t parts = static_cast<std::size_t>(ranks), unit = aligned_bytes / size_of(type);
  return count / parts / unit * unit * parts;
}

/// The requested routes that the operation has.
std::vector<std::string> routes_of(transport::Collective operation, const std::vector<std::string>& asked) {
  std::vector<std::string> names;
  for (const std::string& one : asked) {
    if (one == "all") {
      for (const collective::Route& route : collective::routes(operation)) names.emplace_back(route.name);
    } else {
      names.emplace_back(one == "auto" ? one : std::string(find_route_of(operation, one).name));
    }
  }
  return names;
}

/// The route for auto: the one that a strategy would take, or the operation's default.
const collective::Route& chosen_route(transport::Collective operation, const std::string& name,
                                      const collective::Communicator& comm) {
  if (operation != transport::Collective::all_reduce) {
    return name == "auto" ? collective::default_route(operation) : collective::find_route(name, operation);
  }
  strategy::Plan plan;
  plan.exchange.route = name;
  return collective::find_route(strategy::settled(strategy::find_strategy("ddp"), plan, comm).exchange.route);
}

/// Sends bytes to the next rank and receives as many from the previous one, to use up the links' burst, so that later
/// messages flow at the links' rate.
Task<> drain(collective::Communicator comm, std::uint32_t channel, std::vector<std::byte>* out,
             std::vector<std::byte>* in) {
  const transport::Message message{comm.channel(channel, observe::Purpose::control), "drain", DType::fp32,
                                   out->size() / 4};
  const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  const transport::Outgoing sent{next, message, ConstBytes(*out)};
  const transport::Incoming received{previous, message, Bytes(*in)};
  Task<> together = comm.endpoint().exchange(sent, received, comm.ending());
  co_await std::move(together);
}

/// By default three segments, so that one's messages are in flight while another's are added; of 32 to 256 KiB for each
/// rank.
std::size_t segment_bytes(const BenchArguments& arguments, std::size_t bytes, std::size_t ranks) {
  if (arguments.segment_kb >= 0) return static_cast<std::size_t>(arguments.segment_kb) << 10;
  return std::clamp(bytes / 3, (32 << 10) * ranks, (256 << 10) * ranks);
}

/// Waits for a moment that is the same on all ranks and, as a rule, still to come when all have heard of it; a rank
/// that hears of it later begins late, which counts. `ahead`: see ClockOffset.
Task<Duration> agreed_start(collective::Communicator comm, Duration ahead) {
  const Duration here = comm.runtime().now() + ahead;
  const std::int64_t last = co_await comm.all_reduce<std::int64_t>(here.count(), collective::Reduction::maximum);
  const Duration start = Duration(last) + from_seconds(1e-4) - ahead;
  while (comm.runtime().now() < start) continue;
  co_return start;
}

Task<> measure(const BenchArguments* arguments, collective::Communicator comm, BenchRow* row) {
  const collective::Route &route = chosen_route(row->operation, row->route, comm),
                          &quickest = collective::native::is(route)
                                          ? collective::native::route()
                                          : chosen_route(transport::Collective::all_reduce, "auto", comm);
  row->route = route.name;
  collective::ExecuteOptions options{wire_of(*arguments)};
  const bool cuts_by_itself = route.name == collective::two_phase::name || collective::native::is(route);
  options.segment_bytes =
      cuts_by_itself ? 0 : segment_bytes(*arguments, row->bytes(), static_cast<std::size_t>(comm.size()));
  options.reduction = find_reduction(arguments->reduction);
  options.root = arguments->root;
  const collective::ExecuteOptions control{DType::fp64, observe::Purpose::control};
  const BenchNumbers numbers(row->operation, options.reduction, collective::World(comm.size(), 1, options.root));
  const auto memory = comm.endpoint().memory(row->bytes());  // as for a strategy's gradients
  const NumberSpan buffer(memory.get(), row->elements, row->type);
  std::vector<std::byte> out(arguments->drain / 4 * 4), in(out.size());
  // With a root, ranks end at different times without waiting for others: a rank that began late would seem fast.
  const bool is_one_way = collective::has_root(row->operation) && comm.size() > 1;
  const std::uint32_t clocks = comm.take_channels(), drains = comm.take_channels();
  membership::ClockOffset clock;
  if (is_one_way)
    clock = co_await membership::clock_offset(comm.shared_endpoint(), comm.channel(clocks, observe::Purpose::setup));
  for (int i = -arguments->warmup; i < arguments->iterations; ++i) {
    numbers.fill(buffer, comm.rank());
    double together = 0;  // the fastest barrier, so that all begin at about the same time
    co_await collective::all_reduce(quickest, comm, NumberSpan(&together, 1, DType::fp64), control);
    if (!out.empty() && comm.size() > 1) co_await drain(comm, drains, &out, &in);
    Duration start = comm.runtime().now();
    if (is_one_way) start = co_await agreed_start(comm, clock.ahead);
    co_await collective::run_collective(route, comm, buffer, options);
    const double mine = seconds(comm.runtime().now() - start) * 1e6;
    const double sum = co_await comm.all_reduce(mine);
    if (i >= 0) row->times_us.push_back(sum / comm.size());  // nccl-tests' default: the mean over ranks
  }
  const auto wrong = static_cast<std::int64_t>(numbers.count_wrong(buffer, comm.rank()));
  row->wrong = static_cast<std::uint64_t>(co_await comm.all_reduce(wrong));
}

/// How rank 0 reaches the others.
std::string way(const transport::Endpoint& endpoint) {
  std::set<std::string> ways;
  for (int peer = 0; peer < endpoint.size(); ++peer) {
    if (peer != endpoint.rank()) ways.insert(endpoint.way(peer));
  }
  std::string all;
  for (const std::string& one : ways) all += (all.empty() ? "" : ", ") + one;
  return all.empty() ? "alone" : all;
}

}  // namespace

std::vector<std::string> BenchArguments::words() const {
  const std::pair<const char*, std::string> options[] = {{"--operation", operation},
                                                         {"-b", begin},
                                                         {"-e", end},
                                                         {"-f", text(factor)},
                                                         {"-i", text(iterations)},
                                                         {"-w", text(warmup)},
                                                         {"--root", text(root)},
                                                         {"--type", type},
                                                         {"--reduction", reduction},
                                                         {"--wire", wire},
                                                         {"--segment-kb", text(segment_kb)},
                                                         {"--drain", text(drain)},
                                                         {"--transport", transport}};
  std::vector<std::string> all;
  for (const auto& [option, value] : options) all.insert(all.end(), {option, value});
  for (const std::string& route : routes) all.insert(all.end(), {"--route", route});
  return all;
}

DType find_type(const std::string& name) {
  return find_named(
      std::array{DType::fp32, DType::fp64, DType::fp16, DType::bf16, DType::int64, DType::int32, DType::uint8}, name,
      "type");
}

collective::Reduction find_reduction(const std::string& name) {
  return find_named(std::array{collective::Reduction::sum, collective::Reduction::mean, collective::Reduction::product,
                               collective::Reduction::minimum, collective::Reduction::maximum},
                    name, "reduction");
}

DType wire_of(const BenchArguments& arguments) {
  const DType type = find_type(arguments.type), wire = codec::find_wire_format(arguments.wire).type(type);
  if (wire == type || (is_float(type) && size_of(wire) < size_of(type))) return wire;
  fail(ErrorKind::usage, "--wire ", arguments.wire, " with --type ", arguments.type,
       is_float(type) ? ": numbers travel as they are, or narrower; leave --wire out"
                      : ": whole numbers travel as they are; leave --wire out");
}

std::size_t BenchRow::count() const {
  return has_parts(operation) ? elements / static_cast<std::size_t>(ranks) : elements;
}

double BenchRow::algbw() const { return static_cast<double>(bytes()) / report::mean(times_us) / 1e3; }

double BenchRow::busbw() const {
  if (operation == transport::Collective::broadcast || operation == transport::Collective::reduce) return algbw();
  return algbw() * (operation == transport::Collective::all_reduce ? 2 : 1) * (ranks - 1) / ranks;
}

std::vector<BenchRow> rows_of(const BenchArguments& arguments, int ranks) {
  const DType type = find_type(arguments.type);
  std::vector<BenchRow> rows;
  for (const transport::Collective operation : find_operations(arguments.operation)) {
    for (const std::string& route : routes_of(operation, arguments.routes)) {
      for (const std::size_t size : sizes(arguments)) {
        const std::size_t elements = elements_of(operation, size, type, ranks);
        if (elements == 0) {
          fail(ErrorKind::usage, "-b ", arguments.begin, " is too small for ", transport::name(operation), " of ",
               arguments.type,
               has_parts(operation) ? text(": each of ", ranks, " ranks has ", aligned_bytes,
                                           " bytes at least; take -b ", ranks * static_cast<int>(aligned_bytes))
                                    : text(": a number has ", size_of(type), " bytes; take -b ", size_of(type)));
        }
        rows.push_back({operation, route, elements, type, ranks});
      }
    }
  }
  return rows;
}

void run_bench_rank(const BenchArguments& arguments, const launch::Placement& place,
                    const std::function<void(const BenchRow& row, const std::string& way)>& tell) {
  launch::JoinOptions options;
  options.transport = arguments.transport;
  std::string asked;
  for (const std::string& word : arguments.words()) asked += word + '\n';
  options.digest = hash(asked);
  transport::Cluster cluster = launch::join(place, options);
  const collective::Communicator comm(cluster.endpoint);
  for (BenchRow& row : rows_of(arguments, comm.size())) {
    cluster.runtime->spawn("benchmark", measure(&arguments, comm, &row));
    cluster.runtime->run();
    if (comm.rank() == 0) tell(row, way(*cluster.endpoint));
  }
}

}  // namespace ripieno::program
