// Notices ranks that give the same broadcast, reduce, gather or scatter different roots. Its own messages do not always
// show it: a rank that takes itself for the root of a broadcast only sends, and two roots of a reduce wait for each
// other. So each rank tells the next one, in a ring, which root it has: of ranks that do not all have the same root,
// two neighbours differ. The operation itself does not wait for that; the next one that needs all ranks does.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/async.h"

namespace ripieno::c10d {

/// Used on the runtime's thread alone.
class RootCheck : public std::enable_shared_from_this<RootCheck> {
 public:
  /// Of operations on `group`; its own messages have a scope of their own, which ends with the group's.
  explicit RootCheck(const collective::Communicator& group);

  /// This rank begins an operation; all ranks begin them in the same order. Once the rank before it turns out to have
  /// begun another one, or with another root, the group's communicator ends with Error(mismatch), which names both.
  void begins(const char* operation, std::uint64_t number, int root);
  /// To be awaited by an operation without a root that has needed all ranks: until what began before it is compared.
  /// Null if nothing is to be awaited.
  const std::shared_ptr<Event>& latest() const { return latest_; }
  /// Throws the Error(mismatch) if there has been one.
  void throw_if_differs() const {
    if (mismatch_) std::rethrow_exception(mismatch_);
  }
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
  /// Of one operation's roots: the second of its two tasks to end sets the event.
  struct Comparison {
    explicit Comparison(Runtime& runtime) : over(std::make_shared<Event>(runtime)) {}
    int tasks = 2;
    const std::shared_ptr<Event> over;
  };
  static Task<> counted(Self self, Task<> task, std::shared_ptr<Comparison> comparison);
  void start(Task<> task, const std::shared_ptr<Comparison>& comparison);

  const collective::Communicator group_, comm_;
  const transport::Message message_;
  int running_ = 0;  ///< tasks that run beside the operations
  std::shared_ptr<Event> latest_;
  std::exception_ptr mismatch_;
};

}  // namespace ripieno::c10d
