#include "apps/ripieno/advise_table.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/ripieno/adviser_fit.h"
#include "ripieno/report/format.h"
#include "ripieno/report/table.h"

namespace ripieno::program {
namespace {

std::string name_of(const AdviceList& list, const Advice& one) {
  if (list.of_grid) return one.cell.name;
  if (one.strategy == "single") return "single (one worker alone)";
  return text(one.strategy, " with ", one.codec);
}

double exposed(const Advice& one) {
  return one.projection.epoch_s > 0 ? one.projection.exchange_s / one.projection.epoch_s : 0;
}

const char* yes(bool is) { return is ? "yes" : "no"; }

/// The first advice that fits; null: none.
template <class Is>
const Advice* first(const AdviceList& list, Is is) {
  const auto found = std::find_if(list.ranked.begin(), list.ranked.end(), is);
  return found == list.ranked.end() ? nullptr : &*found;
}

std::string times(double ratio) { return report::format_fixed(ratio, ratio < 9.95 ? 1 : 0); }

/// ", 12 times as fast as a ring in fp32 (30.1 s); its busiest rank sends 90 times less"
std::string beside_the_ring(const AdviceList& list, const Advice& best) {
  const auto is_plain_ring = [](const Advice& one) {
    return one.strategy == "ring" && (one.codec == "fp32" || one.codec == "auto");
  };
  const Advice* ring = list.of_grid ? nullptr : first(list, is_plain_ring);
  if (!ring || ring == &best || best.projection.epoch_s <= 0) return "";
  const double faster = ring->projection.epoch_s / best.projection.epoch_s;
  const std::string ratio = faster > 0.95 && faster < 1.05 ? std::string("about") : times(faster) + " times";
  std::string out =
      text(", ", ratio, " as fast as a ring in ", ring->cell.settings->compute.precision == "fp64" ? "fp64" : "fp32",
           " (", report::format_seconds(ring->projection.epoch_s), ")");
  if (best.projection.bytes == 0) return out;
  const double less = ring->projection.bytes / best.projection.bytes;
  if (less >= 1.05) out += text("; its busiest rank sends ", times(less), " times less");
  if (less <= 0.95) out += text("; its busiest rank sends ", times(1 / less), " times more");
  return out;
}

bool is_several(const Advice& one) { return one.cell.settings->workers > 1; }

std::string sentence(const AdviceList& list, const std::string& what, const Advice& one) {
  return text(what, ": ", name_of(list, one), ", ", report::format_seconds(one.projection.epoch_s), " an epoch",
              beside_the_ring(list, one), ".\n");
}

std::string range_words() {
  const CalibratedRange& range = adviser_range;
  return text(range.least_workers == range.most_workers ? text(range.most_workers)
                                                        : text(range.least_workers, " to ", range.most_workers),
              " workers, ", range.least_mbit_s, " to ", range.most_mbit_s, " Mb/s, at most ", range.most_latency_ms,
              " ms one way", range.has_burst ? ", a lab's burst" : "", ", ", range.model);
}

/// What of the question is outside of the range in which projections were compared with runs, in words.
std::vector<std::string> outside(const AdviceList& list) {
  const CalibratedRange& range = adviser_range;
  std::vector<std::string> all;
  const auto add = [&all](const std::string& what) {
    if (std::find(all.begin(), all.end(), what) == all.end()) all.push_back(what);
  };
  for (const Advice& one : list.ranked) {
    const int workers = one.cell.settings->workers;
    if (workers > 1 && (workers < range.least_workers || workers > range.most_workers)) add(text(workers, " workers"));
  }
  const StatedLink& link = list.link;
  if (link.mbit_s < range.least_mbit_s || link.mbit_s > range.most_mbit_s) add(text(link.mbit_s, " Mb/s"));
  if (link.latency_ms > range.most_latency_ms) add(text(link.latency_ms, " ms one way"));
  if (range.has_burst && link.burst_bytes == 0) add("no burst");
  if (list.model != range.model) add(list.model);
  if (list.pass.is_stated) add("a stated pass");
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& one : words) all += (all.empty() ? "" : ", ") + one;
  return all;
}

/// By what factor one way must be projected to take longer than another, so that their order is more than the
/// projection's error: each is off by a factor of low to high, independently.
double told_apart_factor() { return std::exp(std::sqrt(2.0) * std::log(adviser_fit.high / adviser_fit.low) / 2); }

/// "7 others, up to 64.1 ms, are within the error below of it."
std::string alike_words(const AdviceList& list, const Advice& best) {
  if (!outside(list).empty()) return "";  // no error is stated
  const double most = best.projection.epoch_s * told_apart_factor();
  std::size_t alike = 0;
  double longest = 0;
  for (const Advice& one : list.ranked) {
    if (&one == &best || one.projection.epoch_s > most) continue;
    ++alike;
    longest = std::max(longest, one.projection.epoch_s);
  }
  if (alike == 0) return "";
  return text("The error below cannot tell it from ", alike,
              alike == 1 ? " other, which takes " : " others, which take up to ", report::format_seconds(longest),
              ".\n");
}

/// Lines about measurements that are not believed.
std::string doubt_words(const AdviceList& list) {
  std::string out;
  if (const std::string why = list.pass.when.doubt(); !why.empty())
    out += text("Not believed: the pass, which may take less: ", why, ".\n");
  if (!list.doubt_of_costs.empty())
    out += text("Not believed: the times of encoding and of optimisers' steps: ", list.doubt_of_costs, ".\n");
  return out.empty() ? "" : out + "Run it again on a quiet machine: what is not believed is measured anew.\n";
}

std::string answer(const AdviceList& list) {
  const StatedLink& link = list.link;
  const Advice& best = list.ranked.front();
  const auto bytes = [](double count) { return report::format_bytes(count); };
  std::string out =
      text(list.workers == 0 ? "" : text(list.workers, list.workers == 1 ? " worker, " : " workers, "),
           list.workers == 0 ? "Links" : "links", " of ", link.mbit_s, " Mb/s and ", link.latency_ms, " ms one way",
           link.burst_bytes > 0 ? text(" (the lab's: ", report::format_bytes(static_cast<double>(link.burst_bytes)),
                                       " pass at once after a pause)")
                                : "",
           ".\n");
  if (list.lab_burst_bytes > 0) {
    out += text("No burst after a pause is assumed. A lab's links of this rate let ", bytes(list.lab_burst_bytes),
                " through at once: --burst-bytes ", std::llround(list.lab_burst_bytes), ".\n");
  }
  out += doubt_words(list);
  out += sentence(list, "Fastest", best);
  out += alike_words(list, best);
  const Advice* several = first(list, is_several);
  if (several && several != &best) out += sentence(list, "Fastest of several workers", *several);
  const Advice* exact = first(list, [](const Advice& one) { return one.exact && is_several(one); });
  if (exact && exact == several) out += "It is exact: it takes the steps of one worker with the whole batch.\n";
  if (!exact || exact == several) return out;
  out += sentence(list, "Fastest of those that take the very steps of one worker with the whole batch", *exact);
  return out;
}

std::vector<std::string> columns(const AdviceList& list) {
  return {list.of_grid ? "cell" : "strategy",
          list.of_grid ? "workers" : "codec",
          "ms\na step",
          "s\nan epoch",
          "MB of\nthe busiest",
          "exchange\nexposed %",
          "exact",
          "agrees"};
}

std::vector<std::string> row(const AdviceList& list, const Advice& one) {
  const predict::Projection& its = one.projection;
  return {list.of_grid ? one.cell.name : one.strategy,
          list.of_grid        ? std::to_string(one.cell.settings->workers)
          : one.codec.empty() ? "–"
                              : one.codec,
          report::format_fixed(its.step_s * 1e3, its.step_s < 0.1 ? 1 : 0),
          report::format_figures(its.epoch_s),
          report::format_figures(its.bytes * 1e-6),
          report::format_fixed(100 * exposed(one), 0),
          yes(one.exact),
          yes(one.agrees)};
}

report::Table table_of(const AdviceList& list, std::size_t top) {
  report::Table table;
  const std::vector<std::string> titles = columns(list);
  for (std::size_t i = 0; i < titles.size(); ++i) {
    table.column(titles[i], i >= 2 && i <= 5 ? report::Align::right : report::Align::left);
  }
  for (std::size_t i = 0; i < std::min(top, list.ranked.size()); ++i) table.row(row(list, list.ranked[i]));
  return table;
}

std::string error_words(const AdviceList& list) {
  const AdviserFit& fit = adviser_fit;
  if (const std::vector<std::string> beyond = outside(list); !beyond.empty()) {
    return text("Error: not known. Projections were compared with runs of ", range_words(),
                ";\noutside of these: ", joined(beyond), " (docs/adviser.md).");
  }
  return text("Error: an epoch takes ", report::format_fixed(fit.low, 2), " to ", report::format_fixed(fit.high, 2),
              " times what is projected (95 % interval), by ", fit.cells, " ways that were measured; of ", fit.others,
              " others,\n", fit.held, " lie in it (", fit.where, "; docs/adviser.md). It holds for ", range_words(),
              ".");
}

std::string pass_words(const AdviceList& list) {
  const strategy::ComputeProfile& pass = list.pass.profile;
  const std::string of =
      text(report::format_seconds(seconds(pass.read + pass.forward + pass.backward)), " for ", pass.images,
           pass.images == 1 ? " image" : " images", " of ", list.data, " by ", list.model);
  if (list.pass.is_stated) {
    return text("Projected in virtual time from the stated pass of a worker: ", of,
                ";\nencoding and optimisers' steps as measured on this machine. Each worker has a link of its own.");
  }
  return text("Projected in virtual time from a worker's pass here: ", of, " on ", list.pass.threads,
              list.pass.threads == 1 ? " thread," : " threads,", "\nalone, measured ", list.pass.when.age(), "; taken ",
              report::format_fixed(list.pass.times(), 2),
              " times, as in measured runs. Each worker has a link of its own.");
}

constexpr const char* unknown =
    "Not known: accuracy (what is not exact may need more epochs), evaluation, and the CPU that sending and receiving\n"
    "take from compute.";

std::string more_words(const AdviceList& list, std::size_t top) {
  std::string out;
  const std::size_t all = list.ranked.size(), refused = list.refused.size();
  if (all > top) out += text(all - top, " more are slower (--top ", all, ").\n");
  if (refused == 0) return out;
  return text(out, refused, refused == 1 ? " combination" : " combinations", " cannot be (--refused says why).\n");
}

/// A line for each combination that cannot be.
std::string refused_words(const AdviceList& list, const char* begin) {
  std::string out = "\n";
  for (const RefusedCell& one : list.refused) out += text(begin, one.name, ": ", one.reason, "\n");
  return out;
}

nlohmann::ordered_json json_of(const Advice& one) {
  const predict::Projection& its = one.projection;
  nlohmann::ordered_json json{
      {"name", one.cell.name},
      {"workers", one.cell.settings->workers},
      {"strategy", one.strategy},
      {"codec", one.codec.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(one.codec)},
      {"s_step", its.step_s},
      {"s_epoch", its.epoch_s},
      {"steps", one.steps},
      {"bytes_of_the_busiest", its.bytes},
      {"s_exchange", its.exchange_s},
      {"exposed", exposed(one)},
      {"exact", one.exact},
      {"agrees", one.agrees}};
  return json;
}

}  // namespace

std::string advice_text(const AdviceList& list, std::size_t top, bool refused) {
  return text(answer(list), "\n", table_of(list, top).str(), more_words(list, top), "\n",
              "Of an epoch, without evaluation. MB: payload that the busiest rank sends.\n", pass_words(list), "\n",
              unknown, "\n", error_words(list), "\n", refused ? refused_words(list, "") : "");
}

std::string advice_markdown(const AdviceList& list, std::size_t top, bool refused) {
  return text(answer(list), "\n", table_of(list, top).markdown(), "\n", more_words(list, top), pass_words(list), " ",
              unknown, " ", error_words(list), "\n", refused ? refused_words(list, "- ") : "");
}

std::string advice_csv(const AdviceList& list) {
  std::string out = "name,workers,strategy,codec,s_step,s_epoch,steps,bytes_of_the_busiest,s_exchange,exact,agrees\n";
  for (const Advice& one : list.ranked) {
    const predict::Projection& its = one.projection;
    out += text(one.cell.name, ",", one.cell.settings->workers, ",", one.strategy, ",", one.codec, ",", its.step_s, ",",
                its.epoch_s, ",", one.steps, ",", nlohmann::json(its.bytes).dump(), ",", its.exchange_s, ",",
                yes(one.exact), ",", yes(one.agrees), "\n");
  }
  return out;
}

std::string advice_json(const AdviceList& list) {
  const strategy::ComputeProfile& pass = list.pass.profile;
  nlohmann::ordered_json json{
      {"workers", list.workers > 0 ? nlohmann::ordered_json(list.workers) : nlohmann::ordered_json()},
      {"link",
       {{"mbit_s", list.link.mbit_s}, {"latency_ms", list.link.latency_ms}, {"burst_bytes", list.link.burst_bytes}}},
      {"model", list.model},
      {"data", list.data},
      {"pass",
       {{"images", pass.images},
        {"threads", list.pass.threads},
        {"read_s", seconds(pass.read)},
        {"forward_s", seconds(pass.forward)},
        {"backward_s", seconds(pass.backward)},
        {"times", list.pass.times()},
        {"spread", adviser_fit.spread},
        {"stated", list.pass.is_stated},
        {"unix_time", list.pass.when.unix_s},
        {"others", list.pass.when.others},
        {"variation", list.pass.when.variation},
        {"doubt", list.pass.when.doubt()}}}};
  json["doubt_of_costs"] = list.doubt_of_costs;
  const CalibratedRange& range = adviser_range;
  const std::vector<std::string> beyond = outside(list);
  json["calibrated"] = {{"workers", {range.least_workers, range.most_workers}},
                        {"mbit_s", {range.least_mbit_s, range.most_mbit_s}},
                        {"most_latency_ms", range.most_latency_ms},
                        {"burst", range.has_burst},
                        {"model", range.model},
                        {"outside", beyond}};
  json["error"] = {
      {"measured_over_projected",
       beyond.empty() ? nlohmann::ordered_json{adviser_fit.low, adviser_fit.high} : nlohmann::ordered_json()},
      {"cells", adviser_fit.cells},
      {"others", adviser_fit.others},
      {"held", adviser_fit.held},
      {"where", adviser_fit.where}};
  json["ways"] = nlohmann::ordered_json::array();
  for (const Advice& one : list.ranked) json["ways"].push_back(json_of(one));
  json["refused"] = nlohmann::ordered_json::array();
  for (const RefusedCell& one : list.refused) json["refused"].push_back({{"name", one.name}, {"reason", one.reason}});
  return json.dump(2) + "\n";
}

}  // namespace ripieno::program
