#include "ripieno/transport/cluster.h"

#include <exception>

namespace ripieno {

Cluster::~Cluster() {
  if (!runtime || !endpoint || endpoint->has_flushed() || std::uncaught_exceptions() > 0) return;
  try {
    runtime->spawn("the last messages", endpoint->flush());
    runtime->run();
  } catch (const std::exception&) {  // whom they were for has been lost
  }
}

}  // namespace ripieno
