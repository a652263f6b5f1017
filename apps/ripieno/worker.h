// The process of one rank that a launcher started.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "ripieno/core/error.h"
#include "ripieno/launch/control.h"
#include "ripieno/model/zoo.h"

namespace ripieno::program {

/// Thrown by a rank in place of an error that its launcher was told of and reports, so that it is printed once.
struct Reported {
  ErrorKind kind;
};

/// Calls `part`, a rank's part of a job; tells the launcher why it fails. Throws Reported where a launcher listens,
/// else the error itself.
void run_part(launch::Control& control, const std::function<void()>& part);

/// The `worker` command: this process is one rank of a job that a launcher started.
void run_worker(const std::filesystem::path& folder, const std::string& resume, const model::Zoo& zoo);

}  // namespace ripieno::program
