// A run's summary in JSON.
#include "ripieno/report/summary.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ripieno;
  fuzz::take_or_refuse([&] {
    const std::string once = report::to_json(report::from_json(fuzz::as_text(data, size), "summary.json"));
    require(report::to_json(report::from_json(once, "again.json")) == once, "a summary that reads back as another");
  });
  return 0;
}
