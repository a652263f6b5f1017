// What it takes to project a job of many workers (ripieno/predict/projection.h): two steps of a model of a million
// numbers in one bucket over links of 1 Gb/s and 50 us. One line of JSON; one projection a process, for its peak of
// memory.
//
//   scale_bench WORKERS [STRATEGY [ROUTE]]       scale_bench 1024 ddp halving-doubling
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "ripieno/predict/projection.h"

namespace ripieno {
namespace {

predict::ProjectedJob job_of(int workers, const char* strategy, const char* route) {
  constexpr std::size_t numbers = 1'000'000;
  constexpr std::uint32_t steps = 2, images = 32;
  const auto each = static_cast<std::size_t>(workers);
  predict::ProjectedJob job;
  job.info = &strategy::find_strategy(strategy);
  job.plan.exchange.route = route;
  job.workers = workers;
  job.layout.tensors = {{"weights", {1000, 1000}, {0, numbers}}};
  job.layout.buckets = {{0, numbers}};
  job.layout.parameters = numbers;
  job.profile = {images, Duration(0), from_seconds(0.01), from_seconds(0.02), {from_seconds(0.02)}};
  job.steps.assign(each, steps);
  job.images.assign(each, images);
  job.samples.assign(each, steps * images);
  job.link = {from_seconds(50e-6), from_seconds(8e-9)};
  return job;
}

void measure(int workers, const char* strategy, const char* route) {
  const auto begin = std::chrono::steady_clock::now();
  const predict::Projection projection = predict::project(job_of(workers, strategy, route));
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const double cpu = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  std::cout << "{\"workers\": " << workers << ", \"wall_s\": " << wall << ", \"cpu_s\": " << cpu
            << ", \"peak_mib\": " << static_cast<double>(used.ru_maxrss) / 1024
            << ", \"messages\": " << projection.messages
            << ", \"us_a_message\": " << 1e6 * wall / static_cast<double>(projection.messages)
            << ", \"epoch_s\": " << projection.epoch_s << "}\n";
}

}  // namespace
}  // namespace ripieno

int main(int count, char** words) {
  const int workers = count > 1 ? std::atoi(words[1]) : 0;
  if (workers < 2 || count > 4) {
    std::cerr << "scale_bench WORKERS [STRATEGY [ROUTE]]: at least 2 workers\n";
    return 2;
  }
  try {
    ripieno::measure(workers, count > 2 ? words[2] : "ring", count > 3 ? words[3] : "auto");
  } catch (const std::exception& error) {
    std::cerr << "scale_bench: " << error.what() << "\n";
    return 1;
  }
}
