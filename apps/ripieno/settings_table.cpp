// Every key of a recipe: its allowed values, default and meaning, and when it has an effect. Those of where a job runs
// and what it leaves are in running_settings.cpp.
#include <limits>

#include "apps/ripieno/bindings.h"
#include "apps/ripieno/conditions.h"
#include "apps/ripieno/running_settings.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/schedule.h"
#include "ripieno/data/partition.h"

namespace ripieno::program {
namespace {

#define AT(member) ([](Options& options) -> auto& { return options.member; })  // that a key is bound to

constexpr double unbounded = std::numeric_limits<double>::infinity();

template <class Table>
std::vector<std::string> names_in(const Table& table, std::vector<std::string> names = {}) {
  for (const auto& row : table) names.emplace_back(row.name);
  return names;
}

std::vector<Setting> table() {
  using Kind = codec::CodecKind;
  const Bounds from_0{0, unbounded, false, false}, above_0{0, unbounded, true, false}, count{0, 2147483647};
  const Bounds below_1{0, 1, false, true}, fraction{0, 1, false, false};
  const Condition computed = is("train.compute", {"real"});  // a replay learns nothing
  const Condition several = several_workers(), exchanged = is_not("strategy", "single"), own_data = data_of_its_own();
  const Condition real_data = data_in_files(), data_or_profiles = data_that_is_kept();
  const Condition open_route = route_is_open(), floats = codec_of({Kind::wire});
  const Condition nodes = route_knows_nodes(), measures = links_are_measured();
  const Condition small_route = is_not("exchange.small_route", "auto"), not_measured = is_not("exchange.measure", "on");
  const Condition buckets = gradients_are_averaged(), segments = schedule_is_run(),
                  differences = what_is_lost_can_be_kept();
  const Condition servers = strategy_of({"ps-sync", "ps-async", "ps-ssp"}),
                  federated = strategy_of({"fedavg", "fedavgm", "fedadam"}), fedadam = strategy_of({"fedadam"});
  const Condition falls = rate_falls_in_time();
  const Condition with_momentum = is("optimiser.name", {"sgd", "muon"}), adam = is("optimiser.name", {"adam", "adamw"}),
                  muon = is("optimiser.name", {"muon"}), lookahead = above("optimiser.lookahead_every", 0);
  const Condition in_steps = is("learning_rate.schedule", {"step"}),
                  in_a_cycle = is("learning_rate.schedule", {"one-cycle", "triangular"});
  const Condition ddp = strategy_of({"ddp"}), local_steps = strategy_of({"local-sgd", "diloco"});
  const Condition forward = overlap_is_chosen(), in_blocks = codec_of({Kind::block});
  return {
      word("model", AT(model), "mnist-cnn", "the network to train (ripieno list models)"),
      word("strategy", AT(strategy), "ring",
           "how the workers agree (ripieno list strategies); single: one worker alone"),
      whole("workers", AT(workers), 2, {1, 4096}, "how many processes train together").only(several),
      whole("passes", AT(plan.passes), 1, {1, 4096},
            "accumulate: batches between two exchanges; ring-passes: how many predecessors a worker averages with; "
            "ring-groups: how many others there are in a group")
          .only(strategy_of({"accumulate", "ring-passes", "ring-groups"})),
      whole("seed", AT(seed), 0, {0, 1e12},
            "seed of all random choices: first weights, order of samples, augmentation, partners"),
      word("data.name", AT(data_name), "digits", "the data set (ripieno list data)"),
      folder("data.folder", AT(data.folder), "", "the folder that holds the data set; empty: $RIPIENO_DATA")
          .only(real_data),
      folder("data.cache", AT(data.cache), "",
             "a folder that keeps unpacked data and profiles between runs; empty: nothing is kept")
          .only(data_or_profiles),
      whole("data.train_samples", AT(data.train_samples), 0, count,
            "how many of the training samples to use, from the first on; 0: all"),
      whole("data.test_samples", AT(data.test_samples), 0, count,
            "how many of the test samples to evaluate on, from the first on; 0: all"),
      word("data.partition", AT(sampling.sharing), "even",
           "how samples are divided among workers with their own data: evenly (once, or anew each epoch), or "
           "skewed by label",
           {data::partition_names().begin(), data::partition_names().end()})
          .only(own_data),
      whole("data.shards_per_worker", AT(sampling.shards_per_worker), 2, {1, 10000},
            "pieces of the data, sorted by label, that each worker gets")
          .only(is("data.partition", {"labels"})),
      number("data.alpha", AT(sampling.alpha), 0.5, {0, 1e6, true, false},
             "how even the labels are over the workers: small is skewed, large is even")
          .only(is("data.partition", {"dirichlet"})),
      whole("data.crop_padding", AT(augmentation.crop_padding), 0, {0, 16},
            "pixels added around an image before it is cropped at random; 0: no crop"),
      choice("data.crop_border", AT(augmentation.border),
             {{"black", data::Border::black}, {"reflected", data::Border::reflected}},
             "what the added pixels are: black, or the image reflected")
          .only(above("data.crop_padding", 0)),
      flag("data.flip", AT(augmentation.flip), false, "mirror half of the images at random"),
      flag("data.flip_alternate", AT(augmentation.alternate), false,
           "mirror each image in every other epoch, half of them in the first")
          .only(on("data.flip")),
      choice("data.normalise", AT(augmentation.pixels),
             {{"standard", data::PixelScale::standard},
              {"unit", data::PixelScale::unit},
              {"none", data::PixelScale::none}},
             "what pixels are scaled to: zero mean and unit deviation in each channel, 0 to 1, or not at all, 0 to 255")
          .once_a_flag("unit", "standard"),
      list("data.mean", AT(mean), {0, 1},
           "what is taken from pixels of 0 to 1, for each channel; empty: the data set's mean")
          .only(is("data.normalise", {"standard"})),
      list("data.deviation", AT(deviation), {0, 1, true, false},
           "what pixels less the mean are divided by, for each channel; empty: the data set's standard deviation")
          .only(is("data.normalise", {"standard"})),
      whole("batch.global", AT(batch.global), 0, {0, 1000000},
            "samples in a step, over all workers; give this or batch.per_worker"),
      whole("batch.per_worker", AT(batch.per_worker), 0, {0, 1000000},
            "samples in a step, for each worker; give this or batch.global"),
      list("batch.shares", AT(sampling.shares), {0, 1e6, true, false},
           "each worker's part of the batch, relative to the others'; empty: equal parts"),
      whole("train.epochs", AT(plan.epochs), 1, {1, 100000}, "passes over the training data"),
      choice("train.init", AT(compute.first_weights),
             {{"default", model::Initialisation::standard},
              {"glorot", model::Initialisation::glorot},
              {"he", model::Initialisation::he},
              {"orthogonal", model::Initialisation::orthogonal}},
             "how the first weights of convolutions and linear layers are drawn; all but default set their biases to 0")
          .only(computed),
      word("train.precision", AT(compute.precision), "fp32",
           "number format of computing; bf16, fp16: autocast over fp32 weights, fp16 with a loss scale",
           {"fp32", "fp64", "bf16", "fp16"}),
      word("train.device", AT(compute.device), "cpu",
           "where models are computed; cuda: rank i of a host takes its GPU i modulo their number", {"cpu", "cuda"}),
      choice("train.compute", AT(compute.replayed), {{"real", false}, {"replay", true}},
             "replay: wait for times measured once, with one worker on this machine, instead of computing; "
             "exchanges are real, nothing is learnt; virtual time charges the same times"),
      flag("train.channels_last", AT(compute.channels_last), true,
           "store images as N x H x W x C, which the fused layers need"),
      number("train.label_smoothing", AT(compute.label_smoothing), 0, below_1,
             "part of each label that is spread over all classes"),
      number("train.dropout", AT(compute.dropout), -1, {-1, 1, false, true},
             "rate of all dropout layers; -1: the model's own rates"),
      whole("train.accumulate", AT(compute.accumulate), 1, {1, 1024},
            "parts of a worker's batch, computed one after the other; their gradients are added up"),
      whole("train.threads", AT(compute.threads), 1, {0, 4096},
            "threads that each worker computes with; 0: all cores / workers"),
      whole("train.max_steps", AT(plan.max_steps), 0, count,
            "stop after so many steps in total (such a run cannot be resumed); 0: no limit"),
      whole("train.evaluate_every", AT(plan.evaluate_every), 1, {1, 100000}, "epochs between two evaluations"),
      whole("train.first_layer_epochs", AT(compute.first_layer_epochs), 0, count,
            "epochs after which the first layer is frozen; its learning rate falls to 0 until then; 0: never"),
      word("evaluate.tta", AT(compute.test_views), "none",
           "test-time augmentation: also evaluate mirrored images, and images moved by a pixel",
           {"none", "flip", "flip-shift"})
          .only(computed),
      whole("evaluate.batch", AT(compute.evaluation_batch), 250, {1, 1000000}, "images evaluated at once")
          .only(computed),
      word("optimiser.name", AT(plan.optimiser.name), "sgd", "the optimiser that updates weights by gradients",
           {"sgd", "adam", "adamw", "muon"}),
      number("optimiser.momentum", AT(plan.optimiser.momentum), 0, below_1,
             "part of the last step that is added to the next")
          .only(with_momentum),
      number("optimiser.weight_decay", AT(plan.optimiser.weight_decay), 0, fraction,
             "pull of the weights towards 0, as L2; adamw: decoupled; muon: not for the matrices that it steps on"),
      flag("optimiser.nesterov", AT(plan.optimiser.nesterov), false, "Nesterov's momentum").only(with_momentum),
      number("optimiser.beta1", AT(plan.optimiser.beta1), 0.9, below_1, "decay of the running mean of gradients")
          .only(adam),
      number("optimiser.beta2", AT(plan.optimiser.beta2), 0.999, below_1,
             "decay of the running mean of squared gradients")
          .only(adam),
      number("optimiser.epsilon", AT(plan.optimiser.epsilon), 1e-8, from_0, "added to the denominator of the step")
          .only(adam),
      whole("optimiser.newton_schulz", AT(plan.optimiser.newton_schulz), 5, {1, 100},
            "iterations that make the momentum of hidden matrices orthogonal")
          .only(muon),
      flag("optimiser.normalise", AT(plan.optimiser.normalise), false,
           "keep each matrix at the norm sqrt(rows), for layers before a normalisation")
          .only(muon),
      number("optimiser.sgd_momentum", AT(plan.optimiser.sgd_momentum), 0.9, below_1,
             "momentum of vectors and of the last matrix, on which SGD steps")
          .only(muon),
      whole("optimiser.lookahead_every", AT(plan.optimiser.lookahead_every), 0, count,
            "steps after which the weights are set to their running mean; 0: never"),
      number("optimiser.lookahead_decay", AT(plan.optimiser.lookahead_decay), 0.5, below_1,
             "decay of that running mean; 0: it keeps nothing of older weights")
          .only(lookahead),
      number("optimiser.lookahead_power", AT(plan.optimiser.lookahead_power), 0, {0, 100},
             "the decay is multiplied by the fraction of training done, to this power")
          .only(lookahead),
      word("learning_rate.schedule", AT(plan.learning_rate.schedule), "constant", "how the rate changes over training",
           {"constant", "step", "cosine", "one-cycle", "triangular"}),
      number("learning_rate.base", AT(plan.learning_rate.base), 0.1, {0, 1000, true, false},
             "the full rate, for one worker"),
      choice("learning_rate.scale", AT(scale_rate), {{"none", false}, {"linear", true}},
             "linear: the full rate is multiplied by the number of workers"),
      number(
          "learning_rate.warmup_epochs", AT(plan.learning_rate.warmup_epochs), 0, from_0,
          "epochs in which the rate first rises linearly, from warmup_fraction on; 0: none. one-cycle and triangular, "
          "which rise by themselves, then begin their cycle"),
      number(
          "learning_rate.warmup_fraction", AT(plan.learning_rate.warmup_fraction), 0.1, fraction,
          "where that rise begins, as a fraction of the rate after it for one worker (of base; of start_fraction of it "
          "with one-cycle and triangular); 1: as Goyal et al.")
          .only(above("learning_rate.warmup_epochs", 0)),
      list("learning_rate.step_epochs", AT(plan.learning_rate.step_epochs), above_0,
           "epochs after which the rate falls")
          .only(in_steps)
          .only(falls),
      number("learning_rate.step_factor", AT(plan.learning_rate.step_factor), 0.1, above_0,
             "factor of the rate when it falls")
          .only(in_steps),
      number("learning_rate.final_fraction", AT(plan.learning_rate.final_fraction), 0, fraction,
             "the last rate, as a fraction of the full one")
          .only(is("learning_rate.schedule", {"cosine", "one-cycle", "triangular"})),
      number("learning_rate.peak_at", AT(plan.learning_rate.peak_at), 0.3, below_1,
             "when the rate is highest, as a fraction of training")
          .only(in_a_cycle),
      number("learning_rate.start_fraction", AT(plan.learning_rate.start_fraction), 0.04, fraction,
             "the first rate, as a fraction of the full one")
          .only(in_a_cycle)
          .only(above("learning_rate.peak_at", 0)),
      number("learning_rate.vector_factor", AT(plan.optimiser.vector_factor), 1, above_0,
             "factor of the rate for biases and for weights of normalisations"),
      number("learning_rate.head_factor", AT(plan.optimiser.head_factor), 1, above_0,
             "factor of the rate for the last matrix"),
      word("exchange.route", AT(plan.exchange.route), "auto",
           "the all-reduce algorithm of strategies whose route is any (ripieno list routes); auto: two-phase between "
           "workers that share memory, else ring; native: MPI's own, with transport.kind = mpi",
           names_in(collective::routes(), {"auto", "native"}))
          .only(exchanged),
      word("exchange.small_route", AT(plan.exchange.small_route), "auto",
           "the same for buckets of up to exchange.small_kb; auto: exchange.route's",
           names_in(collective::routes(), {"auto"}))
          .only(open_route)
          .only(floats)
          .only(above("exchange.small_kb", 0))
          .only(not_measured),
      kib("exchange.small_kb", AT(plan.exchange.small_bytes), 0, {0, 1048576},
          "largest bucket that takes exchange.small_route, in 1024 bytes; 0: none")
          .only(open_route)
          .only(floats)
          .only(small_route)
          .only(not_measured),
      word("exchange.codec", AT(plan.exchange.codec.name), "auto",
           "how numbers are encoded (ripieno list codecs); auto: as they are in memory", names_in(codec::codecs()))
          .only(exchanged),
      converted(
          "exchange.bucket_mb", AT(compute.bucket_bytes), [](double mb) { return static_cast<std::size_t>(mb * 1e6); },
          25, {0.001, 4096}, "gradients exchanged together, in 10^6 bytes")
          .only(buckets)
          .only(not_measured),
      kib("exchange.segment_kb", AT(plan.exchange.segment_bytes), 0, {0, 1048576},
          "segments of a bucket that go through a route, in 1024 bytes; 0: never cut")
          .only(segments)
          .only(not_measured),
      choice("exchange.measure", AT(measure),
             {{"auto", MeasureLinks::automatic}, {"on", MeasureLinks::on}, {"off", MeasureLinks::off}},
             "on: measure the links at the start and choose bucket_mb, segment_kb and small_* for them; auto: ddp does "
             "so if none of these is given and not all workers share memory")
          .only(measures),
      whole("exchange.in_flight", AT(plan.exchange.in_flight), 0, {0, 256}, "buckets averaged at the same time; 0: all")
          .only(ddp),
      choice("exchange.overlap", AT(plan.exchange.forward), {{"backward", false}, {"forward", true}},
             "what runs during the exchange: the backward pass; forward: also the next forward pass")
          .only(forward),
      whole("exchange.per_node", AT(per_node), 1, {1, 4096}, "ranks on each node").only(nodes),
      flag("codec.error_feedback", AT(plan.exchange.codec.error_feedback), true,
           "add what a lossy codec loses to the numbers sent next")
          .only(codec_of({Kind::block, Kind::gathered, Kind::low_rank}))
          .only(differences),
      whole("codec.block", AT(plan.exchange.codec.block), 256, {8, 1048576},
            "numbers that share a scale, a multiple of 8")
          .only(in_blocks),
      whole("codec.bits", AT(plan.exchange.codec.bits), 4, {2, 8}, "bits of each number")
          .only(is("exchange.codec", {"qsgd"})),
      number("codec.fraction", AT(plan.exchange.codec.fraction), 0.01, {0, 1, true, false},
             "fraction of the numbers to send")
          .only(codec_of({Kind::gathered})),
      whole("codec.rank", AT(plan.exchange.codec.rank), 2, {1, 64}, "rank of the two factors")
          .only(codec_of({Kind::low_rank})),
      whole("ps.servers", AT(plan.servers.count), 1, {1, 4096}, "servers that share the model").only(servers),
      choice("ps.placement", AT(plan.servers.beside), {{"own", false}, {"beside", true}},
             "own: servers have their own ranks; beside: server i runs in worker i's process")
          .only(servers),
      whole("ps.staleness", AT(plan.servers.staleness), 2, {0, 1000000},
            "steps that a worker may be ahead of the slowest")
          .only(strategy_of({"ps-ssp"})),
      whole("fedavg.local_epochs", AT(plan.federated.local_epochs), 1, {1, 1000},
            "epochs that a client trains between two averages")
          .only(federated),
      number("fedavg.fraction", AT(plan.federated.fraction), 1, {0, 1, true, false},
             "fraction of the clients that takes part in a round")
          .only(federated),
      choice("fedavg.exchange", AT(plan.federated.deltas), {{"parameters", false}, {"deltas", true}},
             "what clients send: their parameters, or their differences to the last average")
          .only(federated),
      choice("fedavg.batch_norm", AT(plan.federated.statistics),
             {{"mean", strategy::Statistics::mean},
              {"rank0", strategy::Statistics::rank0},
              {"local", strategy::Statistics::local}},
             "whose batch-norm statistics count: rank 0's, the mean of all, or each client's own")
          .only(federated),
      whole("local.steps", AT(plan.local.steps), 8, {1, 1000000},
            "steps that a worker takes by itself between two exchanges")
          .only(local_steps),
      whole("local.fragments", AT(plan.local.fragments), 1, {1, 10000}, "parts of the model that are exchanged in turn")
          .only(local_steps),
      whole("local.delay", AT(plan.local.delay), 0, {0, 1000000},
            "steps that a worker computes while an exchange is in flight")
          .only(local_steps),
      number("outer.learning_rate", AT(plan.outer.learning_rate), 0, {0, 1000},
             "rate of the step along the mean difference; 0: the strategy's own")
          .only(strategy_of({"fedavg", "fedavgm", "fedadam", "local-sgd", "diloco"})),
      number("outer.momentum", AT(plan.outer.momentum), 0.9, below_1, "momentum of that step")
          .only(strategy_of({"fedavgm", "diloco"})),
      number("outer.beta1", AT(plan.outer.beta1), 0.9, below_1, "decay of the running mean of differences")
          .only(fedadam),
      number("outer.beta2", AT(plan.outer.beta2), 0.99, below_1, "decay of the running mean of squared differences")
          .only(fedadam),
      number("outer.epsilon", AT(plan.outer.epsilon), 1e-3, from_0, "added to the denominator of that step")
          .only(fedadam),
  };
}
#undef AT

}  // namespace

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> all = [] {
    std::vector<Setting> rows = table();
    for (Setting& row : running_settings()) rows.push_back(std::move(row));
    return rows;
  }();
  return all;
}

}  // namespace ripieno::program
