#include "ripieno/transport/cluster.h"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <exception>

#include "ripieno/core/async.h"

namespace ripieno::transport {
namespace {

Task<> flush(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<Event> over) {
  co_await endpoint->flush();
  over->set();
}

/// flush(), but not for longer than `limit`.
Task<> flush_within(Duration limit, std::shared_ptr<Endpoint> endpoint) {
  Runtime& runtime = endpoint->runtime();
  const auto over = std::make_shared<Event>(runtime);
  asio::co_spawn(runtime.context(), flush(endpoint, over), asio::detached);
  const Runtime::Timer timer = runtime.call_at(runtime.now() + limit, [over] { over->set(); });
  co_await over->wait();
  runtime.cancel(timer);
}

}  // namespace

Progress& Cluster::progress() {
  if (!progress_) progress_ = std::make_unique<Progress>(*runtime);
  return *progress_;
}

Cluster::~Cluster() {
  if (!runtime || !endpoint || endpoint->has_flushed()) return;
  try {
    const bool is_failing = std::uncaught_exceptions() > 0;
    progress().run("the last messages", is_failing ? flush_within(telling_limit, endpoint) : endpoint->flush());
  } catch (const std::exception&) {  // their receiver has been lost
  }
}

}  // namespace ripieno::transport
