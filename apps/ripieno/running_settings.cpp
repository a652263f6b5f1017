#include "apps/ripieno/running_settings.h"

#include <functional>
#include <limits>

#include "apps/ripieno/bindings.h"
#include "apps/ripieno/conditions.h"
#include "ripieno/transport/transports.h"

namespace ripieno::program {
namespace {

/// The member of the options that a key is bound to.
#define AT(member) ([](Options& options) -> auto& { return options.member; })

template <class Which>
std::vector<std::string> transports_that(Which which) {
  std::vector<std::string> names;
  for (const transport::Transport& transport : transport::transports()) {
    if (which(transport)) names.emplace_back(transport.name);
  }
  return names;
}

/// "tcp: ...; simulated: ..."
std::string what_transports_are() {
  std::string all;
  for (const transport::Transport& one : transport::transports())
    all += text(all.empty() ? "" : "; ", one.name, ": ", one.title);
  return all;
}

}  // namespace

std::vector<Setting> running_settings() {
  constexpr double unbounded = std::numeric_limits<double>::infinity();
  const Bounds from_0{0, unbounded, false, false}, count{0, 2147483647};
  const Condition real_time = is("transport.kind", transports_that(std::not_fn(&transport::Transport::is_virtual)));
  const Condition virtual_time = is("transport.kind", transports_that(std::mem_fn(&transport::Transport::is_virtual)));
  const Condition meets = is("transport.kind", transports_that(std::mem_fn(&transport::Transport::meets)));
  const Condition on_nodes = above("simulated.per_node", 1);
  const Condition computed = is("train.compute", {"real"});  // a replay learns nothing
  const Condition lab = above("lab.nodes", 0);
  return {
      word("transport.kind", AT(transport.kind), "tcp", what_transports_are(),
           transports_that([](const transport::Transport&) { return true; })),
      word("transport.listen", AT(transport.listen), "127.0.0.1:0", "address:port where the workers meet; port 0: any")
          .only(meets),
      word("transport.interface", AT(transport.interface), "",
           "network interface at which workers listen, such as eth0; empty: as RIPIENO_LISTEN says")
          .only(meets),
      duration("transport.timeout_s", AT(transport.timeout), 1, 1800, {0, 1e6, true, false},
               "seconds of silence after which a peer is lost")
          .only(real_time),
      duration("transport.delay_ms", AT(transport.shape.delay), 1e-3, 0, {0, 1e5},
               "milliseconds by which each message is delayed")
          .only(real_time),
      number("transport.mbit_s", AT(transport.shape.mbit_s), 0, {0, 1e6},
             "10^6 bits a second that each rank may send; 0: no limit")
          .only(real_time),
      whole("lab.nodes", AT(lab.nodes), 0, {0, 200},
            "nodes of an emulated cluster on this machine, over which the workers are spread in order: network "
            "namespaces if the user may make them, else rates in user space; 0: no lab")
          .only(meets),
      number("lab.mbit_s", AT(lab.mbit_s), 0, {0, 1e6}, "10^6 bits a second of each node's link, each way; 0: no limit")
          .only(meets)
          .only(lab),
      number("lab.cpu", AT(lab.cpu), 0, {0, 4096},
             "CPU limit of each node in cores, if control groups are writable; 0: no limit")
          .only(meets)
          .only(lab),
      list("lab.slow", AT(compute.slow), {1, 1e4},
           "how many times longer each rank computes, with or without nodes; missing: 1")
          .only(real_time),
      duration("simulated.latency_us", AT(simulated.link.latency), 1e-6, 50, {0, 1e9},
               "microseconds that a message takes one way, besides its bytes")
          .only(virtual_time),
      converted("simulated.mbit_s", AT(simulated.link.per_byte), seconds_a_byte, 1000, {1e-3, 8e6},
                "10^6 bits a second of each worker's link, each way")
          .only(virtual_time),
      whole("simulated.per_node", AT(simulated.per_node), 1, {1, 4096},
            "workers on each node of the network, which reach each other over separate links")
          .only(virtual_time),
      duration("simulated.node_latency_us", AT(simulated.node_link.latency), 1e-6, 2, {0, 1e9},
               "microseconds that a message takes inside a node, besides its bytes")
          .only(virtual_time)
          .only(on_nodes),
      converted("simulated.node_mbit_s", AT(simulated.node_link.per_byte), seconds_a_byte, 100000, {1e-3, 8e6},
                "10^6 bits a second of each worker's link inside its node, each way")
          .only(virtual_time)
          .only(on_nodes),
      duration("simulated.image_us", AT(compute.image_cost), 1e-6, 100, {0, 1e9},
               "microseconds of computing charged for each image and step; a replay charges measured times")
          .only(virtual_time)
          .only(computed),
      list("simulated.slow", AT(compute.virtual_slow), {0, 1e4, true, false},
           "how many times longer each rank computes; missing: 1")
          .only(virtual_time),
      number("simulated.slow_all", AT(compute.virtual_slow_all), 1, {0, 1e4, true, false},
             "how many times longer all workers compute, besides simulated.slow; below 1: on faster machines than this")
          .only(virtual_time),
      list("simulated.deaths_s", AT(deaths_s), from_0,
           "virtual seconds after which each rank dies; 0 or missing: never")
          .only(virtual_time),
      kib("simulated.window_kb", AT(simulated.window_bytes), 256, {1, 1048576},
          "bytes that may be in flight before a send waits, in 1024 bytes")
          .only(virtual_time),
      whole("measure.skip_steps", AT(run.left_out_steps), 0, count,
            "each worker's first steps that rates and means leave out: connections and caches are then warm"),
      folder("run.folder", AT(run.folder), "runs", "the folder in which run folders are made"),
      word("run.name", AT(run.name), "", "name of the run's folder; empty: made from what runs"),
      whole("run.checkpoint_every", AT(run.checkpoint_every), 0, count,
            "epochs between two further checkpoints; 0: none")
          .only(computed),
      duration("run.checkpoint_s", AT(run.checkpoint_between), 1, 60, {0, 86400},
               "the least seconds between two checkpoints on the way, which take at most 1 % of the time; 0: none")
          .only(real_time)
          .only(computed)
          .only(is_not("strategy", "ps-async"))  // whose workers are never at the same step
          .only(is_not("strategy", "ps-ssp")),
      choice("run.resume", AT(run.resume),
             {{"restart", GoOn::after_restart}, {"auto", GoOn::always}, {"never", GoOn::never}},
             "go on from the last run in run.folder with the same settings that was saved and has not finished: when "
             "torchrun or Slurm has restarted the job, whenever there is one, or never")
          .only(computed),
      duration("run.sample_s", AT(run.sample_every), 1, 0.5, {0, 3600},
               "seconds between two samples of CPU, memory and network; 0: none")
          .only(real_time),
      flag(
          "run.trace", AT(run.trace), false,
          "write trace-RANK.json: every pass, exchange and message, for Perfetto, chrome://tracing and ripieno report"),
  };
}
#undef AT

}  // namespace ripieno::program
