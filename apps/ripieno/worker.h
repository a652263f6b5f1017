// The process of one rank, started by a launcher.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ripieno/core/error.h"
#include "ripieno/launch/control.h"
#include "ripieno/model/zoo.h"

namespace ripieno::program {

/// A rank throws it instead of an error that its launcher has been told of and reports, so that the error is printed
/// once.
struct Reported {
  ErrorKind kind;
};

/// Calls `part`, a rank's part of a job, and tells the launcher if it fails. Throws Reported if a launcher listens,
/// else the error itself.
void run_part(launch::Control& control, const std::function<void()>& part);

/// Tells the launcher what it can do without, and delivers what it cannot.
void tell(launch::Control& control, const nlohmann::json& message);

/// The `worker` command: this process is one rank of a job that a launcher started.
void run_worker(const std::filesystem::path& folder, const std::string& resume, const model::Zoo& zoo);

}  // namespace ripieno::program
