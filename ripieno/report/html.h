// Helpers for HTML pages: escaping text, filling in a page's parts, embedding JSON; internal to report/.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ripieno::report {

/// Text escaped for HTML and for attribute values.
std::string escaped_html(std::string_view text);

/// `html` with every {{NAME}} replaced by its part, or by "" if there is none.
std::string replaced(std::string_view html, const std::vector<std::pair<std::string_view, std::string_view>>& parts);

/// JSON escaped for a <script>, so that it cannot end the element.
std::string script_json(const nlohmann::ordered_json& json);

}  // namespace ripieno::report
