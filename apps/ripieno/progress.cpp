#include "apps/ripieno/progress.h"

#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/ripieno/terminal.h"
#include "ripieno/core/error.h"
#include "ripieno/report/format.h"
#include "ripieno/report/live.h"
#include "ripieno/report/table.h"

namespace ripieno::program {

ProgressBar ProgressBar::automatic() { return ProgressBar(::isatty(STDERR_FILENO) ? Kind::bar : Kind::lines); }

void ProgressBar::title(const std::string& title) {
  title_ = title;
  warned_ = false;
  begun_ = moved_ = std::chrono::steady_clock::now();
}

double ProgressBar::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
}

void ProgressBar::message(int rank, const nlohmann::json& message) {
  const std::string type = message.value("type", "");
  if (type == "epoch") {
    const int epoch = message.value("epoch", 0);
    if (epoch <= epoch_) return;
    epoch_ = epoch;
    const double accuracy = message.value("accuracy", 0.0);
    score_ = text("test ", report::format_percent(accuracy));
    if (kind_ == Kind::lines) {
      std::cerr << title_ << ": epoch " << epoch << "/" << message.value("epochs", 0) << ", "
                << report::format_percent(accuracy, 2) << " of the test set, "
                << report::format_seconds(message.value("seconds", 0.0)) << "\n";
    }
    return;
  }
  if (type == "note") return line(message.value("text", ""));
  if (type == "died") return line(text("rank ", rank, " died, the others go on"));
  if (type == "not_finite") {
    if (!std::exchange(warned_, true))
      line("warning: " + message.value("text", "") +
           "; training goes on, but learns nothing more: lower learning_rate.base");
    return;
  }
  if (type == "waiting") return show_waits(rank, message);
  if (type != "progress") return;
  waits_.erase(rank);
  if (message.value("samples", 0) == 0) return;  // the worker had no samples in this step
  if (rank_ < 0) rank_ = rank;
  if (rank != rank_) return;
  moved_ = std::chrono::steady_clock::now();
  told_of_waits_ = false;
  if (kind_ != Kind::bar) return;
  const double fraction = message.value("fraction", 0.0), left = message.value("seconds_left", 0.0);
  fraction_ = fraction;
  at_epoch_ = message.value("epoch", 0);
  epochs_ = message.value("epochs", 0);
  std::string in_all;
  if (runs_after_ > 0 && fraction > 0) {
    const double this_one = elapsed() / fraction;
    in_all = ", " +
             clock_time(this_one - elapsed() + static_cast<double>(runs_after_) * seconds_of_one_.value_or(this_one)) +
             " for all";
  }
  const std::string loss = !message.at("loss").is_null() ? report::format_fixed(message.value("loss", 0.0), 3)
                           : warned_                     ? "not finite"
                                                         : "–";
  draw(text(head(), report::format_count(message.value("images_per_second", 0.0)), " images/s  ", clock_time(left),
            " left", in_all, "  loss ", loss, score_.empty() ? "" : "  ", score_));
}

std::string ProgressBar::head() const {
  return text(title_, " ▕", bar(fraction_, 20), "▏ epoch ", at_epoch_, "/", epochs_, "  ");
}

void ProgressBar::show_waits(int rank, const nlohmann::json& message) {
  const bool has_said_so = waits_.contains(rank);  // then all that wait have, which look once a second
  waits_[rank] = message.value("for", std::vector<int>());
  const std::chrono::duration<double> still = std::chrono::steady_clock::now() - moved_;
  if (rank_ >= 0 && still.count() < report::is_long(0)) return;  // others go on
  const std::string words = report::waiting_for(report::awaited_at_last(waits_), message.value("seconds", 0.0));
  if (kind_ == Kind::bar) return draw((rank_ < 0 ? title_ + ": " : head()) + words);
  if (has_said_so && !std::exchange(told_of_waits_, true)) line(words);
}

void ProgressBar::line(const std::string& what) {
  hide();
  if (kind_ != Kind::none) std::cerr << title_ << ": " << what << "\n";
}

void ProgressBar::draw(const std::string& line) {
  std::cerr << "\r\033[K" << report::shorten(line, static_cast<std::size_t>(terminal_width(STDERR_FILENO) - 1))
            << std::flush;
  drawn_ = true;
}

void ProgressBar::hide() {
  if (drawn_) std::cerr << "\r\033[K" << std::flush;
  drawn_ = false;
}

void ProgressBar::clear() {
  hide();
  score_.clear();
  waits_.clear();
  told_of_waits_ = false;
  epoch_ = 0;
  rank_ = -1;
}

}  // namespace ripieno::program
