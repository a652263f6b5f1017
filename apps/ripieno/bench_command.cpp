#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ripieno/bench.h"
#include "apps/ripieno/commands.h"
#include "apps/ripieno/launched.h"
#include "apps/ripieno/operations.h"
#include "apps/ripieno/worker.h"
#include "ripieno/collective/native.h"
#include "ripieno/collective/two_phase.h"
#include "ripieno/launch/local.h"
#include "ripieno/launch/placement.h"
#include "ripieno/report/format.h"
#include "ripieno/report/statistics.h"
#include "ripieno/report/table.h"
#include "ripieno/transport/transports.h"

// The columns and units are those of nccl-tests, with the route and the spread over the iterations.

namespace ripieno::program {
namespace {

using Json = nlohmann::ordered_json;

/// Options of the command line besides BenchArguments.
struct GivenOptions {
  bool is_rank = false;  ///< this process is one of the ranks that this command started
  bool ranks = false, root = false, reduction = false;
};

Json json_of(const BenchRow& row, const BenchArguments& arguments) {
  return {{"operation", transport::name(row.operation)},
          {"bytes", row.bytes()},
          {"elements", row.elements},
          {"count", row.count()},
          {"type", arguments.type},
          {"reduction", collective::reduces(row.operation) ? Json(arguments.reduction) : Json()},
          {"root", collective::has_root(row.operation) ? Json(arguments.root) : Json()},
          {"route", row.route},
          {"ranks", row.ranks},
          {"time_us", report::mean(row.times_us)},
          {"algbw", row.algbw()},
          {"busbw", row.busbw()},
          {"wrong", row.wrong},
          {"min_us", *std::min_element(row.times_us.begin(), row.times_us.end())},
          {"max_us", *std::max_element(row.times_us.begin(), row.times_us.end())}};
}

std::vector<std::string> own_command(const BenchArguments& arguments) {
  std::vector<std::string> command{launch::own_program(), "bench", "--rank"};
  const std::vector<std::string> words = arguments.words();
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

/// Checks the arguments before anything starts.
void check_arguments(const BenchArguments& arguments, const GivenOptions& given) {
  const std::vector<transport::Collective> operations = find_operations(arguments.operation);
  const auto any = [&](auto is_it) { return std::any_of(operations.begin(), operations.end(), is_it); };
  find_reduction(arguments.reduction);
  wire_of(arguments);
  const bool over_mpi = transport::find_transport(arguments.transport).has_launcher;
  for (const BenchRow& row : rows_of(arguments, arguments.ranks)) {
    const bool is_native = row.route == collective::native::name;
    if ((row.route == collective::two_phase::name || is_native) && arguments.segment_kb > 0) {
      fail(ErrorKind::usage, "--segment-kb ", arguments.segment_kb, " has no effect on route ", row.route,
           ", which cuts nothing; leave it out, or take another route");
    }
    if (is_native && !over_mpi) {
      fail(ErrorKind::usage, "--route native is MPI's own operation, but the transport is ", arguments.transport,
           ": take --transport mpi, under mpirun or srun, or another route");
    }
  }
  if (given.root && !any(collective::has_root)) {
    fail(ErrorKind::usage, "--root ", arguments.root, " has no effect on ", arguments.operation,
         ": it has one on broadcast, reduce, gather and scatter; leave it out");
  }
  if (given.root) check_root(arguments.root, arguments.ranks);
  if (given.reduction && !any(collective::reduces)) {
    fail(ErrorKind::usage, "--reduction ", arguments.reduction, " has no effect on ", arguments.operation,
         ": it has one on all-reduce, reduce-scatter and reduce; leave it out");
  }
  const auto is_cut = [](transport::Collective one) {
    return one == transport::Collective::all_reduce || one == transport::Collective::broadcast ||
           one == transport::Collective::reduce;
  };
  if (arguments.segment_kb > 0 && !any(is_cut)) {
    fail(ErrorKind::usage, "--segment-kb ", arguments.segment_kb, " has no effect on ", arguments.operation,
         ": all-reduce, broadcast and reduce cut buffers; leave it out");
  }
  if (arguments.drain > 0 && arguments.ranks == 1) {
    fail(ErrorKind::usage, "--drain ", arguments.drain,
         " has no effect with -n 1, which has no next rank; leave it out, or take -n 2");
  }
}

/// nccl-tests writes "none" and -1 if there is no reduction or root.
std::string print_rows(const std::vector<BenchRow>& rows, const BenchArguments& arguments) {
  const bool is_one =
      std::all_of(rows.begin(), rows.end(), [&](const BenchRow& row) { return row.operation == rows[0].operation; });
  report::Table table;
  if (!is_one) table.column("operation");
  table.column("size\n(B)", report::Align::right)
      .column("count\n(elements)", report::Align::right)
      .column("type")
      .column("redop")
      .column("root", report::Align::right)
      .column("route")
      .column("time\n(us)", report::Align::right)
      .column("algbw\n(GB/s)", report::Align::right)
      .column("busbw\n(GB/s)", report::Align::right)
      .column("#wrong", report::Align::right)
      .column("min\n(us)", report::Align::right)
      .column("max\n(us)", report::Align::right);
  const auto us = [](double t) { return report::format_fixed(t, t < 100 ? 2 : t < 1000 ? 1 : 0); };
  for (const BenchRow& row : rows) {
    std::vector<std::string> cells{text(row.bytes()),
                                   text(row.count()),
                                   arguments.type,
                                   collective::reduces(row.operation) ? arguments.reduction : "none",
                                   collective::has_root(row.operation) ? text(arguments.root) : "-1",
                                   row.route,
                                   us(report::mean(row.times_us)),
                                   report::format_fixed(row.algbw(), 2),
                                   report::format_fixed(row.busbw(), 2),
                                   text(row.wrong),
                                   us(*std::min_element(row.times_us.begin(), row.times_us.end())),
                                   us(*std::max_element(row.times_us.begin(), row.times_us.end()))};
    if (!is_one) cells.insert(cells.begin(), transport::name(row.operation));
    table.row(cells);
  }
  return table.str();
}

void show(const std::vector<BenchRow>& rows, const std::string& way, const BenchArguments& arguments,
          const CommandContext& context) {
  if (context.format == "json") {
    Json all = Json::array();
    for (const BenchRow& row : rows) all.push_back(json_of(row, arguments));
    std::cout << all.dump(2) << "\n";
  } else {
    std::string operations;
    for (const transport::Collective one : find_operations(arguments.operation)) {
      operations += (operations.empty() ? "" : ", ") + std::string(transport::name(one));
    }
    std::cout << "# " << operations << " on " << arguments.ranks
              << (arguments.ranks == 1 ? " process, " : " processes, ") << way << ", wire " << name(wire_of(arguments))
              << ", " << arguments.warmup << " warm-up and " << arguments.iterations << " timed iterations\n"
              << print_rows(rows, arguments);
  }
  for (const BenchRow& row : rows) {
    if (row.wrong != 0) fail(ErrorKind::internal, "wrong numbers: ", json_of(row, arguments).dump());
  }
}

/// A rank that bench_alone() started, which prints.
void bench_as_part(const BenchArguments& arguments) {
  launch::Control control(launch::control_descriptor_of_environment());
  run_part(control, [&] {
    run_bench_rank(arguments, launch::placement(), [&](const BenchRow& row, const std::string& way) {
      control.deliver({{"type", "row"},
                       {"operation", transport::name(row.operation)},
                       {"route", row.route},
                       {"elements", row.elements},
                       {"way", way},
                       {"times_us", row.times_us},
                       {"wrong", row.wrong}});
    });
  });
}

/// A rank that another launcher started: rank 0 prints.
void bench_launched(BenchArguments arguments, const GivenOptions& given, const launch::Placement& place,
                    const CommandContext& context) {
  launch::Control control(place.control_fd);
  as_rank(place.rank, control, [&] {
    if (given.ranks && arguments.ranks != place.world_size) {
      fail(ErrorKind::usage, place.launcher, " has started ", place.world_size, " processes (", place.read,
           "), but -n ", arguments.ranks, " asks for another number: leave -n out");
    }
    arguments.ranks = place.world_size;
    check_arguments(arguments, given);
    std::vector<BenchRow> rows;
    std::string how;
    run_bench_rank(arguments, place, [&](const BenchRow& row, const std::string& way) {
      rows.push_back(row);
      how = way;
    });
    if (place.rank == 0) show(rows, how, arguments, context);
  });
}

/// Starts the ranks, on this machine.
void bench_alone(const BenchArguments& arguments, const GivenOptions& given, const CommandContext& context) {
  launch::check_environment();
  check_arguments(arguments, given);
  check_can_start(arguments.ranks, arguments.transport, "--transport " + arguments.transport, "without -n");
  std::vector<BenchRow> rows;
  std::string way;
  launch::LocalJob job;
  job.workers = arguments.ranks;
  job.command = own_command(arguments);
  job.forks = true;
  job.on_message = [&](int, const nlohmann::json& message) {
    if (message.value("type", "") != "row") return;
    way = message.at("way");
    rows.push_back({find_operation(message.at("operation").get<std::string>()), message.at("route"),
                    message.at("elements"), find_type(arguments.type), arguments.ranks, message.at("times_us"),
                    message.at("wrong")});
  };
  launch::run_local(job);
  show(rows, way, arguments, context);
}

void run_bench(const BenchArguments& arguments, const GivenOptions& given, const CommandContext& context) {
  if (given.is_rank) return bench_as_part(arguments);
  const launch::Placement place = launch::placement();
  if (place.world_size > 1) return bench_launched(arguments, given, place, context);
  bench_alone(arguments, given, context);
}

void add_sizes(CLI::App* command, BenchArguments* arguments) {
  command->add_option("-b,--begin", arguments->begin, "smallest size of a rank's buffer, in bytes")
      ->capture_default_str();
  command->add_option("-e,--end", arguments->end, "largest size")->capture_default_str();
  command->add_option("-f,--factor", arguments->factor, "factor from each size to the next")
      ->check(number_from(1.1, 1024, 1))
      ->capture_default_str();
  command->add_option("-i,--iterations", arguments->iterations, "timed iterations of each size")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("-w,--warmup", arguments->warmup, "untimed iterations of each size")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
}

}  // namespace

void add_bench(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<BenchArguments>();
  auto given = std::make_shared<GivenOptions>();
  CLI::App* command = app.add_subcommand(
      "bench",
      "Time collectives between worker processes: those that it starts on this machine, or those that mpirun, srun or "
      "another launcher has started");
  command
      ->add_option("operation,--operation", arguments->operation,
                   "what to time, separated by commas, or all: " + list_operations())
      ->capture_default_str();
  add_sizes(command, arguments.get());
  auto* ranks = command->add_option("-n,--ranks", arguments->ranks, "worker processes to start")
                    ->check(CLI::Range(1, 512))
                    ->capture_default_str();
  command
      ->add_option("--transport", arguments->transport,
                   "what carries the messages (ripieno list transports): tcp, which also takes shared memory, or mpi, "
                   "under an MPI's launcher")
      ->capture_default_str();
  auto* root = command
                   ->add_option("--root", arguments->root,
                                "the rank that broadcast and scatter start at, and reduce and gather end at")
                   ->check(CLI::Range(0, 511))
                   ->capture_default_str();
  command->add_option("--route", arguments->routes, "may be given several times; auto, all, or see ripieno list routes")
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--type", arguments->type, "type of the numbers: fp32, fp64, fp16, bf16, int64, int32 or uint8")
      ->capture_default_str();
  auto* reduction =
      command
          ->add_option(
              "--reduction", arguments->reduction,
              "what all-reduce, reduce-scatter and reduce make of them: sum, mean, product, minimum or maximum")
          ->capture_default_str();
  command->add_option("--wire", arguments->wire, list_wire_formats() + "; auto: as they are")->capture_default_str();
  command
      ->add_option("--segment-kb", arguments->segment_kb,
                   "cut buffers of all-reduce, broadcast and reduce into segments of so many KiB; 0: never; -1: a "
                   "third of them, 32 to 256 for each rank, and two-phase never")
      ->check(CLI::Range(-1, 1048576))
      ->capture_default_str();
  command
      ->add_option("--drain", arguments->drain,
                   "before each timing, send so many bytes to the next rank: where a link takes a burst, "
                   "what it does in the long run is then what is timed")
      ->check(CLI::Range(0, 1 << 30))
      ->capture_default_str();
  command->add_flag("--rank", given->is_rank, "this process is one of the ranks")->group("");
  add_format(*command, context);
  command->callback([arguments, given, ranks, root, reduction, &context] {
    given->ranks = ranks->count() > 0;
    given->root = root->count() > 0;
    given->reduction = reduction->count() > 0;
    context.chosen = [arguments, given, &context] { run_bench(*arguments, *given, context); };
  });
}

}  // namespace ripieno::program
