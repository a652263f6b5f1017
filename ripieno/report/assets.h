// Files built into the program for reports: the page's parts, and Plotly (assets.cpp.in).
#pragma once

#include <string_view>

namespace ripieno::report {

struct PageAssets {
  std::string_view html, style, script, figures, plotly;
  std::string_view schedule_html, schedule_style, schedule_script;  ///< of a schedule's page, beside `style`
};
PageAssets page_assets();

}  // namespace ripieno::report
