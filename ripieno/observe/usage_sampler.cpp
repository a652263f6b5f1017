#include "ripieno/observe/usage_sampler.h"

#include <algorithm>

namespace ripieno::observe {
namespace {

/// Counters may go back: a removed interface takes its counts with it.
std::uint64_t grown(std::uint64_t now, std::uint64_t before) { return now > before ? now - before : 0; }

InterfaceUsage operator-(const InterfaceUsage& now, const InterfaceUsage& before) {
  return {grown(now.bytes_sent, before.bytes_sent), grown(now.bytes_received, before.bytes_received),
          grown(now.packets_sent, before.packets_sent), grown(now.packets_received, before.packets_received)};
}

}  // namespace

UsageSampler::UsageSampler(Runtime& runtime, Recorder& recorder, Duration every,
                           std::function<std::vector<int>()> awaited)
    : runtime_(runtime),
      recorder_(recorder),
      every_(every),
      awaited_(std::move(awaited)),
      first_(counts()),
      last_(first_) {
  wait();
}

UsageSampler::~UsageSampler() {
  runtime_.cancel(timer_);
  sample();
}

double UsageSampler::machine_busy() const {
  const MachineUsage now = machine_usage(), &before = first_.machine;
  const double used = now.user + now.system + now.stolen - before.user - before.system - before.stolen,
               all = used + now.idle - before.idle;
  return all > 0 ? std::clamp(used / all, 0.0, 1.0) : 0;  // clamped because sums of seconds are rounded
}

UsageSampler::Counts UsageSampler::counts() const {
  return {runtime_.now(), process_usage(), machine_usage(), network_usage()};
}

void UsageSampler::sample() noexcept {
  try {
    record();
  } catch (...) {  // neither a timer nor a destructor can throw
    recorder_.later(std::current_exception());
  }
}

void UsageSampler::record() {
  const Counts now = counts(), before = std::exchange(last_, now);
  SampleRecord used;
  used.span = now.time - before.time;
  used.process = now.process;
  used.process.cpu.user -= before.process.cpu.user;
  used.process.cpu.system -= before.process.cpu.system;
  used.process.switches_waiting -= before.process.switches_waiting;
  used.process.switches_forced -= before.process.switches_forced;
  used.machine = {now.machine.user - before.machine.user, now.machine.system - before.machine.system,
                  now.machine.idle - before.machine.idle, now.machine.stolen - before.machine.stolen};
  used.network = {now.network.network - before.network.network, now.network.loopback - before.network.loopback,
                  now.network.retransmits - before.network.retransmits};
  if (awaited_) used.waits_for = awaited_();
  recorder_.sample(used);
}

void UsageSampler::wait() {
  auto again = [this] {
    sample();
    wait();
  };
  timer_ = runtime_.call_at(runtime_.now() + every_, again);
}

}  // namespace ripieno::observe
