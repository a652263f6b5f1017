// The table of transports, and one that is added to it.
#include "ripieno/transport/transports.h"

#include <gtest/gtest.h>

#include "ripieno/transport/simulated/network.h"
#include "tests/transport/ranks.h"

namespace ripieno::transport {
namespace {

using namespace ripieno::testing;

std::string refusal(const std::function<void()>& what, ErrorKind kind) {
  try {
    what();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "nothing was refused";
}

TEST(Transports, HaveRipienosAndWhatWasAdded) {
  std::vector<std::string_view> names;
  for (const Transport& transport : transports()) {
    names.push_back(transport.name);
    EXPECT_EQ(&find_transport(transport.name), &transport);
    EXPECT_EQ(transport.is_virtual(), transport.name == "simulated");
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"tcp", "mpi", "simulated", "queues"}));
}

TEST(Transports, OneThatIsNotThereIsRefusedWithThoseThatAre) {
  const auto find = [] { find_transport("tpc"); };
  EXPECT_EQ(refusal(find, ErrorKind::usage),
            "there is no transport \"tpc\" (did you mean \"tcp\"?); known are tcp, mpi, simulated, queues");
}

TEST(Transports, AreOfOneTimeAndHaveNamesOfTheirOwn) {
  const auto again = [] { add_transport(own::queues()); };
  EXPECT_EQ(refusal(again, ErrorKind::usage), "transport queues exists already: choose another name");
  const auto timeless = [] { add_transport({"timeless", ""}); };
  EXPECT_NE(refusal(timeless, ErrorKind::internal).find("give it either join or simulate"), std::string::npos);
  const auto both = [] { add_transport({"both", "", own::queues().join, simulated_network}); };
  EXPECT_NE(refusal(both, ErrorKind::internal).find("give it either join or simulate"), std::string::npos);
  EXPECT_EQ(transports().size(), 4u);
}

TEST(Transports, OfVirtualTimeMakeTheNetworkOfAllRanks) {
  const auto runtime = virtual_runtime(0);
  SimulatedOptions options;
  options.link = {std::chrono::microseconds(5), Duration(0)};
  const std::unique_ptr<Network> network = find_transport("simulated").simulate(*runtime, 2, options);
  const auto sends = [](std::shared_ptr<Endpoint> e) -> Task<> { co_await e->send(1, message(0), ConstBytes()); };
  const auto receives = [](std::shared_ptr<Endpoint> e) -> Task<> { co_await e->receive(0, message(0), Bytes()); };
  runtime->spawn("rank 0", sends(network->endpoint(0)));
  runtime->spawn("rank 1", receives(network->endpoint(1)));
  runtime->run();
  EXPECT_EQ(runtime->now(), Duration(std::chrono::microseconds(5)));
  EXPECT_FALSE(network->dead(1));
  network->kill(1);
  EXPECT_TRUE(network->dead(1));
}

TEST(Transports, OwnOptionsAreBoundToTheRow) {
  // With room for 2 KiB a send of 4 has to wait until some of it is taken; with the room that the row has by default it
  // has not.
  for (const std::size_t most_bytes : {std::size_t{2} << 10, own::QueueOptions().most_bytes}) {
    const Transport transport = own::queues({most_bytes});
    const auto runtime = real_runtime(0);
    std::vector<std::shared_ptr<Endpoint>> endpoints(2);
    for (int rank = 0; rank < 2; ++rank) {
      const auto join = [](const Transport* from, Joining joining, std::shared_ptr<Endpoint>* made) -> Task<> {
        Task<std::shared_ptr<Endpoint>> making = from->join(std::move(joining));
        *made = co_await std::move(making);
      };
      const Joining joining{*runtime, rank, 2};
      runtime->spawn("joining", join(&transport, joining, &endpoints[rank]));
    }
    runtime->run();
    bool sent = false, at_once = false;
    const auto sends = [](Endpoint* e, bool* sent) -> Task<> {
      const std::vector<float> numbers(1 << 10);
      co_await e->send(1, message(numbers.size()), const_bytes(numbers));
      *sent = true;
    };
    const auto receives = [](Endpoint* e, const bool* sent, bool* at_once) -> Task<> {
      *at_once = *sent;
      std::vector<float> numbers(1 << 10);
      co_await e->receive(0, message(numbers.size()), bytes(numbers));
    };
    runtime->spawn("rank 0", sends(endpoints[0].get(), &sent));
    runtime->spawn("rank 1", receives(endpoints[1].get(), &sent, &at_once));
    runtime->run();
    EXPECT_TRUE(sent);
    EXPECT_EQ(at_once, most_bytes > 4096);
  }
}

}  // namespace
}  // namespace ripieno::transport
