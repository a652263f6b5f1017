// The lines that a report's numbers are from, for its page to show.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "ripieno/report/report.h"

namespace ripieno::report {

/// {FILE: {LINE: TEXT}}, with the lines around it where a file has one value a line (summary.json); files as a page in
/// `folder` links to them. Of files that are there, in the order in which the page shows their numbers, until there are
/// 4 MB.
nlohmann::ordered_json source_lines(const Report& report, const std::filesystem::path& folder);

/// The path of `file` relative to a page in `folder`.
std::string address(const std::filesystem::path& file, const std::filesystem::path& folder);

}  // namespace ripieno::report
