#include "ripieno/data/locate.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <system_error>

#include "ripieno/core/error.h"
#include "ripieno/core/file.h"

namespace ripieno::data {
namespace {

namespace fs = std::filesystem;

/// A folder, and why it cannot be read.
struct Trouble {
  fs::path place;
  std::error_code error;
};

bool is_missing(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
}

/// The file at a path, or inside a folder of that name, as some archives unpack.
std::optional<fs::path> file_at(const fs::path& path, std::optional<Trouble>* trouble) {
  for (const fs::path& place : {path, path / path.filename()}) {
    std::error_code error;
    const fs::file_status found = fs::status(place, error);
    if (fs::is_regular_file(found)) return place;
    if (error && !is_missing(error) && !*trouble) *trouble = Trouble{place.parent_path(), error};
    if (!fs::is_directory(found)) return std::nullopt;
  }
  return std::nullopt;
}

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// The shortest file name that has all the words; "" for none.
std::string other_form(const SoughtFile& sought) {
  std::string best;
  for (const fs::path& folder : sought.folders) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
      std::string name = entry.path().filename().string();
      std::transform(name.begin(), name.end(), name.begin(), lower);
      const auto has = [&name](const std::string& word) { return name.find(word) != name.npos; };
      if (std::all_of(sought.words.begin(), sought.words.end(), has) &&
          (best.empty() || entry.path().string().size() < best.size()))
        best = entry.path().string();
    }
  }
  return best;
}

bool begins(std::string_view first, std::string_view with) {
  return first.size() >= with.size() &&
         std::equal(with.begin(), with.end(), first.begin(), [](char a, char b) { return a == lower(b); });
}

}  // namespace

fs::path locate(const SoughtFile& sought) {
  std::optional<Trouble> trouble;
  for (const char* packed : {"", ".gz"}) {
    for (const std::string& name : sought.names) {
      for (const fs::path& folder : sought.folders) {
        if (const auto found = file_at(folder / (name + packed), &trouble)) return *found;
      }
    }
  }
  const std::string& name = sought.names.front();
  if (trouble) {
    const std::string place = list(std::span(&trouble->place, 1));
    fail(ErrorKind::io, sought.dataset, ": cannot look for ", name, " in ", place, ": ", trouble->error.message());
  }
  std::error_code error;
  const fs::path& first = sought.folders.front();
  const fs::file_status status = fs::status(first, error);
  if (fs::exists(status) && !fs::is_directory(status)) {
    fail(ErrorKind::data, sought.dataset, ": cannot look for ", name, " in ", first.string(), ": it is no folder");
  }
  const std::string gone =
      first.empty() || fs::exists(status) ? "" : text(" (there is no folder ", first.string(), ")");
  const std::string other = other_form(sought);
  fail(ErrorKind::data, sought.dataset, ": there is no ", name, " (nor ", name, ".gz) in ", list(sought.folders), gone,
       other.empty() ? "" : text("; there is ", other, ", which is not known in this form"), "; ", sought.advice);
}

std::string list(std::span<const fs::path> folders) {
  std::string all;
  for (const auto& folder : folders) all += text(all.empty() ? "" : ", ", folder.empty() ? "." : folder.string());
  return all;
}

std::string kind_of(std::string_view first) {
  const std::string_view bytes = first;
  if (begins(first, "\xEF\xBB\xBF")) first.remove_prefix(3);
  while (!first.empty() && std::isspace(static_cast<unsigned char>(first.front()))) first.remove_prefix(1);
  for (const char* page : {"<!doctype html", "<html", "<head", "<!--"}) {
    if (begins(first, page)) return "a web page (HTML)";
  }
  if (begins(first, "<?xml")) return "an XML document";
  if (begins(first, "version https://git-lfs")) return "a pointer of Git LFS (git lfs pull fetches the file)";
  if (bytes.substr(0, 4) == "PK\x03\x04") return "a zip archive";
  if (bytes.substr(0, 2) == "\x1F\x8B") return "packed with gzip";
  if (bytes.substr(0, 6) == std::string_view("\xFD"
                                             "7zXZ\0",
                                             6))
    return "packed with xz";
  if (bytes.substr(0, 3) == "BZh") return "packed with bzip2";
  const auto is_letter = [](unsigned char c) { return std::isprint(c) || std::isspace(c); };
  if (bytes.size() < 8 || !std::all_of(bytes.begin(), bytes.end(), is_letter)) return "";
  return text("text that begins with \"",
              first.substr(0, std::min<std::size_t>(24, first.find_first_of("\r\n\"\t\v\f"))), "\"");
}

std::string first_bytes(const fs::path& path) {
  RandomAccessFile file(path);
  std::string first(std::min<std::uint64_t>(64, file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(first)));
  return first;
}

}  // namespace ripieno::data
