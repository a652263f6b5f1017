// What the page does: draws its figures when they come into sight, shows one run, and goes light or dark.
"use strict";
const compared = JSON.parse(document.getElementById("figures").textContent);
const drawn = new Map();  // a plot's place -> {figure, axis, hidden}
const most_numbers = 400; // in the table below a figure
const wish = new URLSearchParams(location.hash.slice(1));  // #theme=dark, #only=accuracy, #run=0007-ring-n2

function element(name, properties, ...inside) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inside);
  return made;
}

function draw(section) {
  const state = drawn.get(section), at = section.querySelector(".plot");
  state.width = at.clientWidth;
  if (state.width === 0) return;  // folded away
  const traces = state.figure.categories ? bar_traces(state.figure) : line_traces(state.figure, state.axis);
  traces.forEach((trace, i) => { trace.visible = !state.hidden.has(i); });
  Plotly.react(at, traces, layout_of(state.figure, state.axis, at),
               { displaylogo: false, displayModeBar: wish.has("only") || section.closest(".picture") ? false : "hover", modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] });
  if (!state.listens) {
    state.listens = true;
    at.on("plotly_click", (event) => {
      const found = String(event.points[0].customdata).match(/^(.*), line (\d+)$/s);
      if (found) show_line(found[1], Number(found[2]));
    });
  }
  section.querySelectorAll(".legend button svg").forEach((svg, i) => { svg.outerHTML = swatch(state.figure, i); });
}

/** A press hides a series, or shows it again. */
function add_legend(section, state) {
  if (state.figure.series.length < 2) return;
  state.figure.series.forEach((series, i) => {
    const button = element("button", { type: "button" }, document.createElementNS("http://www.w3.org/2000/svg", "svg"), series.name);
    button.setAttribute("aria-pressed", true);
    button.addEventListener("click", () => {
      if (!state.hidden.delete(i)) state.hidden.add(i);
      button.setAttribute("aria-pressed", !state.hidden.has(i));
      draw(section);
    });
    section.querySelector(".legend").append(button);
  });
}

function add_axes(section, state) {
  const at = section.querySelector(".axes"), titles = state.figure.x_titles;
  titles.forEach((title, i) => {
    if (titles.length === 1) return;
    const button = element("button", { type: "button", textContent: "over " + title.replace(" by all ranks together", "") });
    button.setAttribute("aria-pressed", i === 0);
    button.addEventListener("click", () => {
      state.axis = i;
      at.querySelectorAll("button").forEach((other, j) => other.setAttribute("aria-pressed", i === j));
      draw(section);
    });
    at.append(button);
  });
}

/** "runs/0001/metrics-0.jsonl, line 5" as a link. */
function source_link(text, source) {
  const [, file, line] = source.match(/^(.*), line (\d+)$/s);
  return element("a", { href: file.split("/").map(encodeURIComponent).join("/") + "#L" + line, title: source, textContent: text });
}

const lines = JSON.parse(document.getElementById("lines").textContent), dialog = document.getElementById("source");

/** Shows a line with those around it; false if the page has not got it. */
function show_line(file, line) {
  const known = lines[file];
  if (!known || !(line in known)) return false;
  const around = [];
  let first = line, last = line;
  while (first > 1 && String(first - 1) in known && line - first < 4) --first;
  while (String(last + 1) in known && last - line < 4) ++last;
  for (let at = first; at <= last; ++at) around.push(element("span", { className: at === line ? "here" : "", textContent: `${at}  ${known[at]}` }));
  dialog.querySelector("b").textContent = `${file}, line ${line}`;
  dialog.querySelector("a").href = file.split("/").map(encodeURIComponent).join("/") + "#L" + line;
  dialog.querySelector("pre").replaceChildren(...around);
  dialog.showModal();
  return true;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[title]"), found = link && link.title.match(/^(.*), line (\d+)$/s);
  if (found && !event.ctrlKey && !event.metaKey && show_line(found[1], Number(found[2]))) event.preventDefault();
});
dialog.addEventListener("click", (event) => { if (event.target === dialog || event.target.tagName === "BUTTON") dialog.close(); });

function number(value) { return typeof value === "number" ? String(Number(value.toPrecision(5))) : value; }

function add_numbers(section, figure) {
  const details = section.querySelector(".numbers");
  details.addEventListener("toggle", () => {
    if (details.querySelector("table")) return;
    const spreads = figure.series.some((series) => series.spread), head = element("tr"), body = element("tbody");
    for (const title of ["series", ...figure.x_titles, figure.y_title, ...(spreads ? ["±"] : [])]) head.append(element("th", { textContent: title }));
    let count = 0;
    for (const series of figure.series) {
      series.y.forEach((y, i) => {
        if (++count > most_numbers) return;
        const row = element("tr", {}, element("td", { className: "text", textContent: series.name }));
        for (const x of figure.categories ? [figure.categories[i]] : series.x.map((axis) => axis[i])) row.append(element("td", { textContent: number(x) }));
        row.append(element("td", {}, series.sources ? source_link(number(y), series.sources[i]) : number(y)));
        if (spreads) row.append(element("td", { textContent: series.spread ? number(series.spread[i]) : "" }));
        body.append(row);
      });
    }
    details.append(element("div", { className: "wide" }, element("table", {}, element("thead", {}, head), body)));
    if (count > most_numbers) details.append(element("p", { textContent: `The first ${most_numbers} of ${count}; all: ripieno report --format csv` }));
  });
}

/** A press on a column's head sorts its table: the largest first, then the smallest; what is no number stays last. */
document.addEventListener("click", (event) => {
  const head = event.target.closest("main table th");
  if (!head) return;
  const at = head.cellIndex, is_text = head.classList.contains("text"), body = head.closest("table").tBodies[0];
  const turned = head.dataset.sorted === "down" ? -1 : 1;
  const value = (row) => is_text ? row.cells[at].textContent : parseFloat(row.cells[at].textContent.replace(/[(,]/g, ""));
  head.parentElement.querySelectorAll("th").forEach((other) => delete other.dataset.sorted);
  head.dataset.sorted = turned > 0 ? "down" : "up";
  body.append(...[...body.rows].sort((one, two) => {
    const a = value(one), b = value(two);
    if (is_text) return turned * a.localeCompare(b, "en", { numeric: true });
    return isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : turned * (b - a);
  }));
});

/** Names, and how many letters of them, depend on a plot's width. */
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const section = target.closest(".figure"), state = drawn.get(section);
    if (state && target.clientWidth !== state.width) draw(section);
  }
});

function set_up(figure) {
  const section = document.getElementById(figure.id), state = { figure, axis: 0, hidden: new Set() };
  drawn.set(section, state);
  add_axes(section, state);
  add_legend(section, state);
  add_numbers(section, figure);
  draw(section);
  widths.observe(section.querySelector(".plot"));
}

/** Shows the figures of one run in place of those that were shown before. */
function show_run(run) {
  const at = document.getElementById("run-figures");
  for (const section of at.children) drawn.delete(section);
  at.replaceChildren();
  const named = (what) => [...document.querySelectorAll(what)].find((one) => one.dataset.run === run);
  const kept = named("template[data-run]");
  if (!kept) return;
  at.append(kept.content.cloneNode(true));
  JSON.parse(named("script[data-run]").textContent).forEach(set_up);
}

function set_theme(name) {
  root.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "light" : "dark";
  drawn.forEach((state, section) => draw(section));
}

/** One figure, or the first screen, by itself: for pictures. */
function show_only(id) {
  const found = document.getElementById(id);
  root.classList.add("only");
  if (!found.classList.contains("tier")) {
    root.classList.add("one-figure");
    for (let one = found; !one.classList.contains("tier"); one = one.parentElement) {
      one.classList.add("holds");
      if (one.tagName === "DETAILS") one.open = true;
    }
  }
  found.closest(".tier").classList.add("shown");
}

const preference = matchMedia("(prefers-color-scheme: dark)");
root.dataset.theme = wish.get("theme") || (preference.matches && !wish.has("only") ? "dark" : "light");
set_theme(theme());
const choice = document.getElementById("run"), runs = choice ? [...choice.options].map((option) => option.value).filter(Boolean) : [];
if (choice) choice.addEventListener("change", () => show_run(choice.value));
const wished = wish.get("run") || (runs.length === 1 ? runs[0] : "");
if (choice && wished) {
  choice.value = wished;
  show_run(wished);
}
if (wish.has("only")) show_only(wish.get("only"));
compared.forEach(set_up);
document.querySelectorAll("details").forEach((details) => details.addEventListener("toggle", () => {
  details.querySelectorAll(".figure").forEach((section) => { if (details.open && drawn.has(section)) draw(section); });
}));
preference.addEventListener("change", () => set_theme(preference.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => set_theme(theme() === "dark" ? "light" : "dark"));
