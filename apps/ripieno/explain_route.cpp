#include "apps/ripieno/explain_route.h"

#include <algorithm>
#include <bit>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/ripieno/operations.h"
#include "ripieno/codec/wire.h"
#include "ripieno/collective/closed_form.h"
#include "ripieno/report/format.h"
#include "ripieno/report/table.h"

namespace ripieno::program {
namespace {

/// The most ranks for which a table of steps is readable; with more, only costs are printed.
constexpr int most_columns = 8;

/// "all", or the first and the last of `parts` chunks (for an all-to-all: blocks) that a range covers: "c2", "c2-3";
/// nullopt if it begins or ends within one.
std::optional<std::string> chunks_of(Range range, const WalkedRoute& walked, int parts) {
  const bool is_blocks = walked.route.collective == transport::Collective::all_to_all;
  if (range == Range{0, walked.elements}) return "all";
  int first = -1, last = -1;
  for (int i = 0; i < parts; ++i) {
    const Range part = is_blocks ? collective::block_of(walked.elements, parts, i) : chunk(walked.elements, parts, i);
    if (part.begin == range.begin) first = i;
    if (part.end == range.end) last = i;
  }
  if (first < 0 || last < first) return std::nullopt;
  const char letter = is_blocks ? 'b' : 'c';
  return first == last ? text(letter, first) : text(letter, first, "-", last);
}

/// All ranges that a route sends.
std::vector<Range> ranges_of(const WalkedRoute& walked) {
  std::vector<Range> all;
  for (int k = 0; k < walked.route.steps(walked.world); ++k) {
    for (int rank = 0; rank < walked.world.ranks; ++rank) {
      for (const collective::Transfer& one : walked.route.step(rank, walked.world, walked.elements, k).sends) {
        if (one.range.size() > 0) all.push_back(one.range);
      }
    }
  }
  return all;
}

/// Into how many chunks a table of the route divides the buffer, so that each of its ranges is some of them: as many as
/// ranks, as nodes, or as the largest power of two in the ranks has; 0: none of these.
int chunks_of_table(const WalkedRoute& walked) {
  const collective::World world = walked.world;
  const std::vector<Range> ranges = ranges_of(walked);
  for (const int parts :
       {world.ranks, world.nodes(), static_cast<int>(std::bit_floor(static_cast<unsigned>(world.ranks)))}) {
    const auto has_name = [&](Range range) { return chunks_of(range, walked, parts).has_value(); };
    if (std::all_of(ranges.begin(), ranges.end(), has_name)) return parts;
  }
  return 0;
}

std::string print_range(Range range, const WalkedRoute& walked, int parts) {
  const auto chunks = chunks_of(range, walked, parts);
  return chunks ? *chunks : text("[", range.begin, ",", range.end, ")");
}

std::string print_step(const collective::Step& step, const WalkedRoute& walked, int parts) {
  std::string out;
  for (const collective::Transfer& one : step.sends) {
    if (one.range.size() == 0) continue;
    out += text(out.empty() ? "" : " ", print_range(one.range, walked, parts), "→", one.peer);
  }
  bool is_first = true;
  for (const collective::Transfer& one : step.receives) {
    if (one.range.size() == 0) continue;
    const char* between = out.empty() ? "" : std::exchange(is_first, false) ? "  " : " ";
    out += text(between, one.peer, "→", one.how == numeric::Reduce::add ? "+" : "=",
                print_range(one.range, walked, parts));
  }
  return out;
}

/// The steps in which any rank sends anything: one row per round.
std::string print_steps(const WalkedRoute& walked) {
  const auto& [route, world] = std::tie(walked.route, walked.world);
  const int parts = chunks_of_table(walked);
  report::Table table;
  table.column("step", report::Align::right);
  for (int rank = 0; rank < world.ranks; ++rank) table.column(text("rank ", rank));
  for (int k = 0; k < route.steps(world); ++k) {
    std::vector<std::string> row{text(table.rows())};
    for (int rank = 0; rank < world.ranks; ++rank) {
      row.push_back(print_step(route.step(rank, world, walked.elements, k), walked, parts));
    }
    if (std::any_of(row.begin() + 1, row.end(), [](const std::string& cell) { return !cell.empty(); })) table.row(row);
  }
  return table.str();
}

/// A legend of the table, for the signs that occur in it.
std::string legend_of(const std::string& steps, const WalkedRoute& walked) {
  const bool is_blocks = walked.route.collective == transport::Collective::all_to_all;
  const std::string part = is_blocks ? "b1" : "c1";
  const int parts = chunks_of_table(walked);
  std::string legend;
  if (parts > 0)
    legend =
        text(part, ": the second of ", parts, is_blocks ? " equal blocks of the buffer; " : " chunks of the buffer; ");
  legend += text(part, "→3: sent to rank 3");
  if (steps.find("→+") != steps.npos) legend += text("; 1→+", part, ": added as it arrives from rank 1");
  if (steps.find("→=") != steps.npos) {
    legend += text("; 1→=", part, ": replaced", steps.find("→+") == steps.npos ? " by what arrives from rank 1" : "");
  }
  if (collective::adds_on_the_way(walked.route)) return legend + "\n";
  return (collective::reduces(walked.route.collective)
              ? "all is sent at once, as it was before the step, and the sums are made in the order of ranks\n"
              : "what is sent is as it was before the step\n") +
         legend + "\n";
}

/// "6.91 MB  = 2n(Q-1)/Q + n min(1, P-Q), Q = 4": the counted value and its closed form; "≈" if the shown figures
/// differ, since the buffer does not divide evenly into the route's chunks.
std::string with_form(double value, std::string_view form, const WalkedRoute& walked, std::string (*shown)(double)) {
  const std::string letters = collective::letters_of(form, walked.world);
  const bool equal = shown(value) == shown(collective::closed_form(form, walked.world, walked.buffer()));
  const char* why = walked.route.collective == transport::Collective::all_to_all
                        ? "  (what the blocks leave over stays)"
                        : "  (its chunks are of unequal size)";
  return text(shown(value), equal ? "  = " : "  ≈ ", form, letters.empty() ? "" : ", " + letters, equal ? "" : why);
}

/// Closed form of what all ranks send together; "" if there is no short one.
std::string_view total_form(const collective::Route& route) {
  switch (route.collective) {
    case transport::Collective::all_reduce:
      return collective::adds_on_the_way(route) ? "2n(P-1)" : "nP(P-1)";
    case transport::Collective::reduce_scatter:
    case transport::Collective::all_gather:
    case transport::Collective::all_to_all:
      return "n(P-1)";
    case transport::Collective::broadcast:
    case transport::Collective::reduce:
      return route.name == "scatter-gather" ? "" : "n(P-1)";
    case transport::Collective::gather:
    case transport::Collective::scatter:
      return "";
  }
  return "";
}

nlohmann::ordered_json transfers_json(const collective::Transfers& transfers) {
  auto all = nlohmann::ordered_json::array();
  for (const collective::Transfer& one : transfers) {
    if (one.range.size() == 0) continue;
    all.push_back({{"peer", one.peer},
                   {"begin", one.range.begin},
                   {"end", one.range.end},
                   {"how", one.how == numeric::Reduce::add ? "add" : "replace"}});
  }
  return all;
}

/// The number of steps in which the rank sends or receives anything.
nlohmann::ordered_json steps_json(const WalkedRoute& walked, int rank) {
  auto steps = nlohmann::ordered_json::array();
  for (int k = 0; k < walked.route.steps(walked.world); ++k) {
    const collective::Step step = walked.route.step(rank, walked.world, walked.elements, k);
    const auto sends = transfers_json(step.sends), receives = transfers_json(step.receives);
    if (!sends.empty() || !receives.empty()) steps.push_back({{"step", k}, {"sends", sends}, {"receives", receives}});
  }
  return steps;
}

std::string print_costs(const WalkedRoute& walked) {
  report::Table table;
  table.column("rank", report::Align::right)
      .column("sends", report::Align::right)
      .column("receives", report::Align::right)
      .column("messages", report::Align::right);
  for (std::size_t rank = 0; rank < walked.costs.size(); ++rank) {
    const collective::ScheduleCost& cost = walked.costs[rank];
    table.row({text(rank), report::format_bytes(static_cast<double>(cost.elements_sent * walked.number)),
               report::format_bytes(static_cast<double>(cost.elements_received * walked.number)),
               text(cost.messages_sent)});
  }
  return table.str();
}

/// Times are whole picoseconds, and end at 106 days.
void check_time(const WalkedRoute& walked) {
  constexpr double month_s = 30 * 86400.0;
  double busiest = 0;
  for (const collective::ScheduleCost& cost : walked.costs)
    busiest = std::max(busiest, static_cast<double>((cost.elements_sent + cost.elements_received) * walked.number));
  const double at_most = busiest * 8e-6 / walked.links.mbit_s + 2e-6 * walked.rounds * walked.links.latency_us;
  if (at_most < month_s) return;
  fail(ErrorKind::usage, report::format_bytes(walked.buffer()), " on ", walked.world.ranks, " ranks over links of ",
       walked.links.mbit_s, " Mb/s and ", walked.links.latency_us,
       " us would take more than a month: take fewer numbers or faster links");
}

}  // namespace

WalkedRoute walk_route(const collective::Route& route, collective::World world, std::size_t elements,
                       const std::string& wire, const AskedLinks& links) {
  const std::size_t number = size_of(codec::find_wire_format(wire).type(DType::fp32));
  collective::check_schedule(route, world, elements);
  WalkedRoute walked{route, world, elements, wire, number, links, {}};
  walked.rounds = collective::schedule_rounds(route, world, elements);
  for (int rank = 0; rank < world.ranks; ++rank) {
    walked.costs.push_back(collective::schedule_cost(route, rank, world, elements));
    const std::uint64_t sent = walked.costs.back().elements_sent * number;
    walked.total += sent;
    walked.most = std::max(walked.most, sent);
  }
  check_time(walked);
  if (walked.rounds > 0) walked.seconds = seconds(route.time(world, elements * number, links.model()));
  return walked;
}

std::string buffer_of(const WalkedRoute& walked) {
  const collective::World world = walked.world;
  const std::size_t left = walked.elements % static_cast<std::size_t>(world.ranks);
  return text(report::format_count(static_cast<std::int64_t>(walked.elements)), " numbers in ", walked.wire, " (",
              report::format_bytes(walked.buffer()), ")",
              walked.route.collective == transport::Collective::all_to_all && left > 0
                  ? text(", of which the last ", left, " stay,")
                  : "",
              " on ", world.ranks, world.ranks == 1 ? " rank" : " ranks",
              world.per_node > 1 ? text(", ", world.per_node, " a node") : "",
              collective::has_root(walked.route.collective) ? text(", root ", world.root) : "");
}

std::vector<std::pair<std::string, std::string>> totals_of(const WalkedRoute& walked) {
  const collective::Route& route = walked.route;
  const std::string_view total = total_form(route);
  const auto sum = static_cast<double>(walked.total);
  return {
      {"rounds", with_form(walked.rounds, route.rounds, walked, report::format_count)},
      {"sent by all together",
       total.empty() ? report::format_bytes(sum) : with_form(sum, total, walked, report::format_bytes)},
      {"sent by the busiest", with_form(static_cast<double>(walked.most), route.bytes, walked, report::format_bytes)},
      {"time on such links", text(report::format_seconds(walked.seconds), "  (", walked.links.latency_us, " us, ",
                                  walked.links.mbit_s, " Mb/s)")}};
}

std::string route_json(const WalkedRoute& walked) {
  const collective::World world = walked.world;
  const transport::Collective operation = walked.route.collective;
  nlohmann::ordered_json json{{"operation", transport::name(operation)},
                              {"route", walked.route.name},
                              {"ranks", world.ranks},
                              {"per_node", world.per_node}};
  json["root"] = collective::has_root(operation) ? nlohmann::ordered_json(world.root) : nlohmann::ordered_json();
  json.update({{"elements", walked.elements},
               {"wire", walked.wire},
               {"rounds", walked.rounds},
               {"bytes_sent", walked.total},
               {"seconds", walked.seconds}});
  json["promise"] = promise_of(operation, world.root, "ends with");
  json["per_rank"] = nlohmann::ordered_json::array();
  for (int rank = 0; rank < world.ranks; ++rank) {
    const collective::ScheduleCost& cost = walked.costs[static_cast<std::size_t>(rank)];
    json["per_rank"].push_back({{"rank", rank},
                                {"bytes_sent", cost.elements_sent * walked.number},
                                {"bytes_received", cost.elements_received * walked.number},
                                {"messages_sent", cost.messages_sent},
                                {"steps", steps_json(walked, rank)}});
  }
  return json.dump(2) + "\n";
}

std::string route_text(const WalkedRoute& walked) {
  const collective::Route& route = walked.route;
  std::string out =
      text(transport::name(route.collective), " along ", route.name, ": ", route.title, " (", route.source, ")\n",
           buffer_of(walked), "; proved: ", promise_of(route.collective, walked.world.root, "ends with"), "\n\n");
  for (const auto& [name, value] : totals_of(walked)) out += text(std::left, std::setw(23), name, value, "\n");
  out += "\n";
  if (walked.world.ranks == 1) return out + "(one rank has nothing to send)\n";
  if (walked.world.ranks > most_columns) {
    return out + print_costs(walked) +
           text("\n(the steps are shown for up to ", most_columns, " ranks; --format json has them all)\n");
  }
  const std::string steps = print_steps(walked);
  return out + steps + "\n" + legend_of(steps, walked);
}

}  // namespace ripieno::program
