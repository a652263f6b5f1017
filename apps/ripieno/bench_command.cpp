#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/suggest.h"
#include "apps/ripieno/worker.h"
#include "ripieno/codec/wire.h"
#include "ripieno/collective/execute.h"
#include "ripieno/collective/two_phase.h"
#include "ripieno/core/async.h"
#include "ripieno/core/kernels.h"
#include "ripieno/launch/join.h"
#include "ripieno/launch/local.h"
#include "ripieno/report/format.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/table.h"
#include "ripieno/strategy/registry.h"

// The columns, units and correctness check are those of nccl-tests (doc/PERFORMANCE.md there): algbw = bytes / time,
// busbw = algbw * 2(P-1)/P, #wrong = elements that differ from the expected sum. The spread is over the iterations.

namespace ripieno {
namespace {

struct BenchArguments {
  std::string operation;
  std::string begin = "4K", end = "128M";
  double factor = 2;
  int ranks = 2, iterations = 20, warmup = 3;
  std::vector<std::string> routes{"auto"};
  std::string wire = "fp32";
  std::int64_t segment_kb = -1;  // see segment_bytes()
  std::size_t drain = 0;  // bytes
};

/// "4K", "128M", "1G", "512": powers of 1024, as nccl-tests reads them.
std::size_t parse_size(const std::string& given) {
  std::size_t end = 0;
  double value = -1;
  try {
    value = std::stod(given, &end);
  } catch (const std::exception&) {
  }
  const std::string unit = given.substr(std::min(end, given.size()));
  const double scale = unit.empty() ? 1 : unit == "K" || unit == "k" ? 0x1p10 : unit == "M" || unit == "m" ? 0x1p20 : unit == "G" || unit == "g" ? 0x1p30 : 0;
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
    all.push_back(static_cast<std::size_t>(size) / 4 * 4);
  }
  return all;
}

/// What rank r holds in element i: 1 at every fourth rank, so that the sums over up to 512 ranks are exact in every wire format.
float element(int rank, std::size_t i) { return (static_cast<std::size_t>(rank) * 7 + i) % 4 == 0 ? 1 : 0; }

struct Row {
  std::string route;
  std::size_t bytes = 0;
  int ranks = 0;
  std::vector<double> times_us;
  std::uint64_t wrong = 0;

  double algbw() const { return static_cast<double>(bytes) / mean(times_us) / 1e3; }
  double busbw() const { return algbw() * 2 * (ranks - 1) / ranks; }

  nlohmann::ordered_json json() const {
    return {{"bytes", bytes},       {"elements", bytes / 4},  {"route", route}, {"ranks", ranks}, {"time_us", mean(times_us)},
            {"algbw", algbw()},     {"busbw", busbw()},       {"wrong", wrong},
            {"min_us", *std::min_element(times_us.begin(), times_us.end())},
            {"max_us", *std::max_element(times_us.begin(), times_us.end())}};
  }
};

/// What a strategy would take.
const Route& chosen_route(const std::string& name, const Communicator& comm) {
  Plan plan;
  plan.exchange.route = name;
  return find_route(settled(find_strategy("ddp"), plan, comm).exchange.route);
}

/// Bytes to the next rank and from the one before, so that a link's burst is spent and what follows flows at its rate.
Task<> drain(Communicator comm, std::vector<std::byte>* out, std::vector<std::byte>* in) {
  const Message message{{Purpose::control, 1}, "drain", DType::fp32, out->size() / 4};
  const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  Endpoint* endpoint = &comm.endpoint();
  Task<> sending = endpoint->send(next, message, ConstBytes(*out));
  Task<> receiving = endpoint->receive(previous, message, Bytes(*in));
  Task<> together = both(comm.runtime(), std::move(sending), std::move(receiving), comm.ending());
  co_await std::move(together);
}

/// Where none is asked for, three, so that one's messages are on their way while another's are added; of 32 to 256 KiB for each rank.
std::size_t segment_bytes(const BenchArguments& arguments, std::size_t bytes, std::size_t ranks) {
  if (arguments.segment_kb >= 0) return static_cast<std::size_t>(arguments.segment_kb) << 10;
  return std::clamp(bytes / 3, (32 << 10) * ranks, (256 << 10) * ranks);
}

Task<> measure(const BenchArguments* arguments, Communicator comm, Row* row) {
  const Route &route = chosen_route(row->route, comm), &quickest = chosen_route("auto", comm);
  row->route = route.name;
  ExecuteOptions options{find_wire_format(arguments->wire).type(DType::fp32)};
  options.segment_bytes = route.name == two_phase::name ? 0 : segment_bytes(*arguments, row->bytes, static_cast<std::size_t>(comm.size()));
  const ExecuteOptions control{DType::fp64, Purpose::control};
  const std::size_t count = row->bytes / 4;
  const auto memory = comm.endpoint().memory(row->bytes);  // as a strategy's gradients lie
  const std::span<float> buffer(reinterpret_cast<float*>(memory.get()), count);
  std::vector<std::byte> out(arguments->drain / 4 * 4), in(out.size());
  for (int i = -arguments->warmup; i < arguments->iterations; ++i) {
    for (std::size_t j = 0; j < buffer.size(); ++j) buffer[j] = element(comm.rank(), j);
    double together = 0;  // a barrier: all begin at about the same time
    co_await all_reduce(quickest, comm, NumberSpan(&together, 1, DType::fp64), control);
    if (!out.empty() && comm.size() > 1) co_await drain(comm, &out, &in);
    const Duration start = comm.runtime().now();
    co_await all_reduce(route, comm, NumberSpan(buffer), options);
    double mine = seconds(comm.runtime().now() - start) * 1e6;
    co_await all_reduce(find_route("reduce-broadcast"), comm, NumberSpan(&mine, 1, DType::fp64), control);
    if (i >= 0) row->times_us.push_back(mine / comm.size());  // nccl-tests' default: the mean over ranks
  }
  double wrong = 0;
  for (std::size_t j = 0; j < buffer.size(); ++j) {
    float expected = 0;
    for (int rank = 0; rank < comm.size(); ++rank) expected += element(rank, j);
    wrong += buffer[j] != expected;
  }
  co_await all_reduce(find_route("reduce-broadcast"), comm, NumberSpan(&wrong, 1, DType::fp64), control);
  row->wrong = static_cast<std::uint64_t>(wrong);
}

/// How rank 0 reaches the others.
std::string way(const Endpoint& endpoint) {
  std::set<std::string> ways;
  for (int peer = 0; peer < endpoint.size(); ++peer) {
    if (peer != endpoint.rank()) ways.insert(endpoint.way(peer));
  }
  std::string all;
  for (const std::string& one : ways) all += (all.empty() ? "" : ", ") + one;
  return all.empty() ? "alone" : all;
}

/// One rank of the benchmark.
void run_rank(const BenchArguments& arguments) {
  Control control(control_descriptor_of_environment());
  run_part(control, [&] {
    Cluster cluster = join();
    const Communicator comm(cluster.endpoint);
    for (const std::string& route : arguments.routes) {
      for (const std::size_t bytes : sizes(arguments)) {
        Row row{route, bytes, comm.size(), {}, 0};
        cluster.runtime->spawn("benchmark", measure(&arguments, comm, &row));
        cluster.runtime->run();
        if (comm.rank() == 0) {
          control.send({{"type", "row"}, {"route", row.route}, {"bytes", bytes}, {"way", way(*cluster.endpoint)},
                        {"times_us", row.times_us}, {"wrong", row.wrong}});
        }
      }
    }
  });
}

std::vector<std::string> own_command(const BenchArguments& arguments) {
  std::vector<std::string> command{own_program(), "bench", arguments.operation, "--rank",
                                   "-b", arguments.begin, "-e", arguments.end, "-f", text(arguments.factor),
                                   "-i", text(arguments.iterations), "-w", text(arguments.warmup),
                                   "--wire", arguments.wire, "--segment-kb", text(arguments.segment_kb), "--drain", text(arguments.drain)};
  for (const std::string& route : arguments.routes) command.insert(command.end(), {"--route", route});
  return command;
}

void run_bench(const BenchArguments& arguments, const CommandContext& context) {
  if (arguments.operation != "all-reduce") {
    fail(ErrorKind::usage, "bench cannot time \"", arguments.operation, "\"", did_you_mean(arguments.operation, {"all-reduce"}), "; it times all-reduce");
  }
  check_environment();
  sizes(arguments);  // what is wrong with them is said before anything starts
  find_wire_format(arguments.wire);
  for (const std::string& route : arguments.routes) {
    if (route == two_phase::name && arguments.segment_kb > 0) {
      fail(ErrorKind::usage, "--segment-kb ", arguments.segment_kb, " has no effect on route ", route, ", which cuts nothing; leave it out, or take another route");
    }
  }
  if (arguments.drain > 0 && arguments.ranks == 1) fail(ErrorKind::usage, "--drain ", arguments.drain, " has no effect with -n 1, which has no next rank; leave it out, or take -n 2");

  Table table;
  table.column("size\n(B)", Align::right).column("count\n(elements)", Align::right).column("type").column("redop").column("route")
      .column("time\n(us)", Align::right).column("algbw\n(GB/s)", Align::right).column("busbw\n(GB/s)", Align::right)
      .column("#wrong", Align::right).column("min\n(us)", Align::right).column("max\n(us)", Align::right);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::string way;
  LocalJob job;
  job.workers = arguments.ranks;
  job.command = own_command(arguments);
  job.on_message = [&](int, const nlohmann::json& message) {
    if (message.value("type", "") != "row") return;
    way = message.at("way");
    const Row row{message.at("route"), message.at("bytes"), arguments.ranks, message.at("times_us"), message.at("wrong")};
    rows.push_back(row.json());
    const auto& json = rows.back();
    const auto us = [](double t) { return format_fixed(t, t < 100 ? 2 : t < 1000 ? 1 : 0); };
    table.row({text(row.bytes), text(row.bytes / 4), "float", "sum", row.route, us(json.at("time_us")), format_fixed(row.algbw(), 2),
               format_fixed(row.busbw(), 2), text(row.wrong), us(json.at("min_us")), us(json.at("max_us"))});
  };
  run_local(job);
  if (context.format == "json") {
    std::cout << rows.dump(2) << "\n";
  } else {
    std::cout << "# all-reduce on " << arguments.ranks << " processes, " << way << ", wire " << arguments.wire << ", " << arguments.warmup
              << " warm-up and " << arguments.iterations << " timed iterations\n" << table.str();
  }
  for (const auto& row : rows) {
    if (row.at("wrong") != 0) fail(ErrorKind::internal, "wrong sums: ", row.dump());
  }
}

}  // namespace

void add_bench(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<BenchArguments>();
  auto rank = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("bench", "Time collectives between worker processes on this machine");
  command->add_option("operation", arguments->operation, "what to time: all-reduce")->required();
  command->add_option("-b,--begin", arguments->begin, "smallest size, in bytes")->capture_default_str();
  command->add_option("-e,--end", arguments->end, "largest size")->capture_default_str();
  command->add_option("-f,--factor", arguments->factor, "from each size to the next")->check(CLI::Range(1.1, 1024.0))->capture_default_str();
  command->add_option("-n,--ranks", arguments->ranks, "worker processes")->check(CLI::Range(1, 512))->capture_default_str();
  command->add_option("-i,--iterations", arguments->iterations, "timed, of each size")->check(CLI::Range(1, 1000000))->capture_default_str();
  command->add_option("-w,--warmup", arguments->warmup, "not timed, of each size")->check(CLI::Range(0, 1000000))->capture_default_str();
  command->add_option("--route", arguments->routes, "may be given several times; auto or see ripieno list routes")->allow_extra_args(false)->capture_default_str();
  command->add_option("--wire", arguments->wire, "fp32, fp16 or bf16")->capture_default_str();
  command->add_option("--segment-kb", arguments->segment_kb, "cut buffers into segments of so many KiB; 0: never; -1: a third of them, 32 to 256 for each rank, and two-phase never")->check(CLI::Range(-1, 1048576))->capture_default_str();
  command->add_option("--drain", arguments->drain, "before each timing, send so many bytes to the next rank: where a link takes a burst, "
                      "what it does in the long run is then what is timed")->check(CLI::Range(0, 1 << 30))->capture_default_str();
  command->add_flag("--rank", *rank, "this process is one of the ranks")->group("");
  add_format(*command, context);
  command->callback([arguments, rank, &context] {
    context.chosen = [arguments, rank, &context] { *rank ? run_rank(*arguments) : run_bench(*arguments, context); };
  });
}

}  // namespace ripieno
