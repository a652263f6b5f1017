// What every HTML page that Ripieno writes needs: text in HTML, a page's parts put together, JSON within it; internal
// to report/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ripieno::report {

/// Text as it stands in HTML and in the value of an attribute.
std::string escaped_html(std::string_view text);

/// `html` with every {{NAME}} replaced by its part, or by nothing where there is none.
std::string replaced(std::string_view html, const std::vector<std::pair<std::string_view, std::string_view>>& parts);

/// JSON as it stands in a <script>, which it cannot end.
std::string script_json(const nlohmann::ordered_json& json);

}  // namespace ripieno::report
