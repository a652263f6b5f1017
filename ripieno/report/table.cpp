#include "ripieno/report/table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>

#include "ripieno/core/error.h"

namespace ripieno::report {
namespace {

struct CodePoint {
  char32_t value;
  std::size_t bytes;
};

/// The code point at the start of `s`, which is not empty; an invalid byte stands for itself.
CodePoint first_code_point(std::string_view s) {
  const auto lead = static_cast<unsigned char>(s[0]);
  const std::size_t bytes = lead < 0x80 ? 1 : (lead >> 5) == 6 ? 2 : (lead >> 4) == 14 ? 3 : (lead >> 3) == 30 ? 4 : 0;
  if (bytes == 0 || bytes > s.size()) return {U'?', 1};
  if (bytes == 1) return {lead, 1};
  char32_t value = lead & (0x7f >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(s[i]);
    if ((next >> 6) != 2) return {U'?', 1};
    value = value << 6 | (next & 0x3f);
  }
  return {value, bytes};
}

struct Block {
  char32_t first, last;
};
constexpr std::array none_wide{Block{0x300, 0x36f}, Block{0x200b, 0x200f}, Block{0x20d0, 0x20ff}, Block{0xfe00, 0xfe0f},
                               Block{0xfe20, 0xfe2f}};
constexpr std::array two_wide{Block{0x1100, 0x115f},   Block{0x2e80, 0xa4cf},   Block{0xac00, 0xd7a3},
                              Block{0xf900, 0xfaff},   Block{0xfe30, 0xfe6f},   Block{0xff00, 0xff60},
                              Block{0xffe0, 0xffe6},   Block{0x1f300, 0x1f64f}, Block{0x1f680, 0x1f6ff},
                              Block{0x1f900, 0x1f9ff}, Block{0x20000, 0x3fffd}};

template <std::size_t n>
bool in_any(const std::array<Block, n>& blocks, char32_t c) {
  return std::any_of(blocks.begin(), blocks.end(), [c](const Block& b) { return c >= b.first && c <= b.last; });
}

std::size_t width_of(char32_t c) { return in_any(none_wide, c) ? 0 : in_any(two_wide, c) ? 2 : 1; }

/// The longest prefix of `s` with at most `width` columns.
std::string_view fitting(std::string_view s, std::size_t width) {
  std::size_t bytes = 0, used = 0;
  while (bytes < s.size()) {
    const CodePoint next = first_code_point(s.substr(bytes));
    if (used + width_of(next.value) > width) break;
    used += width_of(next.value);
    bytes += next.bytes;
  }
  return s.substr(0, bytes);
}

std::string escaped(const std::string& cell) {
  std::string out;
  for (const char c : cell) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out.erase(out.find_last_not_of(' ') + 1);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    if (text.starts_with("\033[")) {  // a colour
      text.remove_prefix(std::min(text.find('m'), text.size() - 1) + 1);
      continue;
    }
    const CodePoint next = first_code_point(text);
    width += width_of(next.value);
    text.remove_prefix(next.bytes);
  }
  return width;
}

std::string shorten(const std::string& text, std::size_t width) {
  require(width >= 1, "text shortened to no columns");
  if (display_width(text) <= width) return text;
  const std::string_view whole = text;
  const std::string_view head = fitting(whole, width / 2);
  const std::size_t room = width - 1 - display_width(head);
  std::string_view tail = whole.substr(head.size());
  while (display_width(tail) > room) tail.remove_prefix(first_code_point(tail).bytes);
  return std::string(head) + "…" + std::string(tail);
}

Table& Table::column(std::string header, Align align) {
  require(rows_.empty(), "a column ", header, " added after rows");
  Column column{{}, align, 0};
  std::istringstream lines(header);
  for (std::string one; std::getline(lines, one);) {
    column.width = std::max(column.width, display_width(one));
    column.header.push_back(one);
  }
  columns_.push_back(std::move(column));
  return *this;
}

Table& Table::row(std::vector<std::string> cells) {
  require(cells.size() == columns_.size(), "a row of ", cells.size(), " cells in a table of ", columns_.size(),
          " columns");
  for (std::size_t i = 0; i < cells.size(); ++i) {
    columns_[i].width = std::max(columns_[i].width, display_width(cells[i]));
  }
  rows_.push_back(std::move(cells));
  return *this;
}

std::size_t Table::width() const {
  std::size_t sum = columns_.empty() ? 0 : 2 * (columns_.size() - 1);
  for (const Column& column : columns_) sum += column.width;
  return sum;
}

std::string Table::line(const std::vector<std::string>& cells) const {
  std::string out;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string space(columns_[i].width - display_width(cells[i]), ' ');
    if (i > 0) out += "  ";
    out += columns_[i].align == Align::left ? cells[i] + space : space + cells[i];
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

std::string Table::str() const {
  std::size_t lines = 0;
  for (const Column& column : columns_) lines = std::max(lines, column.header.size());
  std::string out;
  for (std::size_t i = 0; i < lines; ++i) {
    std::vector<std::string> cells;
    for (const Column& column : columns_) {
      const std::size_t empty = lines - column.header.size();
      cells.push_back(i < empty ? "" : column.header[i - empty]);
    }
    out += line(cells);
  }
  std::vector<std::string> rules;
  for (const Column& column : columns_) {
    std::string rule;
    for (std::size_t i = 0; i < column.width; ++i) rule += "─";
    rules.push_back(rule);
  }
  out += line(rules);
  for (const auto& cells : rows_) out += line(cells);
  return out;
}

std::string Table::markdown() const {
  std::string header = "|", rule = "|", body;
  for (const Column& column : columns_) {
    std::string joined;
    for (const std::string& one : column.header) joined += (joined.empty() ? "" : " ") + one;
    header += text(" ", escaped(joined), " |");
    rule += column.align == Align::left ? " :--- |" : " ---: |";
  }
  for (const auto& cells : rows_) {
    body += "|";
    for (const std::string& cell : cells) body += text(" ", escaped(cell), " |");
    body += "\n";
  }
  return header + "\n" + rule + "\n" + body;
}

}  // namespace ripieno::report
