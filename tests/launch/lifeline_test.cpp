#include "ripieno/launch/lifeline.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <thread>

#include "ripieno/core/async.h"
#include "ripieno/core/error.h"
#include "ripieno/rendezvous/address.h"
#include "ripieno/rendezvous/proof.h"

namespace ripieno::launch {
namespace {

/// A launcher on a thread of its own, until end().
class Launcher {
 public:
  explicit Launcher(const std::string& token) : runtime_(real_runtime(0)), ends_(*runtime_) {
    lifelines_.emplace(*runtime_, "127.0.0.1:0", token);
    address_ = rendezvous::with_port("127.0.0.1", lifelines_->port());
    runtime_->spawn("end", wait());
    thread_ = std::thread([this] { runtime_->run(); });
  }
  void end() {
    asio::post(runtime_->context(), [this] { ends_.set(); });
    thread_.join();
  }
  const std::string& address() const { return address_; }

 private:
  Task<> wait() {
    co_await ends_.wait();
    lifelines_.reset();
  }
  std::unique_ptr<Runtime> runtime_;
  Event ends_;
  std::optional<Lifelines> lifelines_;
  std::string address_;
  std::thread thread_;
};

TEST(Lifeline, BreaksWhenTheLauncherEnds) {
  const std::string token = rendezvous::random_token();
  Launcher launcher(token);
  const Descriptor first = reach_launcher(launcher.address(), token),
                   second = reach_launcher(launcher.address(), token);
  char byte = 0;
  EXPECT_EQ(::recv(first.get(), &byte, 1, MSG_DONTWAIT), -1) << "it holds, and nothing is said";
  int asks = 0;
  socklen_t size = sizeof asks;
  ASSERT_EQ(::getsockopt(first.get(), SOL_SOCKET, SO_KEEPALIVE, &asks, &size), 0);
  EXPECT_EQ(asks, 1);
  launcher.end();
  for (const Descriptor* one : {&first, &second}) {
    pollfd broken{one->get(), POLLIN, 0};
    ASSERT_EQ(::poll(&broken, 1, 60'000), 1);
    EXPECT_EQ(::recv(one->get(), &byte, 1, 0), 0);
  }
}

TEST(Lifeline, ALauncherThatIsNotThereIsNamedWithItsAddress) {
  const std::string token = rendezvous::random_token();
  Launcher launcher(token);
  const auto refused = [&](const std::string& address, const std::string& its_token) -> std::string {
    try {
      reach_launcher(address, its_token);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::network);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refused(launcher.address(), rendezvous::random_token()).find("is not this job's launcher"),
            std::string::npos);
  launcher.end();
  const std::string said = refused(launcher.address(), token);
  EXPECT_NE(said.find("cannot reach the launcher at " + launcher.address() + ": Connection refused"), std::string::npos)
      << said;
  EXPECT_NE(said.find("jump host"), std::string::npos) << said;
}

}  // namespace
}  // namespace ripieno::launch
