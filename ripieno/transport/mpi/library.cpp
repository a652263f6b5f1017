#include "ripieno/transport/mpi/library.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>

namespace ripieno::transport {
namespace {

namespace fs = std::filesystem;

class LoadedMpi final : public Mpi {
 public:
  explicit LoadedMpi(const ripieno_mpi_functions& functions) : functions_(functions) {
    if (functions_.has_ended()) {
      fail(ErrorKind::usage,
           "MPI has ended in this process and cannot start again: join() once, or start MPI yourself "
           "(MPI_Init_thread) before the first join()");
    }
    check(functions_.start(&place_), "starting");
    if (!functions_.allows_threads()) {
      fail(ErrorKind::usage, library(), " lets only one thread use it: start it with MPI_THREAD_SERIALIZED");
    }
  }

  Place place() const override { return place_; }
  Request send(int peer, int tag, ConstBytes data) override {
    Request request{};
    check(functions_.send(peer, tag, data.data(), data.size(), &request), "sending");
    return request;
  }
  Request receive(int peer, int tag, Bytes into) override {
    Request request{};
    check(functions_.receive(peer, tag, into.data(), into.size(), &request), "receiving");
    return request;
  }
  bool test(Request& request) override {
    int done = 0;
    check(functions_.test(&request, &done), "waiting for a message");
    return done != 0;
  }
  std::optional<Taken> take(int source, int tag, Bytes into) override {
    int taken = 0;
    Taken message;
    check(functions_.take(source, tag, into.data(), into.size(), &taken, &message.from, &message.bytes),
          "waiting for a message");
    return taken ? std::optional(message) : std::nullopt;
  }
  Request open_lane(int lane) override {
    Request request{};
    check(functions_.open_lane(lane, &request), "copying a communicator");
    return request;
  }
  Request run(const ripieno_mpi_collective& collective) override {
    Request request{};
    check(functions_.run(&collective, &request), "starting a collective");
    return request;
  }
  void stop() override { check(functions_.stop(), "ending"); }

  std::string library() const {
    std::array<char, 200> text{};
    functions_.library(text.data(), text.size());
    return text.data();
  }

 private:
  void check(int code, const char* doing) const {
    if (code == 0) return;
    std::array<char, 500> text{};
    functions_.explain(code, text.data(), text.size());
    fail(ErrorKind::network, functions_.kind, " failed while ", doing, ": ", text.data());
  }

  const ripieno_mpi_functions& functions_;
  Place place_{};
};

/// Where a plug-in may lie: beside the program, and where the program's package has it.
std::vector<fs::path> places_of(const std::string& file) {
  const fs::path program = fs::read_symlink("/proc/self/exe").parent_path();
  return {program / file, program.parent_path() / "lib" / "ripieno" / file};
}

fs::path find_plugin(const MpiChoice& choice) {
  if (!choice.plugin.empty()) return choice.plugin;
  const std::string file = plugin_file(choice.kind);
  std::string looked;
  for (const fs::path& path : places_of(file)) {
    if (fs::exists(path)) return path;
    looked += (looked.empty() ? "" : " or ") + path.parent_path().string();
  }
  fail(ErrorKind::usage, "there is no plug-in for ", choice.kind, " (", file, " in ", looked,
       "): make it with scripts/mpi ",
       "in Ripieno's tree, where this MPI's mpicc is found, or name its file in RIPIENO_MPI_PLUGIN (docs/clusters.md)");
}

/// A plug-in stays loaded: MPI does not like to leave.
const ripieno_mpi_functions& load(const fs::path& path) {
  void* const loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!loaded) fail(ErrorKind::usage, "the plug-in for MPI cannot be loaded: ", dlerror());
  void* const found = dlsym(loaded, "ripieno_mpi");
  if (!found) fail(ErrorKind::usage, path.string(), " is no plug-in for MPI: it has no function ripieno_mpi");
  const ripieno_mpi_functions& functions = *reinterpret_cast<decltype(&ripieno_mpi)>(found)();
  if (functions.version != RIPIENO_MPI_VERSION) {
    fail(ErrorKind::usage, path.string(), " is a plug-in of version ", functions.version, ", but this program needs ",
         RIPIENO_MPI_VERSION, ": build both together");
  }
  return functions;
}

}  // namespace

std::string plugin_file(const std::string& kind) {
  return kind == "Open MPI" ? "ripieno-mpi-openmpi.so" : "ripieno-mpi-mpich.so";
}

std::string known_plugins() {
  std::string known;
  for (const char* const kind : {"Open MPI", "MPICH"}) {
    for (const fs::path& path : places_of(plugin_file(kind))) {
      if (!fs::exists(path)) continue;
      known += text(known.empty() ? "" : ", ", kind, ": ", path.string());
      break;
    }
  }
  return known.empty() ? "none: scripts/mpi compiles them (docs/clusters.md)" : known;
}

std::shared_ptr<Mpi> start_mpi(const Joining& joining) {
  if (joining.mpi.kind.empty()) {
    fail(ErrorKind::usage, "transport mpi needs processes that an MPI's launcher started: ", joining.mpi.unknown);
  }
  const auto mpi = std::make_shared<LoadedMpi>(load(find_plugin(joining.mpi)));
  const Mpi::Place place = mpi->place();
  if (place.rank == joining.rank && place.size == joining.size) return mpi;
  fail(ErrorKind::usage, "this process is rank ", joining.rank, " of ", joining.size, " (", joining.mpi.launcher,
       "), but for MPI (", mpi->library(), ") it is rank ", place.rank, " of ", place.size,
       ": that library does not know this launcher; use the mpirun that belongs to it");
}

}  // namespace ripieno::transport
