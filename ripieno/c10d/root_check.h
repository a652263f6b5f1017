// Notices ranks that give the same broadcast, reduce, gather or scatter different roots. Its own messages do not always
// show it: a rank that takes itself for the root of a broadcast only sends, and two roots of a reduce wait for each
// other. So each rank tells the next one, in a ring, which root it has, and nobody waits for that: of ranks that do not
// all have the same root, two neighbours differ.
#pragma once

#include <array>
#include <cstdint>

#include "ripieno/collective/communicator.h"

namespace ripieno::c10d {

class RootCheck {
 public:
  /// On the runtime's thread, in the same order on all ranks.
  explicit RootCheck(const collective::Communicator& comm) : comm_(comm), channel_(comm.take_channels()) {}

  /// This rank begins an operation; all ranks begin them in the same order. Once the rank before it turns out to have
  /// begun another one, or with another root, the communicator ends with Error(mismatch), which names both.
  void begins(const char* operation, std::uint64_t number, int root) const;

 private:
  struct Begun {
    std::uint64_t number = 0;
    std::int32_t root = 0;
    std::array<char, 52> operation{};  ///< ends with a zero
    bool operator==(const Begun&) const = default;
  };
  static Task<> tell(collective::Communicator comm, transport::Message message, Begun own);
  static Task<> hear(collective::Communicator comm, transport::Message message, Begun own);

  const collective::Communicator comm_;
  const std::uint32_t channel_;
};

}  // namespace ripieno::c10d
