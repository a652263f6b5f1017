#include "ripieno/observe/usage_sampler.h"

#include <gtest/gtest.h>

#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "ripieno/core/file.h"
#include "tests/support/temporary_folder.h"

namespace ripieno::observe {
namespace {

using Json = nlohmann::json;

std::vector<Json> samples_of(const std::filesystem::path& file) {
  std::vector<Json> found;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    if (json["type"] == "sample") found.push_back(json);
  }
  return found;
}

double sum(const std::vector<Json>& samples, const char* part, const char* field) {
  double all = 0;
  for (const Json& sample : samples) all += sample[part][field].get<double>();
  return all;
}

/// So many bytes over a connection of the loopback.
void send_over_loopback(std::size_t bytes) {
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  asio::ip::tcp::socket here(context), there(context);
  here.connect(acceptor.local_endpoint());
  acceptor.accept(there);
  std::vector<char> out(bytes), in(bytes);
  std::thread writer([&] { asio::write(here, asio::buffer(out)); });
  asio::read(there, asio::buffer(in));
  writer.join();
}

Task<> work(Runtime* runtime, Recorder* recorder, std::size_t bytes) {
  const Duration every = std::chrono::milliseconds(10), rest = std::chrono::milliseconds(60);
  const UsageSampler sampler(*runtime, *recorder, every);
  co_await runtime->sleep(rest);
  auto busy = [bytes] {
    const double until = cpu_seconds().user + cpu_seconds().system + 0.05;
    for (volatile int i = 0; cpu_seconds().user + cpu_seconds().system < until;) i = i + 1;
    send_over_loopback(bytes);
  };
  co_await runtime->offload(Duration(0), busy);
}

TEST(UsageSampler, AddsUpToWhatWasUsedOnTheStepsClock) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "metrics.jsonl";
  const auto runtime = real_runtime(0);
  Recorder recorder(*runtime, nullptr, std::make_unique<LineFile>(file));
  constexpr std::size_t bytes = 3'000'000;
  runtime->spawn("work", work(runtime.get(), &recorder, bytes));
  const Duration start = runtime->now();
  runtime->run();
  const double took = seconds(runtime->now() - start);
  recorder.end();

  const auto samples = samples_of(file);
  ASSERT_GE(samples.size(), 2u);
  double spans = 0, last = 0;
  for (const Json& sample : samples) {
    EXPECT_GT(sample["time"], last);
    last = sample["time"];
    spans += sample["seconds"].get<double>();
    EXPECT_GT(sample["process"]["resident"], 100'000);
  }
  EXPECT_LE(spans, took);
  EXPECT_GE(spans, 0.1);
  const double used = sum(samples, "process", "cpu_user") + sum(samples, "process", "cpu_system");
  EXPECT_GE(used, 0.049);
  EXPECT_GE(sum(samples, "process", "switches_waiting"), 1);
  EXPECT_GT(sum(samples, "machine", "cpu_user") + sum(samples, "machine", "cpu_system"), 0);
  EXPECT_GE(sum(samples, "loopback", "bytes_sent"), bytes);
  EXPECT_GE(sum(samples, "loopback", "bytes_received"), bytes);
  EXPECT_GE(sum(samples, "loopback", "packets_sent"), bytes / 65536);
}

Task<> train_on_a_full_disk(Runtime* runtime, Recorder* recorder, int* steps) {
  const UsageSampler sampler(*runtime, *recorder, std::chrono::milliseconds(1));
  for (; *steps < 10'000; ++*steps) {
    co_await runtime->sleep(std::chrono::milliseconds(1));
    recorder->step({});
  }
}

/// What a timer cannot write ends the task that trains, and what ends with it writes no more.
TEST(UsageSampler, AFullDiskEndsTheTraining) {
  int steps = 0;
  const auto runtime = real_runtime(0);
  Recorder recorder(*runtime, nullptr, std::make_unique<LineFile>("/dev/full"));
  runtime->spawn("training", train_on_a_full_disk(runtime.get(), &recorder, &steps));
  try {
    runtime->run();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_STREQ(error.what(), "/dev/full: cannot write: No space left on device");
  }
  EXPECT_LT(steps, 10'000);
  EXPECT_THROW(recorder.end(), Error);
}

TEST(Usage, IsReadFromTheSystemsTables) {
  const MachineUsage machine = machine_usage("cpu  100 20 300 4000 50 6 7 800 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n", 100);
  EXPECT_DOUBLE_EQ(machine.user, 1.2);
  EXPECT_DOUBLE_EQ(machine.system, 3.13);
  EXPECT_DOUBLE_EQ(machine.idle, 40.5);
  EXPECT_DOUBLE_EQ(machine.stolen, 8);

  const NetworkUsage network = network_usage(
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
      "compressed\n"
      "    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0\n"
      "  eth0:16911391829 541 1 2 3 4 5 6 77 7 0 0 0 0 0 0\n"
      "enp3s0: 9 1 0 0 0 0 0 0 3 2 0 0 0 0 0 0\n",
      "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm InSegs RetransSegs InErrs\nTcp: 1 5411670 6572 0\n");
  EXPECT_EQ(network.loopback.bytes_sent, 1000u);
  EXPECT_EQ(network.loopback.packets_received, 10u);
  EXPECT_EQ(network.network.bytes_received, 16911391838u);
  EXPECT_EQ(network.network.packets_received, 542u);
  EXPECT_EQ(network.network.bytes_sent, 80u);
  EXPECT_EQ(network.network.packets_sent, 9u);
  EXPECT_EQ(network.retransmits, 6572u);
  EXPECT_EQ(network_usage("", "").retransmits, 0u);
  EXPECT_EQ(machine_usage("", 100).user, 0);
}

}  // namespace
}  // namespace ripieno::observe
