#include "apps/ripieno/choose_exchange.h"

#include <cmath>

#include "apps/ripieno/job.h"
#include "ripieno/codec/codec.h"
#include "ripieno/codec/wire.h"
#include "ripieno/collective/measure_links.h"
#include "ripieno/collective/native.h"
#include "ripieno/collective/tune.h"
#include "ripieno/collective/two_phase.h"
#include "ripieno/report/format.h"

namespace ripieno::program {

void settle_measure(Settings* settings) {
  if ((*settings)->measure != MeasureLinks::automatic) return;
  bool given = false;
  for (const auto key : {"exchange.bucket_mb", "exchange.segment_kb", "exchange.small_route", "exchange.small_kb"}) {
    given = given || settings->is_set(key);
  }
  const bool virtual_time = (*settings)->in_virtual_time();
  if (given || virtual_time || !strategy_of(*settings).traits.by_buckets)
    settings->assign("exchange.measure", "off", {"exchange.measure"});
}

std::string choose_for_links(Settings* settings, const model::Zoo& zoo, collective::World world,
                             const transport::LinkModel& link, const strategy::Plan& plan) {
  const strategy::StrategyInfo& strategy = strategy_of(*settings);
  const bool open = strategy.route == "any" && (*settings)->plan.exchange.route == "auto";
  const auto numbers = static_cast<std::uint64_t>(zoo.find((*settings)->model).parameters);
  const collective::Tuning tuning = collective::tune(world, numbers * sizeof(float), link);
  const auto assign = [&](std::string_view key, Value value) {
    settings->assign(key, std::move(value), {"exchange.measure"});
  };

  assign("exchange.measure", "off");
  const double bucket_mb = std::max(0.001, std::round(static_cast<double>(tuning.bucket_bytes) * 1e-3) * 1e-3);
  assign("exchange.bucket_mb", bucket_mb);
  std::string chosen = text("links of ", report::format_fixed(seconds(link.latency) * 1e6, 0), " us and ",
                            report::format_figures(8e-6 / seconds(link.per_byte)), " Mb/s: buckets of ",
                            report::format_fixed(bucket_mb, 3), " MB");
  if (open) {
    assign("exchange.route", plan.exchange.route);
    chosen += text(", ", plan.exchange.route);
  }
  const std::string& route = plan.exchange.route;
  const bool cuts_by_itself = (open && route == collective::two_phase::name) || route == collective::native::name;
  if (cuts_by_itself || codec::find_codec(plan.exchange.codec.name).kind != codec::CodecKind::wire) return chosen;
  // Segments count bytes in memory; tune() counts bytes on the wire.
  const std::size_t segment_bytes = tuning.segment_bytes * sizeof(float) /
                                    size_of(codec::find_wire_format(plan.exchange.codec.name).type(DType::fp32));
  assign("exchange.segment_kb", static_cast<std::int64_t>(segment_bytes >> 10));
  chosen += text(" in segments of ", segment_bytes >> 10, " KiB");
  if (!open || tuning.small_bytes < 1024) return chosen;
  assign("exchange.small_route", tuning.small_route);
  assign("exchange.small_kb", static_cast<std::int64_t>(tuning.small_bytes >> 10));
  return text(chosen, "; up to ", tuning.small_bytes >> 10, " KiB along ", tuning.small_route);
}

Task<std::string> choose_exchange(Settings* settings, const model::Zoo* zoo, collective::Communicator comm) {
  const MeasureLinks measure = (*settings)->measure;
  const bool in_memory =
      comm.size() == 1 || comm.find_engine(collective::two_phase::name, transport::Collective::all_reduce, DType::fp32);
  if (measure == MeasureLinks::off || (measure == MeasureLinks::automatic && in_memory)) co_return "";
  const collective::MeasuredLinks measured = co_await collective::measure_links(comm);
  const strategy::Plan plan = strategy::settled(strategy_of(*settings), plan_of(*settings), comm);
  const std::string chosen = choose_for_links(settings, *zoo, comm.world(), measured.link, plan);
  co_return measured.doubt.empty() ? chosen : text(chosen, " (", measured.doubt, ")");
}

}  // namespace ripieno::program
