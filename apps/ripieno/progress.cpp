#include "apps/ripieno/progress.h"

#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/ripieno/terminal.h"
#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/table.h"

namespace ripieno {

ProgressBar ProgressBar::automatic() { return ProgressBar(::isatty(STDERR_FILENO) ? Kind::bar : Kind::lines); }

void ProgressBar::message(int rank, const nlohmann::json& message) {
  const std::string type = message.value("type", "");
  if (type == "epoch") {
    const int epoch = message.value("epoch", 0);
    if (epoch <= epoch_) return;
    epoch_ = epoch;
    const double accuracy = message.value("accuracy", 0.0);
    score_ = text("test ", format_percent(accuracy));
    if (kind_ == Kind::lines) {
      std::cerr << title_ << ": epoch " << epoch << "/" << message.value("epochs", 0) << ", "
                << format_percent(accuracy, 2) << " of the test set, " << format_seconds(message.value("seconds", 0.0)) << "\n";
    }
    return;
  }
  if (type == "note") {
    clear();
    if (kind_ != Kind::none) std::cerr << title_ << ": " << message.value("text", "") << "\n";
    return;
  }
  if (type == "died") {
    clear();
    if (kind_ != Kind::none) std::cerr << title_ << ": rank " << rank << " died, the others go on\n";
    return;
  }
  if (type != "progress" || kind_ != Kind::bar) return;
  if (message.at("loss").is_null()) return;  // a server: it has no loss of its own
  if (rank_ < 0) rank_ = rank;
  if (rank != rank_) return;
  const double fraction = message.value("fraction", 0.0);
  draw(text(title_, " ▕", bar(fraction, 20), "▏ epoch ", message.value("epoch", 0), "/", message.value("epochs", 0), "  ",
            format_count(message.value("images_per_second", 0.0)), " images/s  ", clock_time(message.value("seconds_left", 0.0)),
            " left  loss ", format_fixed(message.value("loss", 0.0), 3), score_.empty() ? "" : "  ", score_));
}

void ProgressBar::draw(const std::string& line) {
  std::cerr << "\r\033[K" << shorten(line, static_cast<std::size_t>(terminal_width(STDERR_FILENO) - 1)) << std::flush;
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
  score_.clear();
  epoch_ = 0;
  rank_ = -1;
}

}  // namespace ripieno
