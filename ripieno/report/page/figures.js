// How a figure is drawn with Plotly: its traces, its layout and its legend, in the page's colours (report/page_parts.cpp writes figures).
"use strict";
const colours = {
  light: ["#286ada", "#f66d07", "#06ad55", "#9746a7", "#02a5c5", "#ef61a4", "#a94101", "#7b0450", "#317262", "#a07fff", "#4f3c00", "#103c86"],
  dark: ["#509dff", "#fdc317", "#8df791", "#e4acff", "#2cc7c0", "#ff8d83", "#a17102", "#d14d70", "#0e8c94", "#935ece", "#8fb00e", "#b6ecff"],
};
const greys = { light: ["#ccd2d8", "#aab2bb", "#868f99", "#5d6670", "#363d45"], dark: ["#39414a", "#545d67", "#737d87", "#98a1aa", "#c4cbd2"] };
const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const hatches = ["", "/", ".", "x", "-", "|"];  // of bars, where lines have dashes
const marker_names = ["circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon"];
const root = document.documentElement;
const narrow = matchMedia("(max-width: 900px)");

function theme() { return root.dataset.theme; }

function style(name) { return getComputedStyle(root).getPropertyValue(name); }

/** Ranks of one run are shades of its way's colour: darker ones of a light colour, and the other way round. */
function shade(colour, share) {
  const part = (text, at) => parseInt(text.slice(at, at + 2), 16);
  const light = 0.3 * part(colour, 1) + 0.6 * part(colour, 3) + 0.1 * part(colour, 5) > 110, other = light ? "#000000" : "#ffffff";
  return "#" + [1, 3, 5].map((at) => Math.round(part(colour, at) * (1 - share) + part(other, at) * share).toString(16).padStart(2, "0")).join("");
}

function colour_of(look) { return colours[theme()][look[0]]; }

function colour_of_series(figure, i) {
  const series = figure.series[i];
  if (!series.look) return greys[theme()][Math.min(i, 4)];
  const colour = colour_of(series.look);
  return figure.run && !figure.categories ? shade(colour, [0, 0.35, 0.6][series.look[1] % 3]) : colour;
}

function short(number) {
  if (number === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(number))));
  return number.toFixed(Math.min(digits, 4));
}

function shortened(name, most) { return name.length > most ? name.slice(0, most - 1) + "…" : name; }

function where(series) { return series.sources ? "<br>%{customdata}" : ""; }

function bar_traces(figure) {
  return figure.series.map((series, i) => {
    const own = series.by_category ? figure.category_looks.map(colour_of) : colour_of_series(figure, i);
    const trace = { name: series.name, type: "bar", x: figure.categories, y: series.y, customdata: series.sources, marker: { color: own },
                    hovertemplate: "%{x}<br>%{fullData.name}: %{y:.4g}" + where(series) + "<extra></extra>" };
    if (series.by_category && figure.category_looks.some((look) => look[1] > 0)) {
      trace.marker.pattern = { shape: figure.category_looks.map((look) => hatches[look[1]]), fillmode: "overlay", fgcolor: style("--ground"), fgopacity: 0.75, size: 7, solidity: 0.3 };
    }
    if (series.name === "hidden") trace.marker = { color: greys[theme()][0], pattern: { shape: "/", fgcolor: greys[theme()][2], bgcolor: greys[theme()][0], size: 6 } };
    const spread = { array: series.spread, color: style("--ink"), thickness: 1, width: 2 };
    if (series.spread) trace[figure.horizontal ? "error_x" : "error_y"] = spread;
    if (figure.horizontal) Object.assign(trace, { orientation: "h", x: series.y, y: figure.categories, hovertemplate: "%{y}<br>%{fullData.name}: %{x:.4g}" + where(series) + "<extra></extra>" });
    return trace;
  });
}

function line_traces(figure, axis) {
  return figure.series.map((series, i) => {
    const colour = colour_of_series(figure, i), look = series.look || [0, 0, 0], points = figure.form === "points";
    const front = points && !series.labels;
    const trace = { name: series.name, x: series.x[axis], y: series.y, customdata: series.sources, type: "scatter",
                    mode: points && !front ? "markers" : series.y.length > 60 || front ? "lines" : "lines+markers",
                    line: front ? { color: style("--soft"), dash: "dot", width: 1.5 } : { color: colour, width: 2, dash: dashes[look[1]] },
                    marker: { color: colour, size: points ? 11 : 6, symbol: marker_names[look[2]] },
                    hovertemplate: "%{fullData.name}<br>%{x:.4g}, %{y:.4g}" + where(series) + "<extra></extra>" };
    if (series.spread) trace.error_y = { array: series.spread, color: colour, thickness: 1, width: 2 };
    return trace;
  });
}

/** The length of each bar, at its end; of one that is cut, with a sign that it goes on. */
function bar_labels(figure) {
  const stacked = figure.form === "stacked_bars";
  if (!stacked && figure.series.length > 1) return [];
  const most = figure.y_range ? figure.y_range[1] : Infinity;
  return figure.categories.map((name, i) => {
    const all = figure.series.reduce((sum, series) => sum + series.y[i], 0);
    const spread = figure.series.reduce((widest, series) => Math.max(widest, series.spread ? series.spread[i] : 0), 0);
    const cut = all > most;
    return { x: cut ? most : all + spread, y: name, xref: "x", yref: "y", text: short(all) + (cut ? " ▸" : ""), showarrow: false, xanchor: cut ? "right" : "left", xshift: cut ? -2 : 4,
             font: { size: 12, color: style("--ink") }, bgcolor: cut ? style("--ground") : "rgba(0,0,0,0)" };
  });
}

function longest_bar(figure) {
  return Math.max(...figure.categories.map((name, i) => figure.series.reduce((sum, series) => sum + series.y[i] + (series.spread ? series.spread[i] : 0), 0)));
}

function bar_layout(figure, width, height) {
  const most = figure.y_range ? figure.y_range[1] : 1.22 * longest_bar(figure) || 1;
  const beside = compared.find((one) => one.id === "epoch");  // which names the same rows, if it has the same
  const hides_names = figure.id === "sent" && !narrow.matches && beside && String(beside.categories) === String(figure.categories);
  const room = hides_names ? 0 : Math.min(0.42 * width, 10 + 7 * Math.max(...figure.categories.map((name) => name.length)));
  return { margin: { l: 8 + room, r: 8, t: 6, b: 44 }, barmode: figure.form === "stacked_bars" ? "stack" : "group",
           bargap: Math.max(0.28, 1 - 26 * figure.categories.length / (height - 50)),  // no bar is thicker than 26 pixels
           xaxis: { range: [0, most], title: { text: figure.y_title, standoff: 8 }, nticks: width < 450 ? 5 : 8 },
           yaxis: { type: "category", autorange: "reversed", dtick: 1, showticklabels: !hides_names, tickvals: figure.categories,
                    ticktext: figure.categories.map((name) => shortened(name, Math.floor((room - 6) / 6.6))), showgrid: false },
           annotations: bar_labels(figure) };
}

/** The least and the most that a figure's lines come to. */
function extent(numbers) { return [Math.min(...numbers), Math.max(...numbers)]; }

/** 0.5, 1, 2, 5, 10, ... as far as they lie in the range; of long ranges powers of ten alone. */
function log_ticks(range) {
  const found = [], steps = range[1] - range[0] > 3 ? [1] : [1, 2, 5];
  for (let power = Math.floor(range[0]); power <= range[1]; ++power) {
    for (const step of steps) {
      const value = step * 10 ** power, at = Math.log10(value);
      if (at >= range[0] && at <= range[1]) found.push(value);
    }
  }
  return { tickmode: "array", tickvals: found, ticktext: found.map((value) => value >= 1000 ? value.toLocaleString("en") : String(Number(value.toPrecision(1)))) };
}

/** Of a logarithmic axis, in powers of ten. What is not above 0 is not on it. */
function log_range(numbers) {
  const [low, high] = extent(numbers.filter((number) => number > 0)), space = 0.03 * Math.log10(high / low);
  return [Math.log10(low) - space, Math.log10(high) + space];
}

function x_range(figure, axis) {
  const numbers = figure.series.flatMap((series) => series.x[axis]);
  return figure.x_log[axis] ? log_range(numbers) : [0, extent(numbers)[1] * 1.03];
}

/** Names beside a plot, in the order of its series: where many lines end in one place, no name can stand at its line's end. */
function name_column(figure, letters, below) {
  const step = 1 / Math.max(figure.series.length, 12);
  return figure.series.map((series, i) => {
    const last = series.y.at(-1), note = last < below ? ` ${short(last)} ▾` : "";
    return { xref: "paper", yref: "paper", x: 1, y: 1 - (i + 0.5) * step, xanchor: "left", yanchor: "middle", xshift: 8, showarrow: false, font: { size: 12, color: style("--ink") },
             text: `<span style="color:${colour_of_series(figure, i)}">${["━━", "╍╍", "┉┉", "━╍", "━┉", "┅┅"][series.look ? series.look[1] : 0]}</span> ${shortened(series.name, letters).replaceAll("<", "&lt;")}${note}` };
  });
}

/** The first screen's lines: with their names beside them in place of a legend. */
function named_layout(figure, width) {
  const most = Math.max(...figure.series.map((series) => series.name.length)) + (figure.y_range ? 6 : 0);
  const right = Math.min(0.45 * width, 44 + 6.8 * most);
  const range = x_range(figure, 0);
  let [low, high] = extent(figure.series.flatMap((series) => series.y.flatMap((value, i) => series.spread ? [value - series.spread[i], value + series.spread[i]] : [value])));
  low = Math.max(low, 0);
  high = Math.min(high, 100);
  const space = Math.max(0.5, (high - low) * 0.05);
  return { margin: { l: 56, r: right, t: 8, b: 44 },
           xaxis: { range, title: { text: figure.x_titles[0], standoff: 8 }, nticks: 7, ...(figure.x_log[0] ? { type: "log", ...log_ticks(range) } : {}) },
           yaxis: { range: figure.y_range || [low - space, high + space], title: { text: figure.y_title, standoff: 4 } },
           annotations: name_column(figure, Math.floor((right - 44) / 6.6), figure.y_range ? figure.y_range[0] : -Infinity) };
}

function line_layout(figure, axis) {
  const title = figure.x_titles[axis];
  const layout = { margin: { l: 64, r: 12, t: 8, b: 46 }, xaxis: { title: { text: title, standoff: 8 }, automargin: true, tickangle: 0 },
                   yaxis: { title: { text: figure.y_title, standoff: 8 }, automargin: true, rangemode: "normal" }, annotations: [] };
  if (title === "workers" || title === "epochs") {  // whole numbers
    const last = Math.max(...figure.series.flatMap((series) => series.x[axis]));
    Object.assign(layout.xaxis, { dtick: Math.max(1, Math.ceil(last / 12)), tick0: 0 });
  } else if (figure.x_log && figure.x_log[axis]) {
    const range = x_range(figure, axis);
    Object.assign(layout.xaxis, { type: "log", range, ...log_ticks(range) });
  }
  if (figure.y_log) {  // Plotly's own ticks between powers of ten are too small to read
    const range = log_range(figure.series.flatMap((series) => series.y));
    Object.assign(layout.yaxis, { type: "log", range, ...log_ticks(range), title: { text: figure.y_title + " (logarithmic)" } });
  }
  if (figure.y_range) {
    layout.yaxis.range = figure.y_range;
    const below = figure.series.filter((series) => series.y.at(-1) < figure.y_range[0]);
    layout.annotations = [{ xref: "paper", yref: "paper", x: 0.01, y: 0.01, xanchor: "left", yanchor: "bottom", showarrow: false, bgcolor: style("--ground"), font: { color: style("--soft") },
                            text: "▾ below: " + below.map((series) => `${series.name} ${short(series.y.at(-1))}`).join(", ") }];
  }
  return layout;
}

/** Angles are set, since a label that turns when space is short makes the space shorter, and Plotly turn it back. */
function column_layout(figure, width) {
  const longest = Math.max(...figure.categories.map((name) => name.length)), each = (width - 80) / figure.categories.length;
  const angle = each > 8 + 7 * longest ? 0 : each > 40 ? 30 : 90;
  return { margin: { l: 64, r: 12, t: 8, b: 46 }, barmode: figure.form === "stacked_bars" ? "stack" : "group", bargap: 0.3,
           xaxis: { type: "category", automargin: true, tickangle: angle, title: { text: figure.x_titles[0], standoff: 8 } },
           yaxis: { rangemode: "tozero", automargin: true, range: figure.y_range, title: { text: figure.y_title, standoff: 8 } }, annotations: [] };
}

function layout_of(figure, axis, at) {
  const width = at.clientWidth;
  const own = figure.horizontal ? bar_layout(figure, width, at.clientHeight) : figure.categories ? column_layout(figure, width) : figure.id === "progress" ? named_layout(figure, width) : line_layout(figure, axis);
  const lines = { gridcolor: style("--line"), linecolor: style("--line"), zerolinecolor: style("--line") };
  own.xaxis = { ...lines, ...own.xaxis };
  own.yaxis = { ...lines, ...own.yaxis };
  return { ...own, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hovermode: "closest", showlegend: false,
           font: { color: style("--ink"), size: 12.5, family: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" },
           modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--line"), activecolor: style("--ink") } };
}

/** A line, a bar or a point as it is drawn. */
function swatch(figure, i) {
  const series = figure.series[i], colour = colour_of_series(figure, i);
  if (figure.categories) {
    const parts = series.by_category ? figure.category_looks.slice(0, 3).map(colour_of) : [series.name === "hidden" ? greys[theme()][1] : colour];
    return `<svg width="24" height="12">${parts.map((one, k) => `<rect x="${k * 24 / parts.length}" width="${24 / parts.length}" height="12" fill="${one}"/>`).join("")}</svg>`;
  }
  if (figure.form === "points" && series.labels) return `<svg width="12" height="12"><circle cx="6" cy="6" r="5" fill="${colour}"/></svg>`;
  const dash = ["", "6 4", "2 3", "6 3 2 3", "9 3", "9 3 2 3"][series.look ? series.look[1] : figure.form === "points" ? 2 : 0];
  return `<svg width="28" height="12"><line x1="1" x2="27" y1="6" y2="6" stroke="${colour}" stroke-width="2.5" stroke-dasharray="${dash}"/></svg>`;
}
