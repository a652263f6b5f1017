#include "ripieno/strategy/apart.h"

#include "ripieno/core/numbers.h"
#include "ripieno/strategy/together.h"

namespace ripieno {

Task<> start_apart(Communicator comm, Learner* learner, bool resumed) {
  if (!resumed) {
    co_await start_alike(comm, *learner);
    co_return;
  }
  const auto parameters = copy_of(learner->parameters());
  const auto buffers = copy_of(learner->buffers());
  co_await start_alike(comm, *learner);
  convert(learner->parameters(), parameters->span());
  convert(learner->buffers(), buffers->span());
}

}  // namespace ripieno
