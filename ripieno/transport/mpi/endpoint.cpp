#include "ripieno/transport/mpi/endpoint.h"

#include <algorithm>
#include <iostream>
#include <thread>

#include "ripieno/transport/linked_endpoint.h"
#include "ripieno/transport/mpi/collectives.h"
#include "ripieno/transport/mpi/library.h"
#include "ripieno/transport/mpi/link.h"

namespace ripieno::transport {
namespace {

constexpr Duration after_error = std::chrono::seconds(5);

class MpiEndpoint final : public LinkedEndpoint {
 public:
  MpiEndpoint(Runtime& runtime, int rank, std::vector<std::shared_ptr<MpiLink>> links, std::shared_ptr<Aborts> aborts,
              std::shared_ptr<MpiHub> hub, std::shared_ptr<MpiCollectives> collectives, Duration timeout)
      : LinkedEndpoint(runtime, rank, {links.begin(), links.end()}, aborts),
        aborts_(std::move(aborts)),
        links_(std::move(links)),
        hub_(std::move(hub)),
        collectives_(std::move(collectives)),
        timeout_(timeout) {
    aborts_->watch([weak = std::weak_ptr(collectives_)](const Abort& abort) {
      const auto alive = weak.lock();
      if (alive && abort.scope == 0) alive->stop(abort.error);
    });
  }

  ~MpiEndpoint() override {
    const auto is_missed = [this](const auto& link) { return link && !link->takes(hub_->part()); };
    const bool failed =
        aborts_->find(0) || std::uncaught_exceptions() > 0 || std::any_of(links_.begin(), links_.end(), is_missed);
    MpiEndpoint::close(closed());
    const Duration limit = failed ? after_error : timeout_;
    try {
      if (!hub_->finish(limit)) {
        tell(text("MPI has failed, another rank has given it up or not ended within ", seconds(limit),
                  " s, or a collective has not ended"));
      } else {
        hub_->mpi().stop();
      }
    } catch (const std::exception& error) {
      tell(error.what());
    }
  }

  /// MPI does not tell whom a collective waits for.
  std::vector<int> awaited() const override {
    if (!collectives_->waits()) return LinkedEndpoint::awaited();
    std::vector<int> ranks;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) ranks.push_back(peer);
    }
    return ranks;
  }

  std::span<const EngineOperation> engine() const override { return MpiCollectives::operations(); }
  void open_engine(Channel channel) override { collectives_->open(channel); }
  Task<> run_engine(Collective collective, Message message, NumberSpan numbers, EngineTerms terms) override {
    return collectives_->run(collective, message, numbers, terms);
  }
  Task<std::vector<int>> survivors() override {
    fail(ErrorKind::peer, "rank ", rank(), ": over MPI a lost rank ends the job");
  }

 private:
  void close(std::exception_ptr error) override {
    collectives_->stop(error);
    LinkedEndpoint::close(error);
  }

  /// Nobody can be thrown an error here.
  void tell(const std::string& why) const {
    std::cerr << text("ripieno: rank ", MpiEndpoint::rank(), ": ends without MPI_Finalize: ", why, "\n") << std::flush;
  }

  const std::shared_ptr<Aborts> aborts_;
  const std::vector<std::shared_ptr<MpiLink>> links_;
  const std::shared_ptr<MpiHub> hub_;
  const std::shared_ptr<MpiCollectives> collectives_;
  const Duration timeout_;
};

}  // namespace

std::shared_ptr<Endpoint> mpi_endpoint(Runtime& runtime, std::shared_ptr<Mpi> mpi, LinkOptions options) {
  const Mpi::Place place = mpi->place();
  const auto aborts = std::make_shared<Aborts>(place.rank);
  const auto hub = std::make_shared<MpiHub>(runtime, std::move(mpi));
  std::vector<std::shared_ptr<MpiLink>> links(static_cast<std::size_t>(place.size));
  for (int peer = 0; peer < place.size; ++peer) {
    if (peer == place.rank) continue;
    links[static_cast<std::size_t>(peer)] = std::make_shared<MpiLink>(runtime, place.rank, peer, options, aborts, hub);
  }
  const auto collectives = std::make_shared<MpiCollectives>(runtime, place.rank, links, options, aborts, hub);
  hub->start(links, collectives, static_cast<int>(std::thread::hardware_concurrency()) >= place.local_size);
  return std::make_shared<MpiEndpoint>(runtime, place.rank, std::move(links), aborts, hub, collectives,
                                       options.timeout);
}

Task<std::shared_ptr<Endpoint>> join_by_mpi(Joining joining) {
  if (joining.size == 1) {
    const auto aborts = std::make_shared<Aborts>(0);
    co_return std::make_shared<LinkedEndpoint>(joining.runtime, 0, std::vector<std::shared_ptr<PeerLink>>(1), aborts);
  }
  co_return mpi_endpoint(joining.runtime, start_mpi(joining), joining.link);
}

}  // namespace ripieno::transport
