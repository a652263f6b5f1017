// Notices ranks that give the same broadcast, reduce, gather or scatter different roots. Its own messages do not always
// show it: a rank that takes itself for the root of a broadcast only sends, and two roots of a reduce wait for each
// other. So each rank tells the next one, in a ring, which root it has, and nobody waits for that: of ranks that do not
// all have the same root, two neighbours differ.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "ripieno/collective/communicator.h"

namespace ripieno::c10d {

/// Used on the runtime's thread alone.
class RootCheck : public std::enable_shared_from_this<RootCheck> {
 public:
  /// Of operations on `group`; its own messages have a scope of their own.
  explicit RootCheck(const collective::Communicator& group);

  /// This rank begins an operation; all ranks begin them in the same order. Once the rank before it turns out to have
  /// begun another one, or with another root, the group's communicator ends with Error(mismatch), which names both.
  void begins(const char* operation, std::uint64_t number, int root);
  /// Ends what this rank still waits to hear; the others are not told. Until then it keeps the endpoint.
  Task<> close() { return close(shared_from_this()); }

 private:
  struct Begun {
    std::uint64_t number = 0;
    std::int32_t root = 0;
    std::array<char, 52> operation{};  ///< ends with a zero
    bool operator==(const Begun&) const = default;
  };
  using Self = std::shared_ptr<RootCheck>;

  static Task<> close(Self self);
  static Task<> tell(Self self, Begun own);
  static Task<> hear(Self self, Begun own);
  static Task<> counted(Self self, Task<> task);
  void start(Task<> task);

  const collective::Communicator group_, comm_;
  const transport::Message message_;
  int running_ = 0;  ///< tasks that run beside the operations
};

}  // namespace ripieno::c10d
