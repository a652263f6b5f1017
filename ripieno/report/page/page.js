// Draws the figures that stand as JSON in the page (report/page.cpp writes them) with Plotly, in the page's colours.
"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const colours = {
  light: ["#0a58ca", "#d9480f", "#2b8a3e", "#9c36b5", "#b08900", "#0b7285", "#c2255c", "#495057", "#5f3dc4", "#66a80f"],
  dark: ["#7cb3ff", "#ff9f6b", "#69db7c", "#e599f7", "#ffd43b", "#66d9e8", "#faa2c1", "#ced4da", "#b197fc", "#c0eb75"],
};
const root = document.documentElement;
const axis = {};  // of a figure: which of its x axes is shown

function theme() { return root.dataset.theme; }

function tint(colour, opacity) {
  return colour + Math.round(opacity * 255).toString(16).padStart(2, "0");
}

/** The band of a line's 95 % intervals. */
function band(series, x, colour) {
  const upper = series.y.map((y, i) => y + series.spread[i]), lower = series.y.map((y, i) => y - series.spread[i]);
  return { x: [...x, ...[...x].reverse()], y: [...upper, ...lower.reverse()], fill: "toself", fillcolor: tint(colour, 0.16),
           line: { width: 0 }, mode: "lines", hoverinfo: "skip", showlegend: false, legendgroup: series.name };
}

function traces(figure) {
  const made = [];
  figure.series.forEach((series, i) => {
    const colour = colours[theme()][i % 10];
    const shown = { name: series.name, y: series.y, customdata: series.sources, legendgroup: series.name };
    const where = series.sources ? "<br>%{customdata}" : "";
    if (figure.categories) {
      const bars = { ...shown, type: "bar", x: figure.categories, marker: { color: colour },
                     hovertemplate: "%{x}<br>%{fullData.name}: %{y:.4g}" + where + "<extra></extra>" };
      if (figure.horizontal) {
        Object.assign(bars, { orientation: "h", x: bars.y, y: bars.x, hovertemplate: "%{y}<br>%{fullData.name}: %{x:.4g}" + where + "<extra></extra>" });
      }
      const spread = { array: series.spread, color: getComputedStyle(root).getPropertyValue("--soft") };
      if (series.spread) bars[figure.horizontal ? "error_x" : "error_y"] = spread;
      made.push(bars);
      return;
    }
    const x = series.x[axis[figure.id] || 0];
    const front = figure.form === "points" && !series.labels;
    if (series.spread && figure.form === "lines") made.push(band(series, x, colour));
    const dash = ["solid", "dash", "dot", "dashdot"][Math.floor(i / 10) % 4];  // where colours come round again
    const line = { ...shown, x, type: "scatter", mode: figure.form === "points" && !front ? "markers" : series.y.length > 60 || front ? "lines" : "lines+markers",
                   line: front ? { color: colours[theme()][7], dash: "dot", width: 1.5 } : { color: colour, width: 2, dash },
                   marker: { color: colour, size: figure.form === "points" ? 11 : 5 },
                   hovertemplate: "%{fullData.name}<br>%{x:.4g}, %{y:.4g}" + where + "<extra></extra>" };
    if (series.spread && figure.form === "points") line.error_y = { array: series.spread, color: colour };
    made.push(line);
  });
  return made;
}

function layout(figure) {
  const style = getComputedStyle(root), ink = style.getPropertyValue("--ink"), grid = style.getPropertyValue("--line");
  const lines = { gridcolor: grid, linecolor: grid, zerolinecolor: grid, automargin: true };
  const x = { ...lines, title: { text: figure.x_titles[axis[figure.id] || 0], standoff: 10 } };
  if (figure.categories) Object.assign(x, { type: "category", title: { text: "" } });
  const title = figure.x_titles[axis[figure.id] || 0];
  if (title === "workers" || title === "epochs") {  // whole numbers
    const last = Math.max(...figure.series.flatMap((series) => series.x[axis[figure.id] || 0]));
    Object.assign(x, { dtick: Math.max(1, Math.ceil(last / 12)), tick0: 0 });
  }
  const y = { ...lines, title: { text: figure.y_title, standoff: 8 }, rangemode: figure.form === "lines" || figure.form === "points" ? "normal" : "tozero" };
  const names = { ...lines, type: "category", autorange: "reversed", dtick: 1 };
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 13, family: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" },
           margin: { l: 64, r: 12, t: 10, b: 48 }, hovermode: "closest", barmode: figure.form === "stacked_bars" ? "stack" : "group", bargap: 0.3,
           xaxis: figure.horizontal ? y : x, yaxis: figure.horizontal ? names : y,
           modebar: { bgcolor: "rgba(0,0,0,0)", color: grid, activecolor: ink },
           legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 13 } }, showlegend: figure.series.length > 1 };
}

function draw(figure) {
  const at = document.getElementById("plot-" + figure.id);
  Plotly.react(at, traces(figure), layout(figure), { displaylogo: false, displayModeBar: wish.has("only") ? false : "hover", responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] });
}

function add_axes(figure) {
  const at = document.getElementById("axes-" + figure.id);
  figure.x_titles.forEach((title, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "over " + title.split(",")[0];
    button.setAttribute("aria-pressed", i === 0);
    button.addEventListener("click", () => {
      axis[figure.id] = i;
      at.querySelectorAll("button").forEach((other, j) => other.setAttribute("aria-pressed", i === j));
      draw(figure);
    });
    at.append(button);
  });
}

function set_theme(name) {
  root.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "light" : "dark";
  shown.forEach(draw);
}

const wish = new URLSearchParams(location.hash.slice(1));  // #theme=dark, #only=accuracy
const shown = wish.has("only") ? figures.filter((figure) => figure.id === wish.get("only")) : figures;
shown.filter((figure) => figure.x_titles.length > 1).forEach(add_axes);
if (wish.has("only")) {
  root.classList.add("only");
  document.getElementById(wish.get("only")).classList.add("shown");
}
const preference = matchMedia("(prefers-color-scheme: dark)");
set_theme(wish.get("theme") || (preference.matches && !wish.has("only") ? "dark" : "light"));
preference.addEventListener("change", () => set_theme(preference.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => set_theme(theme() === "dark" ? "light" : "dark"));
