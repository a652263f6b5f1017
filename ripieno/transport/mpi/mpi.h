// What the transport needs of an MPI: plugin.h for C++. The real one is library.h's; tests have one of their own.
#pragma once

#include <optional>

#include "ripieno/core/span.h"
#include "ripieno/transport/mpi/plugin.h"

namespace ripieno::transport {

/// Used by one thread at a time. Every call may throw an Error(network) that says what MPI said.
class Mpi {
 public:
  using Request = ripieno_mpi_request;
  using Place = ripieno_mpi_place;
  struct Taken {
    int from = 0;
    std::size_t bytes = 0;
  };
  /// The most bytes of a message.
  static constexpr std::size_t most_bytes = 1 << 30;

  virtual ~Mpi() = default;

  virtual Place place() const = 0;
  /// The memory must live until test() is true.
  virtual Request send(int peer, int tag, ConstBytes data) = 0;
  virtual Request receive(int peer, int tag, Bytes into) = 0;
  virtual bool test(Request& request) = 0;
  /// A message with this tag that fits into `into`, from this rank or from any (-1), if one has come.
  virtual std::optional<Taken> take(int source, int tag, Bytes into) = 0;
  /// Begins to open a lane, and a collective of one: see plugin.h.
  virtual Request open_lane(int lane) = 0;
  virtual Request run(const ripieno_mpi_collective& collective) = 0;
  /// All ranks call it, once they want nothing more of each other.
  virtual void stop() = 0;
};

}  // namespace ripieno::transport
