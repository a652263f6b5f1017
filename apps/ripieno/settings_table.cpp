// Every key of a recipe: what it may be, what it is where nobody says, what it means, and when it has an effect.
#include <limits>

#include "apps/ripieno/conditions.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/schedule.h"
#include "ripieno/data/partition.h"

namespace ripieno {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

Setting flag(std::string key, bool standard, std::string help) { return {key, standard, help, {}, {}}; }
Setting whole(std::string key, std::int64_t standard, Bounds range, std::string help) {
  return {key, standard, help, {}, range};
}
Setting number(std::string key, double standard, Bounds range, std::string help) {
  return {key, standard, help, {}, range};
}
Setting list(std::string key, Bounds range, std::string help) { return {key, std::vector<double>{}, help, {}, range}; }
Setting word(std::string key, std::string standard, std::string help, std::vector<std::string> allowed = {}) {
  return {key, standard, help, allowed, {}};
}

Setting folder(std::string key, std::string standard, std::string help) {
  Setting setting = word(std::move(key), std::move(standard), std::move(help));
  setting.is_path = true;
  return setting;
}

template <class Table>
std::vector<std::string> names_in(const Table& table, std::vector<std::string> names = {}) {
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

std::vector<Setting> table() {
  const Bounds from_0{0, unbounded, false, false}, above_0{0, unbounded, true, false}, count{0, 2147483647};
  const Bounds below_1{0, 1, false, true}, fraction{0, 1, false, false};
  const Condition tcp = is("transport.kind", {"tcp"}), virtual_time = is("transport.kind", {"simulated"});
  const Condition computed = is("train.compute", {"real"});  // a replay learns nothing
  const Condition several = several_workers(), exchanged = is_not("strategy", "single"), own_data = data_of_its_own();
  const Condition real_data = data_in_files(), data_or_profiles = data_that_is_kept();
  const Condition open_route = route_is_open(), floats = is("exchange.codec", {"auto", "fp32", "fp16", "bf16"});
  const Condition nodes = route_knows_nodes(), measures = links_are_measured();
  const Condition small_route = is_not("exchange.small_route", "auto"), not_measured = is_not("exchange.measure", "on");
  const Condition buckets = gradients_are_averaged(), segments = schedule_is_run(), differences = what_is_lost_can_be_kept();
  const Condition servers = strategy_of({"ps-sync", "ps-async", "ps-ssp"}), federated = strategy_of({"fedavg", "fedavgm", "fedadam"});
  const Condition falls = rate_falls_in_time();
  const Condition with_momentum = is("optimiser.name", {"sgd", "muon"}), adam = is("optimiser.name", {"adam", "adamw"});
  const Condition muon = is("optimiser.name", {"muon"}), lookahead = above("optimiser.lookahead_every", 0);
  const Condition in_steps = is("learning_rate.schedule", {"step"});
  const Condition in_a_cycle = is("learning_rate.schedule", {"one-cycle", "triangular"});
  const Condition ddp = strategy_of({"ddp"}), local_steps = strategy_of({"local-sgd", "diloco"}), fedadam = strategy_of({"fedadam"});
  const Condition forward = overlap_is_chosen(), lab = above("lab.nodes", 0), in_blocks = is("exchange.codec", {"int8", "qsgd", "sign"});
  return {
      word("model", "mnist-cnn", "a name of the zoo"),
      word("strategy", "ring", "how the workers agree; \"single\" is one worker alone"),
      whole("workers", 2, {1, 4096}, "how many train together").only(several),
      whole("passes", 1, {1, 4096}, "accumulate: batches before an exchange; ring-passes: predecessors to average with").only(strategy_of({"accumulate", "ring-passes"})),
      whole("seed", 0, {0, 1e12}, "of the weights, the order of samples, augmentation and random partners"),
      word("data.name", "digits", "the data set"),
      folder("data.folder", "", "where it lies; empty: where the launcher finds data sets").only(real_data),
      folder("data.cache", "", "a folder for what is unpacked once; empty: none").only(data_or_profiles),
      whole("data.train_samples", 0, count, "train on the first so many; 0: all"),
      whole("data.test_samples", 0, count, "evaluate on the first so many; 0: all"),
      word("data.partition", "even", "what a worker with data of its own has of it: alike for all, for good or dealt out anew each epoch, or skewed by label",
           {partition_names().begin(), partition_names().end()}).only(own_data),
      whole("data.shards_per_worker", 2, {1, 10000}, "labels: pieces of the data sorted by label that a worker gets").only(is("data.partition", {"labels"})),
      number("data.alpha", 0.5, {0, 1e6, true, false}, "dirichlet: small is skewed, large is even").only(is("data.partition", {"dirichlet"})),
      whole("data.crop_padding", 0, {0, 16}, "pixels of padding around a random crop; 0: no crop"),
      word("data.crop_border", "black", "what is around a crop: black, or the image reflected", {"black", "reflected"}).only(above("data.crop_padding", 0)),
      flag("data.flip", false, "mirror half of the images at random"),
      flag("data.flip_alternate", false, "with flip: mirror each image in every other epoch, half of them in the first").only(on("data.flip")),
      flag("data.normalise", true, "to zero mean and unit deviation for each channel"),
      whole("batch.global", 0, {0, 1000000}, "samples a step, over all workers; state this or per_worker"),
      whole("batch.per_worker", 0, {0, 1000000}, "samples a step and worker; state this or global"),
      list("batch.shares", {0, 1e6, true, false}, "for each worker: how large its part of a batch is beside the others'; empty: alike"),
      whole("train.epochs", 1, {1, 100000}, "passes over the data"),
      word("train.precision", "fp32", "of compute; bf16, fp16: autocast over fp32 weights, fp16 with a loss scale",
           {"fp32", "fp64", "bf16", "fp16"}),
      word("train.device", "cpu", "where models are computed; cuda: worker i on the i-th GPU that it sees, counted round", {"cpu", "cuda"}),
      word("train.compute", "real", "replay: wait for times that were measured once on this machine, without others beside it, instead of computing; exchanges are real, nothing is learnt. In virtual time they are charged", {"real", "replay"}),
      flag("train.channels_last", true, "store images as N x H x W x C, which the fused layers need"),
      number("train.label_smoothing", 0, below_1, "share of a label given to all classes"),
      number("train.dropout", -1, {-1, 1, false, true}, "of all the model's dropout layers; -1: each its own"),
      whole("train.accumulate", 1, {1, 1024}, "parts that a worker's batch is computed in, whose gradients are added up"),
      whole("train.threads", 1, {0, 4096}, "compute threads a worker; 0: all cores / workers"),
      whole("train.max_steps", 0, count, "stop after so many steps in all (such a run cannot be resumed); 0: no limit"),
      whole("train.evaluate_every", 1, {1, 100000}, "epochs"),
      whole("train.first_layer_epochs", 0, count, "after which the first layer is frozen; its rate falls to 0 until then; 0: never"),
      word("evaluate.tta", "none", "test-time augmentation: mirrored images too, and images moved by a pixel",
           {"none", "flip", "flip-shift"}).only(computed),
      whole("evaluate.batch", 250, {1, 1000000}, "images that are evaluated at once").only(computed),
      word("optimiser.name", "sgd", "the rule by which weights follow gradients", {"sgd", "adam", "adamw", "muon"}),
      number("optimiser.momentum", 0, below_1, "sgd, muon").only(with_momentum),
      number("optimiser.weight_decay", 0, fraction, "L2; adamw: decoupled; not of matrices that muon steps on"),
      flag("optimiser.nesterov", false, "sgd or muon with momentum").only(with_momentum),
      number("optimiser.beta1", 0.9, below_1, "adam, adamw").only(adam),
      number("optimiser.beta2", 0.999, below_1, "adam, adamw").only(adam),
      number("optimiser.epsilon", 1e-8, from_0, "adam, adamw").only(adam),
      whole("optimiser.newton_schulz", 5, {1, 100}, "muon: iterations that make the momentum of hidden matrices orthogonal").only(muon),
      flag("optimiser.normalise", false, "muon: keep each matrix at the norm sqrt(rows), for layers before a normalisation").only(muon),
      number("optimiser.sgd_momentum", 0.9, below_1, "muon: of vectors and the last matrix, on which sgd steps").only(muon),
      whole("optimiser.lookahead_every", 0, count, "steps after which weights go back to their running mean; 0: never"),
      number("optimiser.lookahead_decay", 0.5, below_1, "of the running mean; it starts afresh at 0").only(lookahead),
      number("optimiser.lookahead_power", 0, {0, 100}, "times the decay: the fraction of training to this power").only(lookahead),
      word("learning_rate.schedule", "constant", "how it changes over training",
           {"constant", "step", "cosine", "one-cycle", "triangular"}),
      number("learning_rate.base", 0.1, {0, 1000, true, false}, "of one worker"),
      word("learning_rate.scale", "none", "linear: times the number of workers", {"none", "linear"}),
      number("learning_rate.warmup_epochs", 0, from_0, "rise in a straight line at first; 0: none"),
      list("learning_rate.step_epochs", above_0, "step: when the rate falls").only(in_steps).only(falls),
      number("learning_rate.step_factor", 0.1, above_0, "step: times which it falls").only(in_steps),
      number("learning_rate.final_fraction", 0, fraction, "cosine, one-cycle, triangular: the last rate over the full one").only(is("learning_rate.schedule", {"cosine", "one-cycle", "triangular"})),
      number("learning_rate.peak_at", 0.3, below_1, "one-cycle, triangular: fraction of training").only(in_a_cycle),
      number("learning_rate.start_fraction", 0.04, fraction, "one-cycle, triangular: the first rate over the full one").only(in_a_cycle).only(above("learning_rate.peak_at", 0)),
      number("learning_rate.vector_factor", 1, above_0, "times the rate, of biases and the weights of normalisations"),
      number("learning_rate.head_factor", 1, above_0, "times the rate, of the last matrix"),
      word("exchange.route", "auto", "of strategies whose route is any (ripieno list strategies); auto: two-phase between workers that share memory, else ring", names_in(routes(), {"auto"})).only(exchanged),
      word("exchange.small_route", "auto", "the same, of buckets of up to small_kb; auto: as all", names_in(routes(), {"auto"})).only(open_route).only(floats).only(above("exchange.small_kb", 0)).only(not_measured),
      whole("exchange.small_kb", 0, {0, 1048576}, "1024 bytes; 0: no bucket is small").only(open_route).only(floats).only(small_route).only(not_measured),
      word("exchange.codec", "auto", "how numbers are encoded; auto: as they are in memory", names_in(codecs())).only(exchanged),
      number("exchange.bucket_mb", 25, {0.001, 4096}, "gradients that travel together, 10^6 bytes").only(buckets).only(not_measured),
      whole("exchange.segment_kb", 0, {0, 1048576}, "1024 bytes of a bucket that go through a route as one; 0: never cut").only(segments).only(not_measured),
      word("exchange.measure", "auto",
           "on: choose bucket_mb, segment_kb and small_* by measuring the links at the start; auto: ddp does where none is given and not all workers share memory",
           {"auto", "on", "off"}).only(measures),
      whole("exchange.in_flight", 0, {0, 256}, "ddp: buckets that are averaged at once; 0: all").only(ddp),
      word("exchange.overlap", "backward", "ddp: what the exchange goes on under; forward: the next forward pass too",
           {"backward", "forward"}).only(forward),
      whole("exchange.per_node", 1, {1, 4096}, "hierarchical: ranks that are on one node").only(nodes),
      flag("codec.error_feedback", true, "lossy codecs: what is lost is added to what is sent next").only(is("exchange.codec", {"int8", "qsgd", "sign", "topk", "topk-sampled", "powersgd"})).only(differences),
      whole("codec.block", 256, {8, 1048576}, "int8, qsgd, sign: numbers that share a scale, a multiple of 8").only(in_blocks),
      whole("codec.bits", 4, {2, 8}, "qsgd: of each number").only(is("exchange.codec", {"qsgd"})),
      number("codec.fraction", 0.01, {0, 1, true, false}, "topk, topk-sampled: of the numbers that are sent").only(is("exchange.codec", {"topk", "topk-sampled"})),
      whole("codec.rank", 2, {1, 64}, "powersgd: of the factors").only(is("exchange.codec", {"powersgd"})),
      whole("ps.servers", 1, {1, 4096}, "parts of the model, each at a server of its own").only(servers),
      word("ps.placement", "own", "own: servers have ranks of their own; beside: server i lives on worker i's", {"own", "beside"}).only(servers),
      whole("ps.staleness", 2, {0, 1000000}, "ps-ssp: steps that a worker may be ahead of the slowest").only(strategy_of({"ps-ssp"})),
      whole("fedavg.local_epochs", 1, {1, 1000}, "between two averages").only(federated),
      number("fedavg.fraction", 1, {0, 1, true, false}, "of the clients that take part in a round").only(federated),
      word("fedavg.exchange", "parameters", "what clients send: their parameters, or what they changed", {"parameters", "deltas"}).only(federated),
      word("fedavg.batch_norm", "mean", "what becomes of its statistics", {"rank0", "mean", "local"}).only(federated),
      whole("local.steps", 8, {1, 1000000}, "local-sgd, diloco: between two exchanges").only(local_steps),
      whole("local.fragments", 1, {1, 10000}, "local-sgd, diloco: parts of the model that are exchanged in turn").only(local_steps),
      whole("local.delay", 0, {0, 1000000}, "local-sgd, diloco: steps that an exchange may take while computing goes on").only(local_steps),
      number("outer.learning_rate", 0, {0, 1000}, "fedavg, fedavgm, fedadam, local-sgd, diloco: of the step on mean differences; 0: the strategy's own").only(strategy_of({"fedavg", "fedavgm", "fedadam", "local-sgd", "diloco"})),
      number("outer.momentum", 0.9, below_1, "fedavgm, diloco").only(strategy_of({"fedavgm", "diloco"})),
      number("outer.beta1", 0.9, below_1, "fedadam").only(fedadam),
      number("outer.beta2", 0.99, below_1, "fedadam").only(fedadam),
      number("outer.epsilon", 1e-3, from_0, "fedadam").only(fedadam),
      word("transport.kind", "tcp", "simulated: virtual time", {"tcp", "simulated"}),
      word("transport.listen", "127.0.0.1:0", "address:port where the workers meet; port 0: any").only(tcp),
      number("transport.timeout_s", 1800, {0, 1e6, true, false}, "seconds of silence after which a peer is lost").only(tcp),
      number("transport.delay_ms", 0, {0, 1e5}, "tcp: milliseconds that every message takes longer, to see what a slow network would do").only(tcp),
      number("transport.mbit_s", 0, {0, 1e6}, "tcp: 10^6 bits a second that a rank can send at most, for the same; 0: no limit").only(tcp),
      whole("lab.nodes", 0, {0, 200}, "an emulated cluster: so many nodes on this machine, workers spread over them in order; network namespaces where the user is root, else rates in user space; 0: none").only(tcp),
      number("lab.mbit_s", 0, {0, 1e6}, "10^6 bits a second of a node's link, each way; 0: no limit").only(tcp).only(lab),
      number("lab.cpu", 0, {0, 4096}, "cores' worth of CPU time that a node has, where control groups are writable; 0: no limit").only(tcp).only(lab),
      list("lab.slow", {1, 1e4}, "for each rank: times that compute takes, nodes or not; missing: 1").only(tcp),
      number("simulated.latency_us", 50, {0, 1e9}, "microseconds, one way").only(virtual_time),
      number("simulated.gbit_s", 1, {1e-6, 8000}, "10^9 bits a second, each way of each worker").only(virtual_time),
      number("simulated.image_us", 100, {0, 1e9}, "microseconds of compute charged for each image and step; a replay charges what was measured").only(virtual_time).only(computed),
      list("simulated.slow", {0, 1e4, true, false}, "for each rank: times that compute takes; missing: 1").only(virtual_time),
      list("simulated.deaths_s", from_0, "for each rank: virtual seconds after which it dies; 0 or missing: never").only(virtual_time),
      whole("simulated.window_kb", 256, {1, 1048576}, "1024 bytes that may be under way before a send waits").only(virtual_time),
      folder("run.folder", "runs", "where run folders are made"),
      word("run.name", "", "of the run's folder; empty: made from what runs"),
      whole("run.checkpoint_every", 0, count, "epochs; 0: only at the end").only(computed),
      number("run.sample_s", 0.5, {0, 3600}, "seconds from one sample of CPU, memory and network to the next; 0: none").only(tcp),
      flag("run.trace", false, "write trace-RANK.json: every pass and exchange, for Perfetto or chrome://tracing"),
  };
}

}  // namespace

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> all = table();
  return all;
}

}  // namespace ripieno
