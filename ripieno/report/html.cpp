#include "ripieno/report/html.h"

namespace ripieno::report {

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string replaced(std::string_view html, const std::vector<std::pair<std::string_view, std::string_view>>& parts) {
  std::string out;
  while (true) {
    const auto begin = html.find("{{"), end = html.find("}}");
    if (begin == std::string_view::npos) return out += html;
    const std::string_view key = html.substr(begin + 2, end - begin - 2);
    out += html.substr(0, begin);
    html.remove_prefix(end + 2);
    for (const auto& [name, value] : parts) {
      if (name == key) out += value;
    }
  }
}

std::string script_json(const nlohmann::ordered_json& json) {
  std::string out = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // "</script" would end the script, "<!--<script" would hide its end.
  for (std::size_t at = 0; (at = out.find('<', at)) != std::string::npos;) out.replace(at, 1, "\\u003c");
  return out;
}

}  // namespace ripieno::report
