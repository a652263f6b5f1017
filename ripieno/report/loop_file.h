// A run folder's loop.json: what a loop of one's own says of its run when that begins, in place of a recipe.
//
//   {"schema": 1, "name": "resnet18", "strategy": "ddp", "codec": "none", "model": "ResNet", "dataset": "cifar10",
//    "world_size": 4, "seed": 0, "counts_bytes": true,   as in summary.json; counts_bytes: whether the exchange's are
//    known "settings": {"lr": "0.1", "optimiser": "\"SGD\""}}  of the loop's own, by its own keys, with values in TOML
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "ripieno/report/summary.h"

namespace ripieno::report {

struct LoopFile {
  Summary known;  ///< the fields above
  std::map<std::string, std::string> settings;
};

std::string to_json(const LoopFile& loop);

/// Throws Error(io), Error(data): as read_summary().
LoopFile read_loop(const std::filesystem::path& file);

}  // namespace ripieno::report
