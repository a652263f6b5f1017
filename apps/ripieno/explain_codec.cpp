#include "apps/ripieno/explain_codec.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/ripieno/job.h"
#include "ripieno/codec/codec.h"
#include "ripieno/collective/averager.h"
#include "ripieno/model/classifier.h"
#include "ripieno/report/format.h"
#include "ripieno/strategy/slots.h"
#include "ripieno/train/flat_model.h"

namespace ripieno::program {
namespace {

const char* how(codec::CodecKind kind) {
  switch (kind) {
    case codec::CodecKind::wire:
      return "wire: a floating-point type, converted at every hop of any route";
    case codec::CodecKind::block:
      return "block: each block of numbers takes the same bytes, encoded anew at every hop of any route";
    case codec::CodecKind::gathered:
      return "gathered: every rank gets every other's bytes and adds them up itself, on a ring or direct";
    case codec::CodecKind::low_rank:
      return "low-rank: two averages of small factors, along any route";
  }
  return "";
}

/// The keys that the codec uses, with their values.
std::string options_of(const Settings& settings) {
  std::string all;
  for (const char* key : {"codec.block", "codec.bits", "codec.fraction", "codec.rank", "codec.error_feedback"}) {
    const auto setting =
        std::find_if(all_settings().begin(), all_settings().end(), [&](const Setting& one) { return one.key == key; });
    const bool used = std::all_of(setting->when.begin(), setting->when.end(),
                                  [&](const Condition& one) { return one.holds(settings); });
    if (used) all += text(all.empty() ? "" : ", ", key, " = ", to_toml(settings.value(key)));
  }
  return all;
}

}  // namespace

std::string explain_codec(const Settings& settings, const model::Zoo& zoo, std::size_t elements, int ranks,
                          const transport::LinkModel& link, bool json) {
  const strategy::Plan plan = plan_of(settings);
  const codec::CodecOptions& options = plan.exchange.codec;
  const codec::CodecInfo& info = codec::find_codec(options.name);
  const DType type = numbers_type(settings);
  std::string of = "numbers";
  std::vector<collective::Slot> slots{collective::Slot{elements}};
  if (elements == 0) {
    const model::ModelInfo& model = zoo.find(settings->model);
    const train::FlatModel shape(model.make(), layout_of(settings));
    elements = shape.layout().parameters;
    slots = strategy::slots_of(shape.layout(), {Range{0, elements}});
    of = text("numbers of ", model.name);
  } else if (info.kind == codec::CodecKind::low_rank) {
    fail(ErrorKind::usage, "--elements with codec ", info.name,
         ": its factors are of a model's matrices; give --model in its place");
  }
  const bool encodes = info.kind != codec::CodecKind::low_rank;
  std::optional<std::size_t> encoded;
  if (encodes) encoded = codec::make_codec(options, type)->bytes(elements);
  const auto sent =
      collective::make_averager({.codec = options}, std::move(slots), type)->bytes_sent(0, collective::World{ranks}, 0);
  const double plain = static_cast<double>(size_of(type)) * static_cast<double>(elements);
  std::optional<double> time;
  if (sent && ranks > 1) time = static_cast<double>(*sent) * seconds(link.per_byte) + seconds(link.latency);

  if (json) {
    const auto or_null = [](const auto& value) {
      return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
    };
    nlohmann::ordered_json out{{"codec", info.name},
                               {"kind", text(how(info.kind)).substr(0, text(how(info.kind)).find(':'))},
                               {"lossless", info.lossless},
                               {"bytes of n numbers", info.bytes},
                               {"elements", elements},
                               {"bytes", or_null(encoded)},
                               {"ranks", ranks},
                               {"bytes_sent", or_null(sent)},
                               {"seconds_at_least", or_null(time)}};
    out["bytes_per_number"] =
        encoded ? nlohmann::ordered_json(static_cast<double>(*encoded) / static_cast<double>(elements))
                : nlohmann::ordered_json();
    return out.dump(2) + "\n";
  }
  std::string out =
      text(info.name, ": ", info.title, info.source.empty() ? "" : text(" (", info.source, ")"), "\n", how(info.kind),
           "; ", info.lossless ? "lossless: gives back the bits of numbers that are fp32 in memory" : "lossy", "\n");
  if (const std::string used = options_of(settings); !used.empty()) out += used + "\n";
  out += text("\nbytes of n numbers     ", info.bytes, "\n", report::format_count(static_cast<std::int64_t>(elements)),
              " ", of, "  ", report::format_bytes(plain), " in ", name(type), ", ");
  if (encoded) {
    out += text(report::format_bytes(static_cast<double>(*encoded)),
                " encoded: ", report::format_fixed(static_cast<double>(*encoded) / static_cast<double>(elements), 3),
                " bytes a number\n");
  } else {
    out += encodes ? "encoded as many as the numbers say\n" : "encoded as the shapes of the matrices say\n";
  }
  out += text("averaged on a ring     ",
              sent ? report::format_bytes(static_cast<double>(*sent)) + text(" sent by each of ", ranks, " ranks")
                   : "depends on the numbers");
  if (time) out += text(", in at least ", report::format_seconds(*time), " on such links");
  return out + "\n";
}

}  // namespace ripieno::program
