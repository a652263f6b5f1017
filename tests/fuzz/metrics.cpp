// A rank's metrics in JSON lines, read at once and while they are written.
#include "ripieno/report/metrics.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ripieno;
  const std::string_view all = fuzz::as_text(data, size);
  fuzz::take_or_refuse([&] { report::read_metrics(fuzz::MemoryFile(all).path()); });
  fuzz::take_or_refuse([&] {
    const std::string_view half = all.substr(0, all.size() / 2), rest = all.substr(half.size());
    const fuzz::MemoryFile file(half);
    report::MetricsReader reader(file.path());
    reader.read();
    require(::write(file.fd(), rest.data(), rest.size()) == static_cast<ssize_t>(rest.size()), "no room");
    reader.read();
  });
  return 0;
}
