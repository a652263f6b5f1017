// A recipe's values in the option structs of the rooms that use them. settings_table.cpp binds each key to its member
// and has the defaults. Values that follow from several keys, such as the number of ranks, are in job.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ripieno/core/runtime.h"
#include "ripieno/data/augment.h"
#include "ripieno/data/dataset.h"
#include "ripieno/data/sampler.h"
#include "ripieno/launch/lab.h"
#include "ripieno/model/initialise.h"
#include "ripieno/strategy/strategy.h"
#include "ripieno/transport/shaped.h"
#include "ripieno/transport/simulated/network.h"
#include "ripieno/transport/transports.h"

namespace ripieno::program {

struct BatchOptions {
  std::uint32_t global = 0, per_worker = 0;  ///< samples per step, of all workers or of each; one of them is 0
};

/// How a worker computes.
struct ComputeOptions {
  std::string precision, device;
  model::Initialisation first_weights = model::Initialisation::standard;
  bool replayed = false;  ///< wait for measured times, or charge them, instead of computing
  bool channels_last = true;
  std::size_t bucket_bytes = 0;
  double label_smoothing = 0;
  double dropout = -1;  ///< -1: the model's own rates
  std::uint32_t accumulate = 1;
  int threads = 1;  ///< 0: cores divided by workers
  std::uint32_t first_layer_epochs = 0;
  std::string test_views;
  std::uint32_t evaluation_batch = 0;
  Duration image_cost{0};            ///< in virtual time
  std::vector<double> slow;          ///< in real time, of each rank
  std::vector<double> virtual_slow;  ///< in virtual time
  double virtual_slow_all = 1;       ///< likewise, of all workers
};

/// Whether to measure links and choose the exchange by them.
enum class MeasureLinks : std::uint8_t { automatic, on, off };

struct TransportOptions {
  std::string kind = "tcp";  ///< a name in the table of transport/transports.h
  std::string listen, interface;
  Duration timeout{0};
  transport::Shape shape;
};

/// Whether a new run goes on from an earlier one that has not finished.
enum class GoOn : std::uint8_t { never, after_restart, always };

struct RunOptions {
  std::string folder, name;
  GoOn resume = GoOn::never;
  int checkpoint_every = 0;
  Duration checkpoint_between{0};  ///< the least time between two that are made for safety; 0: none
  Duration sample_every{0};
  std::uint64_t left_out_steps = 0;  ///< of each worker's rate, the first
  bool trace = false;
};

struct Options {
  std::string model, strategy;
  int workers = 0;
  std::uint64_t seed = 0;
  bool scale_rate = false;  ///< multiply the learning rate by the number of workers
  std::string data_name;
  data::DataOptions data;
  data::SamplerOptions sampling;  ///< how data is divided, not yet for a worker
  data::AugmentOptions augmentation;
  std::vector<double> mean, deviation;  ///< of each channel; empty: the data set's
  BatchOptions batch;
  ComputeOptions compute;
  strategy::Plan plan;
  MeasureLinks measure = MeasureLinks::automatic;
  int per_node = 1;  ///< ranks per node, for hierarchical routes
  TransportOptions transport;
  launch::LabOptions lab;
  transport::SimulatedOptions simulated;
  std::vector<double> deaths_s;  ///< virtual seconds; 0: never
  RunOptions run;

  bool in_virtual_time() const { return transport::find_transport(transport.kind).is_virtual(); }
};

}  // namespace ripieno::program
