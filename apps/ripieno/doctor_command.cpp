#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/program_runs.h"
#include "ripieno/launch/placement.h"
#include "ripieno/train/device.h"
#include "ripieno/train/precision.h"
#include "ripieno/transport/mpi/library.h"
#include "ripieno/transport/shared/memory.h"
#include "ripieno/transport/transports.h"

namespace ripieno::program {
namespace {

using Json = nlohmann::ordered_json;

/// Cores that this process may run on.
int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

/// What MKL hears when it asks whether it may use its AVX-512 kernels: from the executable `ripieno` (mkl_kernels.h),
/// or from itself.
bool mkl_takes_avx512() {
  __builtin_cpu_init();
  const auto asked = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "mkl_serv_intel_cpu_true"));
  return __builtin_cpu_supports("avx512f") && asked && asked();
}

Json interfaces() {
  std::set<std::string> names;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) == 0) {
    for (const ifaddrs* one = first; one; one = one->ifa_next) {
      if (one->ifa_flags & IFF_UP) names.insert(one->ifa_name);
    }
    freeifaddrs(first);
  }
  return Json(names);
}

std::string shared_memory(const launch::Placement& place) {
  if (!place.shared_memory) return "off: RIPIENO_SHARED_MEMORY says so";
  try {
    const transport::SharedMemory tried = transport::SharedMemory::make(transport::page_bytes);
    transport::SharedMemory::open(::getpid(), tried.fd(), 0, transport::page_bytes,
                                  transport::SharedMemory::Access::write);
    return "on: between workers of this host";
  } catch (const Error& error) {
    return text("off: ", error.what());
  }
}

std::string how_ranks_meet(const launch::Placement& place) {
  if (!place.cannot_meet.empty()) return "cannot: " + place.cannot_meet;
  if (place.world_size == 1) return "there is one";
  if (place.invitation) return "by the file that rank 0 leaves: " + place.invitation->name();
  return text("at ", place.rendezvous, ", which ",
              place.opens_rendezvous ? "this process opens" : "another process opens");
}

Json examine() {
  const launch::Placement place = launch::placement();
  Json json = Json::parse(environment_json());
  json["usable_cores"] = usable_cores();
  json["vector_instructions"] = at::get_cpu_capability();
  for (const std::string precision : {"bf16", "fp16"}) {
    json[precision] = train::has_instructions(train::find_precision(precision)) ? "in hardware"
                                                                                : "by way of fp32, and slower than it";
  }
  json["gpus"] = train::gpus();
  json["launcher"] = place.launcher + (place.read.empty() ? "" : " (" + place.read + ")");
  json["rank"] = place.rank;
  json["world_size"] = place.world_size;
  json["ranks_meet"] = how_ranks_meet(place);
  json["interfaces"] = interfaces();
  json["transports"] = Json::array();
  for (const transport::Transport& transport : transport::transports()) json["transports"].push_back(transport.name);
  const char* const plugin = std::getenv("RIPIENO_MPI_PLUGIN");
  json["mpi_plugins"] = plugin ? text("RIPIENO_MPI_PLUGIN is ", plugin) : transport::known_plugins();
  json["shared_memory"] = shared_memory(place);
  json["listens_on"] = place.listen;
  json["openmp"] = at::hasOpenMP();
  json["onednn"] = at::hasMKLDNN();
  json["matrix_products"] = !at::hasMKL() ? "without MKL" : mkl_takes_avx512() ? "MKL, with AVX-512" : "MKL";
  json["data"] = std::getenv("RIPIENO_DATA") ? std::getenv("RIPIENO_DATA")
                                             : "RIPIENO_DATA is not set: only generated data is found by itself";
  json["version"] = RIPIENO_VERSION;
  return json;
}

}  // namespace

void add_doctor(CLI::App& app, CommandContext& context) {
  CLI::App* command =
      app.add_subcommand("doctor", "Show what Ripieno sees: launcher, cores, interfaces, features of the build");
  add_format(*command, context);
  command->callback([&context] {
    context.chosen = [&context] {
      const Json json = examine();
      if (context.format == "json") {
        std::cout << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
        return;
      }
      for (const auto& [key, value] : json.items()) {
        std::string line = value.is_string() ? value.get<std::string>() : value.is_array() ? "" : value.dump();
        if (value.is_array()) {
          for (const auto& one : value) line += (line.empty() ? "" : ", ") + one.get<std::string>();
        }
        std::cout << key << std::string(key.size() < 22 ? 22 - key.size() : 1, ' ') << line << "\n";
      }
    };
  });
}

}  // namespace ripieno::program
