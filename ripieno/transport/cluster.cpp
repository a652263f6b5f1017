#include "ripieno/transport/cluster.h"

#include <exception>

namespace ripieno::transport {

Progress& Cluster::progress() {
  if (!progress_) progress_ = std::make_unique<Progress>(*runtime);
  return *progress_;
}

Cluster::~Cluster() {
  if (!runtime || !endpoint || endpoint->has_flushed() || std::uncaught_exceptions() > 0) return;
  try {
    progress().run("the last messages", endpoint->flush());
  } catch (const std::exception&) {  // their receiver has been lost
  }
}

}  // namespace ripieno::transport
