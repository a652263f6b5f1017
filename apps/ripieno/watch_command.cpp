#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <thread>

#include "apps/ripieno/commands.h"
#include "apps/ripieno/terminal.h"
#include "ripieno/core/error.h"
#include "ripieno/launch/environment.h"
#include "ripieno/observe/run_folder.h"
#include "ripieno/observe/run_lock.h"
#include "ripieno/report/format.h"
#include "ripieno/report/live.h"
#include "ripieno/report/run.h"
#include "ripieno/report/table.h"

namespace ripieno::program {
namespace {

namespace fs = std::filesystem;

constexpr auto between_looks = std::chrono::milliseconds(500);
constexpr int bar_cells = 30;

volatile sig_atomic_t interrupted = 0;

struct WatchArguments {
  fs::path folder = "runs";
  bool once = false;
};

/// The run in that folder, or the newest run inside it.
fs::path newest(const fs::path& folder) {
  if (observe::RunFolder::is_one(folder)) return folder;
  fs::path found;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (observe::RunFolder::is_one(entry.path()) && entry.path() > found) found = entry.path();
    }
  }
  if (found.empty())
    fail(ErrorKind::usage, folder.string(),
         ": there is no run in it; name a run's folder, or start one with ripieno train");
  return found;
}

class Watch {
 public:
  explicit Watch(fs::path run) : run_(std::move(run)) {}

  /// Whether its numbers are final. A killed or failed run has no summary.
  bool ended() const { return report::is_finished(run_) || !observe::is_running(run_); }

  /// Call ended() first to be sure to get the last numbers.
  std::string look(bool colours) {
    while (fs::exists(run_ / text("metrics-", readers_.size(), ".jsonl"))) {
      readers_.push_back(std::make_unique<report::MetricsReader>(run_ / text("metrics-", readers_.size(), ".jsonl")));
    }
    std::vector<const report::Metrics*> metrics;
    for (const auto& reader : readers_) metrics.push_back(&reader->read());
    const report::RunNow now = report::run_now(metrics);
    return head(now) + (now.ranks.empty() ? "" : ranks(now, colours));
  }

 private:
  std::string head(const report::RunNow& now) const {
    const std::string name = report::folder_name(run_);
    const bool running = observe::is_running(run_),
               finished = report::is_finished(run_);  // in this order: a run ends after its summary is written
    if (now.ranks.empty())
      return name + (running ? ": its workers have not begun yet\n" : ": ended before its workers began\n");
    std::uint32_t epoch = 0;
    for (const report::RankNow& rank : now.ranks) epoch = std::max(epoch, rank.epoch);
    std::string line = name;
    if (now.is_planned) line += text(" ▕", bar(now.fraction, 20), "▏ ", report::format_percent(now.fraction, 0));
    line += text("  epoch ", epoch + 1, now.epochs > 0 ? text("/", now.epochs) : "", "  ");
    const bool waits = running && !finished && now.still > 0;  // then no rate and no time left are true
    line +=
        waits ? report::waiting_for(now.awaited, now.still) : report::format_count(now.images_per_second) + " images/s";
    if (finished) {
      line += "  ended";
    } else if (!running) {
      line += "  ended unfinished: it was killed, or failed";
    } else if (now.seconds_left && !waits) {
      line += "  " + clock_time(*now.seconds_left) + " left";
    }
    if (now.accuracy) line += "  test " + report::format_percent(*now.accuracy);
    return line + "\n\n";
  }

  static std::string ranks(const report::RunNow& now, bool colours) {
    report::Table table;
    for (const char* title : {"rank", "step", "images/s", "loss", "CPU", "memory", "network"})
      table.column(title, report::Align::right);
    table.column("a step's time");
    for (const report::RankNow& rank : now.ranks) {
      table.row({std::to_string(rank.rank), report::format_count(static_cast<std::int64_t>(rank.steps)),
                 report::format_count(rank.images_per_second), rank.loss ? report::format_fixed(*rank.loss, 3) : "–",
                 rank.cpu ? report::format_percent(*rank.cpu, 0) : "–",
                 rank.resident > 0 ? report::format_bytes(rank.resident) : "–",
                 report::format_bytes(rank.bytes_per_second) + "/s", stages(rank.stages, colours)});
    }
    std::string legend = "\nCPU: of a core; network: sent. ";
    for (const observe::StageInfo& stage : observe::stages) {
      double time = 0;
      for (const report::RankNow& rank : now.ranks) time += rank.stages[stage.stage];
      if (stage.kind == observe::StageKind::in_step && observe::is_shown(stage, time))
        legend += text(shade(stage, 1, colours), " ", stage.name, "  ");
    }
    return table.str() + legend + "\n";
  }

  static std::string shade(const observe::StageInfo& stage, int cells, bool colours) {
    std::string out;
    for (int i = 0; i < cells; ++i) out += colours ? "█" : std::string(1, stage.letter);
    return colours && cells > 0 ? text("\033[", stage.colour, "m", out, "\033[0m") : out;
  }

  /// Fills the bar without gaps: each part ends at the sum so far.
  static std::string stages(const report::StageSeconds& seconds, bool colours) {
    const double all = seconds.steps();
    if (all <= 0) return "";
    std::string out;
    double sum = 0;
    int drawn = 0;
    for (const observe::StageInfo& stage : observe::stages) {
      if (stage.kind != observe::StageKind::in_step) continue;
      sum += seconds[stage.stage];
      const int until = static_cast<int>(std::lround(sum / all * bar_cells));
      out += shade(stage, until - drawn, colours);
      drawn = until;
    }
    return out;
  }

  fs::path run_;
  std::vector<std::unique_ptr<report::MetricsReader>> readers_;
};

/// Draws without wrapping, since wrapped lines would leave their ends behind.
void draw(const std::string& view) {
  std::string out = "\033[H\033[?7l";
  for (const char c : view) out += c == '\n' ? std::string("\033[K\n") : std::string(1, c);
  std::cout << out << "\033[J\033[?7h" << std::flush;
}

void run_watch(const WatchArguments& arguments) {
  Watch watch(newest(arguments.folder));
  if (arguments.once || !::isatty(STDOUT_FILENO)) {
    std::cout << watch.look(false);
    return;
  }
  struct sigaction stop = {}, before = {};
  stop.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &stop, &before);
  struct Screen {  // the alternate screen; the old content comes back
    Screen() { std::cout << "\033[?1049h\033[?25l"; }
    ~Screen() { std::cout << "\033[?25h\033[?1049l" << std::flush; }
  };
  const bool colours = launch::variable("NO_COLOR").value_or("").empty();  // no-color.org
  std::string view;
  {
    const Screen screen;
    while (!interrupted) {
      const bool last = watch.ended();
      draw(view = watch.look(colours));
      if (last) break;
      std::this_thread::sleep_for(between_looks);
    }
  }
  sigaction(SIGINT, &before, nullptr);
  std::cout << view;
}

}  // namespace

void add_watch(CLI::App& app, CommandContext& context) {
  auto arguments = std::make_shared<WatchArguments>();
  CLI::App* command =
      app.add_subcommand("watch", "Watch a running job: its ranks, speed, stages, CPU, network, loss and time left");
  command->add_option("run", arguments->folder,
                      "the run's folder, or a folder whose newest run to watch; default: runs");
  command->add_flag("--once", arguments->once,
                    "print it once, without colours; so where standard output is no terminal");
  command->callback([arguments, &context] { context.chosen = [arguments] { run_watch(*arguments); }; });
}

}  // namespace ripieno::program
