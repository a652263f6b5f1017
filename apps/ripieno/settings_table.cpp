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
  const Condition on_nodes = above("simulated.per_node", 1);
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
      word("model", "mnist-cnn", "the network to train (ripieno list models)"),
      word("strategy", "ring", "how the workers agree (ripieno list strategies); single: one worker alone"),
      whole("workers", 2, {1, 4096}, "how many processes train together").only(several),
      whole("passes", 1, {1, 4096}, "accumulate: batches between two exchanges; ring-passes: how many predecessors a worker averages with").only(strategy_of({"accumulate", "ring-passes"})),
      whole("seed", 0, {0, 1e12}, "of all random choices: first weights, order of samples, augmentation, partners"),
      word("data.name", "digits", "the data set (ripieno list data)"),
      folder("data.folder", "", "the folder that holds the data set; empty: $RIPIENO_DATA").only(real_data),
      folder("data.cache", "", "a folder that keeps unpacked data and profiles between runs; empty: nothing is kept").only(data_or_profiles),
      whole("data.train_samples", 0, count, "how many of the training samples to use, from the first on; 0: all"),
      whole("data.test_samples", 0, count, "how many of the test samples to evaluate on, from the first on; 0: all"),
      word("data.partition", "even", "how the samples are dealt out to workers with data of their own: evenly (for good, or anew each epoch), or skewed by label",
           {partition_names().begin(), partition_names().end()}).only(own_data),
      whole("data.shards_per_worker", 2, {1, 10000}, "pieces of the data, sorted by label, that each worker gets").only(is("data.partition", {"labels"})),
      number("data.alpha", 0.5, {0, 1e6, true, false}, "how even the labels are over the workers: small is skewed, large is even").only(is("data.partition", {"dirichlet"})),
      whole("data.crop_padding", 0, {0, 16}, "pixels added around an image before it is cropped at random; 0: no crop"),
      word("data.crop_border", "black", "what the added pixels are: black, or the image reflected", {"black", "reflected"}).only(above("data.crop_padding", 0)),
      flag("data.flip", false, "mirror half of the images at random"),
      flag("data.flip_alternate", false, "mirror each image in every other epoch, half of them in the first").only(on("data.flip")),
      flag("data.normalise", true, "scale each channel to zero mean and unit deviation"),
      whole("batch.global", 0, {0, 1000000}, "samples in a step, over all workers; give this or batch.per_worker"),
      whole("batch.per_worker", 0, {0, 1000000}, "samples in a step, for each worker; give this or batch.global"),
      list("batch.shares", {0, 1e6, true, false}, "each worker's part of the batch, beside the others'; empty: equal parts"),
      whole("train.epochs", 1, {1, 100000}, "passes over the training data"),
      word("train.precision", "fp32", "number format of computing; bf16, fp16: autocast over fp32 weights, fp16 with a loss scale",
           {"fp32", "fp64", "bf16", "fp16"}),
      word("train.device", "cpu", "where models are computed; cuda: worker i takes GPU i, counted round", {"cpu", "cuda"}),
      word("train.compute", "real", "replay: wait for times that were measured once, with one worker on this machine, instead of computing; exchanges are real, nothing is learnt. In virtual time the same times are charged", {"real", "replay"}),
      flag("train.channels_last", true, "store images as N x H x W x C, which the fused layers need"),
      number("train.label_smoothing", 0, below_1, "part of each label that is spread over all classes"),
      number("train.dropout", -1, {-1, 1, false, true}, "rate of all dropout layers; -1: the model's own rates"),
      whole("train.accumulate", 1, {1, 1024}, "parts in which a worker computes its batch; their gradients are added up"),
      whole("train.threads", 1, {0, 4096}, "threads that each worker computes with; 0: all cores / workers"),
      whole("train.max_steps", 0, count, "stop after so many steps in all (such a run cannot be resumed); 0: no limit"),
      whole("train.evaluate_every", 1, {1, 100000}, "epochs between two evaluations"),
      whole("train.first_layer_epochs", 0, count, "epochs after which the first layer is frozen; its learning rate falls to 0 until then; 0: never"),
      word("evaluate.tta", "none", "test-time augmentation: evaluate mirrored images too, and images moved by a pixel",
           {"none", "flip", "flip-shift"}).only(computed),
      whole("evaluate.batch", 250, {1, 1000000}, "images that are evaluated at once").only(computed),
      word("optimiser.name", "sgd", "the rule by which weights follow gradients", {"sgd", "adam", "adamw", "muon"}),
      number("optimiser.momentum", 0, below_1, "part of the last step that goes into the next").only(with_momentum),
      number("optimiser.weight_decay", 0, fraction, "pull of the weights towards 0, as L2; adamw: decoupled; muon: not of the matrices it steps on"),
      flag("optimiser.nesterov", false, "Nesterov's momentum").only(with_momentum),
      number("optimiser.beta1", 0.9, below_1, "decay of the running mean of gradients").only(adam),
      number("optimiser.beta2", 0.999, below_1, "decay of the running mean of squared gradients").only(adam),
      number("optimiser.epsilon", 1e-8, from_0, "added to the denominator of the step").only(adam),
      whole("optimiser.newton_schulz", 5, {1, 100}, "iterations that make the momentum of hidden matrices orthogonal").only(muon),
      flag("optimiser.normalise", false, "keep each matrix at the norm sqrt(rows), for layers before a normalisation").only(muon),
      number("optimiser.sgd_momentum", 0.9, below_1, "momentum of vectors and of the last matrix, on which SGD steps").only(muon),
      whole("optimiser.lookahead_every", 0, count, "steps after which the weights go back to their running mean; 0: never"),
      number("optimiser.lookahead_decay", 0.5, below_1, "decay of that running mean; it starts afresh at 0").only(lookahead),
      number("optimiser.lookahead_power", 0, {0, 100}, "the decay is multiplied by the fraction of training done, to this power").only(lookahead),
      word("learning_rate.schedule", "constant", "how the rate changes over training",
           {"constant", "step", "cosine", "one-cycle", "triangular"}),
      number("learning_rate.base", 0.1, {0, 1000, true, false}, "the full rate, for one worker"),
      word("learning_rate.scale", "none", "linear: the full rate is multiplied by the number of workers", {"none", "linear"}),
      number("learning_rate.warmup_epochs", 0, from_0, "epochs in which the rate first rises in a straight line; 0: none"),
      list("learning_rate.step_epochs", above_0, "epochs after which the rate falls").only(in_steps).only(falls),
      number("learning_rate.step_factor", 0.1, above_0, "what the rate is multiplied by when it falls").only(in_steps),
      number("learning_rate.final_fraction", 0, fraction, "the last rate, as a fraction of the full one").only(is("learning_rate.schedule", {"cosine", "one-cycle", "triangular"})),
      number("learning_rate.peak_at", 0.3, below_1, "when the rate is at its highest, as a fraction of training").only(in_a_cycle),
      number("learning_rate.start_fraction", 0.04, fraction, "the first rate, as a fraction of the full one").only(in_a_cycle).only(above("learning_rate.peak_at", 0)),
      number("learning_rate.vector_factor", 1, above_0, "what the rate of biases and of normalisations' weights is multiplied by"),
      number("learning_rate.head_factor", 1, above_0, "what the rate of the last matrix is multiplied by"),
      word("exchange.route", "auto", "the all-reduce algorithm of strategies whose route is any (ripieno list routes); auto: two-phase between workers that share memory, else ring", names_in(routes(), {"auto"})).only(exchanged),
      word("exchange.small_route", "auto", "the same for buckets of up to exchange.small_kb; auto: exchange.route's", names_in(routes(), {"auto"})).only(open_route).only(floats).only(above("exchange.small_kb", 0)).only(not_measured),
      whole("exchange.small_kb", 0, {0, 1048576}, "largest bucket that goes by exchange.small_route, in 1024 bytes; 0: none does").only(open_route).only(floats).only(small_route).only(not_measured),
      word("exchange.codec", "auto", "how numbers are encoded (ripieno list codecs); auto: as they are in memory", names_in(codecs())).only(exchanged),
      number("exchange.bucket_mb", 25, {0.001, 4096}, "gradients that travel together, in 10^6 bytes").only(buckets).only(not_measured),
      whole("exchange.segment_kb", 0, {0, 1048576}, "parts in which a bucket goes through a route, in 1024 bytes; 0: never cut").only(segments).only(not_measured),
      word("exchange.measure", "auto",
           "on: measure the links at the start, and choose bucket_mb, segment_kb and small_* by them; auto: ddp does so where none is given and not all workers share memory",
           {"auto", "on", "off"}).only(measures),
      whole("exchange.in_flight", 0, {0, 256}, "buckets that are averaged at the same time; 0: all").only(ddp),
      word("exchange.overlap", "backward", "what goes on beside the exchange: the backward pass; forward: the next forward pass, too",
           {"backward", "forward"}).only(forward),
      whole("exchange.per_node", 1, {1, 4096}, "ranks on each node").only(nodes),
      flag("codec.error_feedback", true, "what a lossy codec loses is added to what is sent next").only(is("exchange.codec", {"int8", "qsgd", "sign", "topk", "topk-sampled", "powersgd"})).only(differences),
      whole("codec.block", 256, {8, 1048576}, "numbers that share a scale, a multiple of 8").only(in_blocks),
      whole("codec.bits", 4, {2, 8}, "bits of each number").only(is("exchange.codec", {"qsgd"})),
      number("codec.fraction", 0.01, {0, 1, true, false}, "fraction of the numbers that is sent").only(is("exchange.codec", {"topk", "topk-sampled"})),
      whole("codec.rank", 2, {1, 64}, "rank of the two factors").only(is("exchange.codec", {"powersgd"})),
      whole("ps.servers", 1, {1, 4096}, "servers among which the model is divided").only(servers),
      word("ps.placement", "own", "own: servers have ranks of their own; beside: server i runs in worker i's process", {"own", "beside"}).only(servers),
      whole("ps.staleness", 2, {0, 1000000}, "steps that a worker may be ahead of the slowest").only(strategy_of({"ps-ssp"})),
      whole("fedavg.local_epochs", 1, {1, 1000}, "epochs that a client trains between two averages").only(federated),
      number("fedavg.fraction", 1, {0, 1, true, false}, "fraction of the clients that takes part in a round").only(federated),
      word("fedavg.exchange", "parameters", "what clients send: their parameters, or their differences to the last average", {"parameters", "deltas"}).only(federated),
      word("fedavg.batch_norm", "mean", "whose batch-norm statistics count: rank 0's, the mean of all, or each client's own", {"rank0", "mean", "local"}).only(federated),
      whole("local.steps", 8, {1, 1000000}, "steps of its own that a worker takes between two exchanges").only(local_steps),
      whole("local.fragments", 1, {1, 10000}, "parts of the model that are exchanged in turn").only(local_steps),
      whole("local.delay", 0, {0, 1000000}, "steps that an exchange may take while computing goes on").only(local_steps),
      number("outer.learning_rate", 0, {0, 1000}, "rate of the step that is taken along the mean difference; 0: the strategy's own").only(strategy_of({"fedavg", "fedavgm", "fedadam", "local-sgd", "diloco"})),
      number("outer.momentum", 0.9, below_1, "momentum of that step").only(strategy_of({"fedavgm", "diloco"})),
      number("outer.beta1", 0.9, below_1, "decay of the running mean of differences").only(fedadam),
      number("outer.beta2", 0.99, below_1, "decay of the running mean of squared differences").only(fedadam),
      number("outer.epsilon", 1e-3, from_0, "added to the denominator of that step").only(fedadam),
      word("transport.kind", "tcp", "tcp: workers are processes that run in real time; simulated: virtual time, in one process", {"tcp", "simulated"}),
      word("transport.listen", "127.0.0.1:0", "address:port where the workers meet; port 0: any").only(tcp),
      number("transport.timeout_s", 1800, {0, 1e6, true, false}, "seconds of silence after which a peer is lost").only(tcp),
      number("transport.delay_ms", 0, {0, 1e5}, "milliseconds by which each message is made to arrive later").only(tcp),
      number("transport.mbit_s", 0, {0, 1e6}, "10^6 bits a second that each rank may send; 0: no limit").only(tcp),
      whole("lab.nodes", 0, {0, 200}, "nodes of an emulated cluster on this machine, over which the workers are spread in order: network namespaces where the user may make them, else rates in user space; 0: no lab").only(tcp),
      number("lab.mbit_s", 0, {0, 1e6}, "10^6 bits a second of each node's link, each way; 0: no limit").only(tcp).only(lab),
      number("lab.cpu", 0, {0, 4096}, "cores' worth of CPU time of each node, where control groups are writable; 0: no limit").only(tcp).only(lab),
      list("lab.slow", {1, 1e4}, "how many times longer each rank computes, with or without nodes; missing: 1").only(tcp),
      number("simulated.latency_us", 50, {0, 1e9}, "microseconds that a message takes one way, besides its bytes").only(virtual_time),
      number("simulated.gbit_s", 1, {1e-6, 8000}, "10^9 bits a second of each worker's link, each way").only(virtual_time),
      whole("simulated.per_node", 1, {1, 4096}, "workers on each node of the network, which reach each other over links of their own").only(virtual_time),
      number("simulated.node_latency_us", 2, {0, 1e9}, "microseconds that a message takes inside a node, besides its bytes").only(virtual_time).only(on_nodes),
      number("simulated.node_gbit_s", 100, {1e-6, 8000}, "10^9 bits a second of each worker's link inside its node, each way").only(virtual_time).only(on_nodes),
      number("simulated.image_us", 100, {0, 1e9}, "microseconds of computing charged for each image and step; a replay charges what was measured").only(virtual_time).only(computed),
      list("simulated.slow", {0, 1e4, true, false}, "how many times longer each rank computes; missing: 1").only(virtual_time),
      list("simulated.deaths_s", from_0, "virtual seconds after which each rank dies; 0 or missing: never").only(virtual_time),
      whole("simulated.window_kb", 256, {1, 1048576}, "bytes that may be under way before a send waits, in 1024 bytes").only(virtual_time),
      folder("run.folder", "runs", "the folder in which run folders are made"),
      word("run.name", "", "name of the run's folder; empty: made from what runs"),
      whole("run.checkpoint_every", 0, count, "epochs between two checkpoints; 0: only at the end").only(computed),
      number("run.sample_s", 0.5, {0, 3600}, "seconds between two samples of CPU, memory and network; 0: none").only(tcp),
      flag("run.trace", false, "write trace-RANK.json: every pass, exchange and message, for Perfetto, chrome://tracing and ripieno report"),
  };
}

}  // namespace

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> all = table();
  return all;
}

}  // namespace ripieno
