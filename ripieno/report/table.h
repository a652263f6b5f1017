// A table of text, for a terminal and as Markdown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::report {

enum class Align { left, right };

/// Columns of a terminal that UTF-8 text takes: combining marks none, East Asian wide characters and emoji two, bytes
/// that are not UTF-8 one each.
std::size_t display_width(std::string_view text);

/// At most `width` columns, with "…" in the middle for what was taken out; `width` >= 1.
std::string shorten(const std::string& text, std::size_t width);

class Table {
 public:
  /// A header may have several lines; they stand on the rule below them. Columns come before rows.
  Table& column(std::string header, Align align = Align::left);
  /// One cell a column, else Error(internal). Cells have one line.
  Table& row(std::vector<std::string> cells);

  std::size_t rows() const { return rows_.size(); }
  /// Columns of the terminal that str() takes.
  std::size_t width() const;

  /// Lines without trailing spaces; two spaces between columns.
  std::string str() const;
  /// GitHub's tables; the lines of a header are joined, and | is escaped.
  std::string markdown() const;

 private:
  struct Column {
    std::vector<std::string> header;  // its lines
    Align align;
    std::size_t width;
  };
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ripieno::report
