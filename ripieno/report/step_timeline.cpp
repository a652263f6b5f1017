#include "ripieno/report/step_timeline.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"
#include "ripieno/report/json_field.h"

namespace ripieno::report {
namespace {

using Bar = StepTimeline::Bar;

struct Window {
  double begin = 0, end = 0;  // microseconds, as in the trace
  bool meets(double from, double to) const { return from < end && to > begin; }
};

/// A rank's trace: one event per line, after "[" or "," (observe/recorder.h). Most lines are skipped unparsed, since
/// there may be millions.
class TraceFile {
 public:
  explicit TraceFile(std::filesystem::path path) : path_(std::move(path)), content_(read_file(path_)) {}

  /// Calls `read(event)` for every event, except an incomplete last line of a killed rank.
  void each(const auto& read) const {
    for (std::size_t begin = 0, end; (end = content_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line(content_.data() + begin, end - begin);
      if (line.size() > 1) read(line.substr(1));
    }
  }
  nlohmann::json parse(std::string_view event) const {
    nlohmann::json json = nlohmann::json::parse(event, nullptr, false);
    if (json.is_discarded())
      fail(ErrorKind::data, path_.string(), ": holds what is no event: ", event.substr(0, 60),
           "; it was cut or changed");
    return json;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  std::string content_;
};

/// The number after `"ts":` or the like.
std::optional<double> number_after(std::string_view event, std::string_view key) {
  const std::size_t at = event.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(event.data() + at + key.size(), event.data() + event.size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

bool holds(std::string_view event, std::string_view part) { return event.find(part) != std::string_view::npos; }

/// "step 12" -> 12
std::uint64_t index_of(const std::string& name) {
  std::uint64_t index = 0;
  const std::size_t at = name.rfind(' ') + 1;
  std::from_chars(name.data() + at, name.data() + name.size(), index);
  return index;
}

std::map<std::uint64_t, Window> steps_of(const TraceFile& trace) {
  std::map<std::uint64_t, Window> steps;
  trace.each([&](std::string_view event) {
    if (!holds(event, "\"cat\":\"step\"")) return;
    const nlohmann::json json = trace.parse(event);
    const JsonField field(json, trace.path());
    const double begin = field.at("ts").number();
    steps[index_of(field.at("name").string())] = {begin, begin + field.at("dur").number()};
  });
  return steps;
}

/// The times at which a rank's exchange messages began.
std::vector<double> exchanges_of(const TraceFile& trace) {
  std::vector<double> begins;
  trace.each([&](std::string_view event) {
    if (holds(event, "\"for\":\"exchange\"")) begins.push_back(number_after(event, "\"ts\":").value_or(0));
  });
  std::sort(begins.begin(), begins.end());
  return begins;
}

/// The step nearest to the middle of the last epoch, with an exchange if any of its steps has one.
std::uint64_t chosen_step(const Metrics& worker, const std::map<std::uint64_t, Window>& steps,
                          const std::vector<double>& exchanges) {
  std::vector<std::uint64_t> last;
  for (const StepLine& line : worker.steps) {
    if (line.epoch == worker.steps.back().epoch && steps.contains(line.step)) last.push_back(line.step);
  }
  if (last.empty()) return steps.rbegin()->first;
  const auto exchanged = [&](std::uint64_t step) {
    const Window& window = steps.at(step);
    const auto next = std::lower_bound(exchanges.begin(), exchanges.end(), window.begin);
    return next != exchanges.end() && *next < window.end;
  };
  const std::size_t middle = last.size() / 2;
  for (std::size_t away = 0; away <= middle; ++away) {
    for (const std::size_t at : {middle - away, middle + away}) {
      if (at < last.size() && exchanged(last[at])) return last[at];
    }
  }
  return last[middle];
}

/// Puts exchanges, in order of beginning, into as few rows as possible.
void put_into_rows(StepTimeline::Lane& lane) {
  std::sort(lane.bars.begin(), lane.bars.end(),
            [](const Bar& a, const Bar& b) { return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end); });
  std::vector<double> ends;
  for (Bar& bar : lane.bars) {
    if (bar.what != "exchange") continue;
    bar.row = static_cast<std::size_t>(
        std::find_if(ends.begin(), ends.end(), [&](double end) { return end <= bar.begin; }) - ends.begin());
    if (bar.row == ends.size()) ends.push_back(0);
    ends[bar.row] = bar.end;
  }
  lane.exchange_rows = ends.size();
}

/// One end of an arrow.
struct End {
  int rank = 0;
  double time = 0;
  std::uint64_t bytes = 0;
  std::string operation;
  bool in_memory = false;
};

class Reader {
 public:
  Reader(Window window, StepTimeline* timeline) : window_(window), timeline_(*timeline) {}

  void read(int rank, const TraceFile& trace) {
    StepTimeline::Lane lane{rank, {}, 0};
    // A message that crosses the window's edge may have its other end outside, by up to the window's length.
    const double margin = window_.end - window_.begin;
    End message;  // its arrows follow in the file
    trace.each([&](std::string_view event) {
      const double begin = number_after(event, "\"ts\":").value_or(-1),
                   duration = number_after(event, "\"dur\":").value_or(0);
      if (begin + duration < window_.begin - margin || begin > window_.end + margin) return;
      if (holds(event, "\"ph\":\"X\"")) {
        bar(lane, JsonField(trace.parse(event), trace.path()), begin, begin + duration, message);
      } else if (holds(event, "\"cat\":\"arrow\"")) {
        const nlohmann::json json = trace.parse(event);
        const JsonField field(json, trace.path());
        End end = message;
        end.rank = rank;
        end.time = begin;
        (field.at("ph").string() == "s" ? starts_ : ends_)[field.at("id").string()] = end;
      }
    });
    put_into_rows(lane);
    timeline_.lanes.push_back(std::move(lane));
  }

  void match() {
    for (const auto& [id, start] : starts_) {
      const auto end = ends_.find(id);
      if (end == ends_.end() || !window_.meets(start.time, std::max(end->second.time, start.time + 1e-3))) continue;
      timeline_.arrows.push_back({start.rank, end->second.rank, shown(start.time), shown(end->second.time), start.bytes,
                                  start.operation, start.in_memory});
    }
    std::sort(timeline_.arrows.begin(), timeline_.arrows.end(), [](const auto& a, const auto& b) {
      return std::tuple(a.begin, a.end, a.from, a.to) < std::tuple(b.begin, b.end, b.from, b.to);
    });
  }

 private:
  double shown(double time) const { return (time - window_.begin) * 1e-6; }

  void bar(StepTimeline::Lane& lane, const JsonField& event, double begin, double end, End& message) {
    const std::string what = event.at("cat").string(), name = event.at("name").string();
    if (what == "message") {
      message.bytes = event.at("args").at("bytes").count();
      message.operation = event.at("args").at("operation").string();
      message.in_memory = name.starts_with("all-reduce");
    } else if (what != "step" && window_.meets(begin, end)) {
      lane.bars.push_back({what, index_of(name), shown(begin), shown(end), 0});
    }
  }

  Window window_;
  StepTimeline& timeline_;
  std::map<std::string, End> starts_, ends_;
};

/// The sum of the two largest errors bounds the difference of two ranks' clocks.
double clock_error(const std::map<int, TraceFile>& traces) {
  std::vector<double> errors{0, 0};
  for (const auto& [rank, trace] : traces) {
    bool first = true;
    trace.each([&](std::string_view event) {
      if (std::exchange(first, false)) errors.push_back(number_after(event, "\"clock_error_us\":").value_or(0));
    });
  }
  std::sort(errors.rbegin(), errors.rend());
  return (errors[0] + errors[1]) * 1e-6;
}

}  // namespace

std::optional<StepTimeline> read_step_timeline(const Run& run, std::optional<std::uint64_t> step) {
  std::map<int, TraceFile> traces;
  for (int rank = 0; rank < static_cast<int>(run.ranks.size()); ++rank) {
    const auto path = run.folder / text("trace-", rank, ".json");
    if (std::filesystem::exists(path)) traces.emplace(rank, path);
  }
  std::map<int, std::map<std::uint64_t, Window>> steps;
  for (const int rank : run.workers()) {
    if (!traces.contains(rank)) continue;
    auto own = steps_of(traces.at(rank));
    if (!own.empty()) steps.emplace(rank, std::move(own));
  }
  if (steps.empty()) return std::nullopt;
  const auto& [first, own] = *steps.begin();
  StepTimeline timeline;
  timeline.step =
      step ? *step : chosen_step(run.ranks[static_cast<std::size_t>(first)], own, exchanges_of(traces.at(first)));
  if (!own.contains(timeline.step)) {
    fail(ErrorKind::usage, "--step ", timeline.step, ": the trace of ", run.folder.string(), " has the steps ",
         own.begin()->first, " to ", own.rbegin()->first);
  }
  const Window wanted = own.at(timeline.step);
  Window window = wanted;
  for (const auto& [rank, others] : steps) {
    const auto there = others.find(timeline.step);
    if (there == others.end()) continue;
    window = {std::min(window.begin, there->second.begin), std::max(window.end, there->second.end)};
  }
  if (window.end - window.begin > 2 * (wanted.end - wanted.begin)) {  // workers that do not wait for each other
    window = wanted;
    timeline.is_shared = false;
  }
  timeline.length = (window.end - window.begin) * 1e-6;
  timeline.clock_error = clock_error(traces);
  Reader reader(window, &timeline);
  for (const auto& [rank, trace] : traces) reader.read(rank, trace);
  reader.match();
  return timeline;
}

std::vector<Drawing> step_drawings(const std::vector<Run>& runs, std::optional<std::uint64_t> step) {
  std::vector<Drawing> drawings;
  const std::vector<Cell> all = cells(runs);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (const auto timeline = read_step_timeline(all[i].first(), step))
      drawings.push_back(drawing_of(*timeline, text("step-", i + 1), all[i].name));
  }
  if (step && drawings.empty())
    fail(ErrorKind::usage, "--step ", *step, ": no run has a trace; ripieno train --set run.trace=true leaves one");
  return drawings;
}

}  // namespace ripieno::report
