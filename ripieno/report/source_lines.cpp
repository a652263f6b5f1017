#include "ripieno/report/source_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"

namespace ripieno::report {
namespace {

constexpr std::size_t around = 4;              // lines of context, on each side
constexpr std::size_t longest = 2000;          // of a line
constexpr std::size_t most_bytes = 4'000'000;  // of lines, in all

/// All sources, those of the first screen first.
std::vector<Source> sources_of(const Report& report) {
  std::vector<Source> all;
  for (const Conclusion& conclusion : report.conclusions) {
    for (const auto* sentences : {&conclusion.sentences, &conclusion.notes}) {
      for (const Sentence& sentence : *sentences) {
        for (const Piece& piece : sentence.pieces) {
          if (piece.source) all.push_back(*piece.source);
        }
      }
    }
  }
  const auto add = [&](const ReportTable& table) {
    for (const auto& row : table.rows) {
      for (const ReportCell& cell : row) {
        if (cell.source) all.push_back(*cell.source);
      }
    }
  };
  for (const ReportTable& table : report.tables) add(table);
  for (const Figure& figure : report.figures) {
    for (const Series& series : figure.series) all.insert(all.end(), series.sources.begin(), series.sources.end());
  }
  for (const Drawing& drawing : report.drawings) add(drawing.numbers);
  return all;
}

std::vector<std::string> lines_of(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  if (!std::filesystem::is_regular_file(file)) return lines;
  std::istringstream content(read_file(file));
  for (std::string line; std::getline(content, line);) lines.push_back(line.substr(0, longest));
  return lines;
}

}  // namespace

std::string address(const std::filesystem::path& file, const std::filesystem::path& folder) {
  const auto absolute = std::filesystem::absolute(file).lexically_normal();
  const auto from = std::filesystem::absolute(folder.empty() ? "." : folder).lexically_normal();
  return absolute.lexically_proximate(from).generic_string();
}

nlohmann::ordered_json source_lines(const Report& report, const std::filesystem::path& folder) {
  std::map<std::filesystem::path, std::vector<std::string>> files;
  std::set<std::pair<std::filesystem::path, std::size_t>> taken;
  auto all = nlohmann::ordered_json::object();
  std::size_t bytes = 0;
  for (const Source& source : sources_of(report)) {
    if (source.line == 0 || bytes > most_bytes) continue;
    const auto [found, is_new] = files.try_emplace(source.file);
    if (is_new) found->second = lines_of(source.file);
    const std::vector<std::string>& lines = found->second;
    const std::size_t more = source.file.extension() == ".json" ? around : 0;
    const std::size_t first = source.line > more ? source.line - more : 1;
    for (std::size_t line = first; line <= std::min(source.line + more, lines.size()); ++line) {
      if (!taken.emplace(source.file, line).second) continue;
      all[address(source.file, folder)][std::to_string(line)] = lines[line - 1];
      bytes += lines[line - 1].size() + 12;
    }
  }
  return all;
}

}  // namespace ripieno::report
