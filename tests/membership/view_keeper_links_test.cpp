// Ranks that compute sums together over links in virtual time, and go on without those that end: view keepers, links,
// aborts and communicators as they are over tcp.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ripieno/collective/communicator.h"
#include "ripieno/core/random.h"
#include "ripieno/membership/view_keeper.h"
#include "ripieno/transport/simulated/linked_network.h"

namespace ripieno::membership {
namespace {

using collective::Communicator;
using std::chrono::milliseconds;

constexpr std::uint64_t for_views = 0x7669657773;  // "views"

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

/// A rank's part: it adds up what all have, step after step. What a step gives is kept by its number.
class Adder : public std::enable_shared_from_this<Adder> {
 public:
  Adder(Runtime& runtime, std::shared_ptr<transport::LinkedEndpoint> endpoint) : endpoint_(std::move(endpoint)) {
    Seats all;
    for (int seat = 0; seat < endpoint_->size(); ++seat) all.push_back(seat);
    const auto tell = [this](int seat, const std::string& note) { endpoint_->tell_of_views(seat, note); };
    const auto call_at = [&runtime](Duration when, Callback callback) { runtime.call_at(when, std::move(callback)); };
    const auto taken = [this](const View& view) { end_old(view); };
    keeper_ = std::make_shared<ViewKeeper>(runtime, endpoint_->rank(), all, ViewKeeperOptions(),
                                           ViewKeeper::Ways{tell, call_at, taken});
    endpoint_->listen_to_views([keeper = keeper_](int peer, std::string_view note) { keeper->hear(peer, note); });
    endpoint_->watch_ends([keeper = keeper_](int peer) { keeper->lose(peer); });
    comm_ = of(keeper_->view());
    keeper_->start();
  }
  ~Adder() { keeper_->end(); }
  Adder(const Adder&) = delete;
  Adder& operator=(const Adder&) = delete;

  Task<> add(int steps) {
    while (static_cast<int>(sums_.size()) < steps) {
      std::exception_ptr loss;
      std::int64_t sum = 0;
      try {
        sum = co_await comm_->all_reduce(std::int64_t{1} << endpoint_->rank());
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::peer) throw;
        loss = std::current_exception();
      }
      if (loss) {
        co_await go_on(loss);
      } else {
        sums_.push_back(sum);
      }
    }
  }

  const std::vector<std::int64_t>& sums() const { return sums_; }
  ViewKeeper& keeper() { return *keeper_; }

 private:
  std::optional<Communicator> of(const View& view) const {
    return Communicator(endpoint_, view.seats, Random(for_views, view.number).next());
  }
  void end_old(const View& view) {
    const Error error(Loss{}, text("rank ", endpoint_->rank(), ": from now on there is ", describe(view)));
    if (comm_) comm_->abort(std::make_exception_ptr(error));
  }
  /// With the next view, in which all catch up with who has taken the step.
  Task<> go_on(std::exception_ptr loss) {
    while (loss) {
      comm_->abort(loss);
      const View view = co_await keeper_->after(number_);
      number_ = view.number;
      comm_ = of(view);
      Task<> catching_up = catch_up();
      loss = co_await loss_in(std::move(catching_up));
    }
  }
  Task<> catch_up() {
    struct Last {
      std::int64_t steps, sum;
    };
    const Last own{static_cast<std::int64_t>(sums_.size()), sums_.empty() ? 0 : sums_.back()};
    const std::vector<Last> all = co_await comm_->all_gather(own);
    for (const Last& one : all) {
      EXPECT_LE(std::abs(one.steps - own.steps), 1) << "nobody is further apart";
      if (one.steps == own.steps + 1 && static_cast<std::int64_t>(sums_.size()) == own.steps) sums_.push_back(one.sum);
    }
  }

  const std::shared_ptr<transport::LinkedEndpoint> endpoint_;
  std::shared_ptr<ViewKeeper> keeper_;
  std::optional<Communicator> comm_;
  std::uint32_t number_ = 0;
  std::vector<std::int64_t> sums_;
};

Task<> until_its_end(Adder* adder, transport::LinkedNetwork* network, int rank, int steps) {
  Task<> adding = adder->add(steps);
  const std::exception_ptr error = co_await error_of(std::move(adding));
  if (error) adder->keeper().end();
  if (error && !network->dead(rank)) std::rethrow_exception(error);
}

/// What each rank has added, and the bits of those that live.
struct Added {
  std::vector<std::vector<std::int64_t>> sums;
  std::int64_t living = 0;
};

/// Runs a world of so many ranks, in which some end, each at a message of its own.
Added run(std::uint64_t seed, int ranks, int steps) {
  Random random(seed, 1);
  const auto runtime = virtual_runtime(seed);
  transport::LinkedNetwork network(*runtime, ranks);
  std::vector<std::unique_ptr<Adder>> adders;
  for (int rank = 0; rank < ranks; ++rank) adders.push_back(std::make_unique<Adder>(*runtime, network.linked(rank)));
  const auto deaths = 1 + random.below(static_cast<std::uint64_t>(ranks - 1));
  std::set<int> ended;
  for (std::uint64_t i = 0; i < deaths; ++i) {
    const int rank = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks)));
    if (ended.insert(rank).second) network.kill_at_message(rank, random.below(120));
  }
  // What a launcher tells of ended processes.
  network.watch_deaths([&](int rank) {
    for (int other = 0; other < ranks; ++other) {
      const Duration when = runtime->now() + milliseconds(1 + static_cast<int>(random.below(30)));
      if (other != rank) runtime->call_at(when, [&adders, other, rank] { adders[at(other)]->keeper().died(rank); });
    }
  });
  for (int rank = 0; rank < ranks; ++rank)
    runtime->spawn(text("rank ", rank), until_its_end(adders[at(rank)].get(), &network, rank, steps));
  runtime->run();
  Added added;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!network.dead(rank)) added.living |= std::int64_t{1} << rank;
    const bool is_through = network.dead(rank) || adders[at(rank)]->sums().size() == static_cast<std::size_t>(steps);
    EXPECT_TRUE(is_through) << "rank " << rank << " has taken " << adders[at(rank)]->sums().size() << " steps";
    added.sums.push_back(adders[at(rank)]->sums());
  }
  return added;
}

TEST(ViewKeeperOverLinks, WhoeverEndsTheOthersGoOnAndAgreeOnEveryStep) {
  int with_losses = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 7);
    constexpr int steps = 60;
    const Added added = run(seed, ranks, steps);
    const std::int64_t all = (std::int64_t{1} << ranks) - 1;
    std::int64_t before = all;
    for (int step = 0; step < steps; ++step) {
      std::set<std::int64_t> found;
      for (const auto& own : added.sums) {
        if (own.size() > at(step)) found.insert(own[at(step)]);
      }
      ASSERT_EQ(found.size(), 1u) << "seed " << seed << ", step " << step;
      const std::int64_t sum = *found.begin();
      ASSERT_EQ(sum & ~before, 0) << "seed " << seed << ": who was gone is back in step " << step;
      ASSERT_EQ(sum & added.living, added.living) << "seed " << seed << ": who lives is missing in step " << step;
      before = sum;
    }
    with_losses += before != all ? 1 : 0;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(with_losses, 200);
}

}  // namespace
}  // namespace ripieno::membership
