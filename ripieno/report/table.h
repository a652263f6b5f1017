// A text table, for terminals and as Markdown.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ripieno::report {

enum class Align { left, right };

/// The terminal columns of UTF-8 text: none for combining marks, two for East Asian wide characters and emoji, one for
/// each byte that is not UTF-8.
std::size_t display_width(std::string_view text);

/// The text cut to `width` >= 1 columns, with "…" in the middle for the removed part.
std::string shorten(const std::string& text, std::size_t width);

class Table {
 public:
  /// Adds a column, before any row. A header may have several lines, aligned at the bottom.
  Table& column(std::string header, Align align = Align::left);
  /// Adds a row with one cell per column (else Error(internal)); cells have one line.
  Table& row(std::vector<std::string> cells);

  std::size_t rows() const { return rows_.size(); }
  /// The width of str() in terminal columns.
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
