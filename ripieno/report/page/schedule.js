// Draws a schedule that stands as JSON in the page (report/schedule_page.cpp writes it), one round at a time.
"use strict";
const schedule = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement, drawing = document.getElementById("drawing"), slider = document.getElementById("slider");
const ranks = schedule.ranks, chunks = schedule.chunks.length, last_round = schedule.rounds.length - 1;
const nodes = schedule.per_node > 1 ? Math.ceil(ranks / schedule.per_node) : 0;  // 0: ranks are not grouped
const most_labels = 24;  // of arrows: more would hide each other
let round = 0, timer = null;

function element(name, attributes, inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (inside !== undefined) made.textContent = inside;
  return made;
}

/** As many hues as ranks; neighbours also differ in lightness. */
function colour(rank) {
  const light = root.dataset.theme !== "dark", odd = rank % 2;
  return `hsl(${Math.round(rank * 360 / ranks)} 65% ${light ? (odd ? 40 : 54) : (odd ? 70 : 56)}%)`;
}

function chunk_name(transfer) {
  const { first, last, into } = transfer, count = (last + chunks - first) % chunks + 1;
  if (count === chunks) return "all";
  const named = (from, to) => from === to ? `c${from}` : `c${from}-${to}`;
  if (last < first) return `${named(first, chunks - 1)}, ${named(0, last)}`;
  return into === first ? named(first, last) : `${named(first, last)} as ${named(into, into + last - first)}`;
}

/** Of a chunk of a rank's buffer, for who points at it. */
function chunk_title(rank, i, owners) {
  const count = owners.length, is_done = schedule.goal[rank][i] !== 0 && schedule.rounds[round].held[rank][i] === schedule.goal[rank][i];
  const holds = count === 0 ? "nothing that counts" : schedule.sums && count === ranks ? "the sum of all" : `numbers of rank ${owners.join(", ")}`;
  return `rank ${rank}, chunk ${i} (${schedule.chunks[i]}): ${holds}${is_done ? ", as it is to be in the end" : ""}`;
}

/** Ranks clockwise around an ellipse, rank 0 at the top. */
function around(width, height, card) {
  const x = (width - card.width) / 2 - 4, y = (height - card.height) / 2 - 8;
  return Array.from({ length: ranks }, (_, rank) => {
    const angle = 2 * Math.PI * rank / ranks - Math.PI / 2;
    return { x: width / 2 + x * Math.cos(angle), y: height / 2 + y * Math.sin(angle) };
  });
}

/** A column a node, its first rank at the top; a row a node where columns would be narrow. */
function by_node(width, height, is_row) {
  const across = is_row ? Math.min(ranks, schedule.per_node) : nodes, down = is_row ? nodes : Math.min(ranks, schedule.per_node);
  const left = is_row ? 34 : 0, top = is_row ? 10 : 56;  // room for arrows between the first ranks
  return Array.from({ length: ranks }, (_, rank) => {
    const node = Math.floor(rank / schedule.per_node), inside = rank % schedule.per_node;
    const [column, row] = is_row ? [inside, node] : [node, inside];
    return { x: left + (width - left) * (column + 0.5) / across, y: top + (height - top) * (row + 0.5) / down };
  });
}

function place() {
  const width = drawing.clientWidth, is_narrow = width < 520;
  const is_row = nodes > 0 && is_narrow && nodes > schedule.per_node;
  const across = nodes === 0 ? Math.max(3.2, ranks / 2.6) : is_row ? Math.min(ranks, schedule.per_node) : nodes;
  const roomy = Math.max(420, Math.min(640, innerHeight - drawing.getBoundingClientRect().top - scrollY - 24));
  const height = is_narrow ? (nodes > 0 ? 96 * (is_row ? nodes : schedule.per_node) + 70 : width * (ranks > 8 ? 1.6 : 1.25)) : roomy;
  const card = { width: Math.min(ranks > 8 && nodes === 0 ? 96 : 140, Math.max(is_narrow ? 46 : 84, (width - 20) / across - (is_narrow ? 8 : 34))),
                 height: is_narrow ? 54 : nodes > 0 ? Math.min(84, (roomy - 56) / schedule.per_node - 40) : ranks > 8 ? 64 : 84 };
  return { width, height, card, is_narrow, at: nodes > 0 ? by_node(width, height, is_row) : around(width, height, card) };
}

function draw_nodes({ card, at }) {
  for (let node = 0; node < nodes; ++node) {
    const own = at.slice(node * schedule.per_node, (node + 1) * schedule.per_node), pad = 14;
    const x = Math.min(...own.map((p) => p.x)) - card.width / 2 - pad / 2, y = Math.min(...own.map((p) => p.y)) - card.height / 2 - pad / 2;
    drawing.append(element("rect", { class: "node", rx: 8, x, y, width: Math.max(...own.map((p) => p.x)) + card.width / 2 + pad / 2 - x,
                                     height: Math.max(...own.map((p) => p.y)) + card.height / 2 + pad + 4 - y }));
    drawing.append(element("text", { class: "node-name", x: x + 6, y: Math.max(...own.map((p) => p.y)) + card.height / 2 + pad }, `node ${node}`));
  }
}

function rank_name(rank, card) {
  const name = card.width < 60 ? `${rank}` : `rank ${rank}`;
  return rank !== schedule.root ? name : card.width < 80 ? `${name} ★` : `${name}, root`;
}

function draw_card(rank, { card, at }) {
  const x = at[rank].x - card.width / 2, y = at[rank].y - card.height / 2, pad = 5;
  const held = schedule.rounds[round].held[rank], before = round > 0 ? schedule.rounds[round - 1].held[rank] : held;
  drawing.append(element("rect", { class: "card", x, y, width: card.width, height: card.height, rx: 6 }));
  drawing.append(element("rect", { x: x + pad, y: y + 5, width: 9, height: 9, rx: 2, fill: colour(rank) }));
  drawing.append(element("text", { x: x + pad + 13, y: y + 14 }, rank_name(rank, card)));
  const width = (card.width - 2 * pad) / chunks, gap = width > 8 ? 2 : width > 4 ? 1 : 0, height = card.height - 34, top = y + 22;
  held.forEach((set, i) => {
    const left = x + pad + i * width, cell = { x: left, y: top, width: width - gap, height };
    const box = element("rect", { class: "chunk", ...cell });
    const owners = Array.from({ length: ranks }, (_, r) => r).filter((r) => set >> r & 1);
    box.append(element("title", {}, chunk_title(rank, i, owners)));
    drawing.append(box);
    for (const owner of owners) {
      const stripe = schedule.sums ? height / ranks : height;  // what is not added up is of one rank
      drawing.append(element("rect", { x: left, y: top + (schedule.sums ? owner * stripe : 0), width: width - gap, height: stripe, fill: colour(owner), "pointer-events": "none" }));
    }
    if (set !== 0 && set === schedule.goal[rank][i] && ranks > 1) drawing.append(element("rect", { class: "whole", x: left, y: top - 4, width: width - gap, height: 3 }));
    if (set !== before[i]) drawing.append(element("circle", { class: "changed", cx: left + (width - gap) / 2, cy: top + height + 6, r: Math.min(2.6, Math.max(1, width / 4)) }));
  });
}

/** Where the way from a card's centre to a point leaves the card. */
function edge(centre, towards, card) {
  const dx = towards.x - centre.x, dy = towards.y - centre.y;
  const share = Math.min((card.width / 2 + 4) / Math.abs(dx || 1e-9), (card.height / 2 + 4) / Math.abs(dy || 1e-9));
  return { x: centre.x + dx * share, y: centre.y + dy * share };
}

function draw_arrow(transfer, { width, height, card, at, is_narrow }, count) {
  const from = at[transfer.from], to = at[transfer.to], dx = to.x - from.x, dy = to.y - from.y;
  const bend = nodes > 0 ? (Math.abs(dy) < 1 ? -0.16 * Math.sign(dx) : 0.2) : 0.1, inwards = nodes > 0 ? 0 : 0.3;
  const middle = { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 };
  const control = { x: middle.x - dy * bend + (width / 2 - middle.x) * inwards, y: middle.y + dx * bend + (height / 2 - middle.y) * inwards };
  if (nodes > 0 && Math.abs(dy) < 1) {  // to the right above the cards, to the left below them
    control.y = middle.y - Math.sign(dx) * (card.height / 2 + 24 + Math.abs(dx) * 0.12);
  }
  const begin = edge(from, control, card), end = edge(to, control, card), kind = transfer.adds ? "adds" : "keeps";
  const arrow = element("path", { class: `arrow${count > most_labels ? " faint" : ""}`, stroke: `var(--${kind})`, "marker-end": `url(#${kind})`,
                                  d: `M${begin.x},${begin.y} Q${control.x},${control.y} ${end.x},${end.y}` });
  arrow.append(element("title", {}, `rank ${transfer.from} to rank ${transfer.to}: ${chunk_name(transfer)}, ${transfer.bytes}`));
  drawing.append(arrow);
  if (count > most_labels) return;
  const t = nodes > 0 ? 0.5 : 0.36;  // around a circle two ranks' arrows to each other are side by side, and so would their labels be
  const on_arrow = (axis) => (1 - t) ** 2 * begin[axis] + 2 * t * (1 - t) * control[axis] + t ** 2 * end[axis];
  const label = { x: on_arrow("x"), y: on_arrow("y") + 4 };
  const words = count > 8 || (is_narrow && count > 2) ? chunk_name(transfer) : `${chunk_name(transfer)}, ${transfer.bytes}`;
  const half = words.length * 3.4;
  label.x = Math.min(width - half, Math.max(half, label.x));
  labels.push(element("rect", { class: "behind", x: label.x - half, y: label.y - 12, width: 2 * half, height: 16 }));
  labels.push(element("text", { class: "label", ...label }, words));
}
let labels = [];

function draw() {
  const { transfers, sentence } = schedule.rounds[round];
  const places = place();
  drawing.replaceChildren();
  drawing.setAttribute("viewBox", `0 0 ${places.width} ${places.height}`);
  drawing.style.height = `${places.height}px`;
  for (const kind of ["adds", "keeps"]) {
    const marker = element("marker", { id: kind, viewBox: "0 0 8 8", refX: 6.5, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" });
    marker.append(element("path", { d: "M0,0 L8,4 L0,8 z", fill: `var(--${kind})` }));
    drawing.append(marker);
  }
  draw_nodes(places);
  for (let rank = 0; rank < ranks; ++rank) draw_card(rank, places);
  labels = [];
  for (const transfer of transfers) draw_arrow(transfer, places, transfers.length);
  drawing.append(...labels);
  document.getElementById("sentence").textContent = sentence;
  document.getElementById("messages").replaceChildren(...transfers.map((one) => {
    const row = document.createElement("tr");
    for (const words of [one.from, one.to, chunk_name(one), one.bytes, one.adds ? "added" : "kept"]) row.insertCell().textContent = words;
    row.lastChild.className = "text";
    return row;
  }));
}

function go(to) {
  round = Math.min(last_round, Math.max(0, to));
  slider.value = round;
  for (const [id, useless] of [["first", round === 0], ["previous", round === 0], ["next", round === last_round], ["last", round === last_round]]) {
    document.getElementById(id).disabled = useless;
  }
  if (round === last_round) stop();
  draw();
}

function stop() {
  clearInterval(timer);
  timer = null;
  document.getElementById("play").textContent = "play";
}

function play() {
  if (timer !== null) return stop();
  if (round === last_round) go(0);
  if (last_round === 0) return;
  document.getElementById("play").textContent = "pause";
  timer = setInterval(() => go(round + 1), 1400);
}

function step(to) {
  stop();
  go(to);
  const wish = new URLSearchParams(location.hash.slice(1));
  wish.set("round", round);
  history.replaceState(null, "", "#" + wish);
}

function set_theme(name) {
  root.dataset.theme = name;
  document.getElementById("theme").textContent = name === "dark" ? "light" : "dark";
  document.getElementById("ranks").replaceChildren(...Array.from({ length: ranks }, (_, rank) => {
    const whose = document.createElement("span"), swatch = document.createElement("span");
    whose.className = "whose";
    swatch.className = "swatch";
    swatch.style.background = colour(rank);
    whose.append(swatch, rank);
    return whose;
  }));
  draw();
}

/** #round=3&theme=dark */
function follow_address() {
  const wish = new URLSearchParams(location.hash.slice(1)), wanted = Number.parseInt(wish.get("round"), 10);
  set_theme(wish.get("theme") || (preference.matches ? "dark" : "light"));
  go(Number.isNaN(wanted) ? round : wanted);
}

slider.max = last_round;
slider.addEventListener("input", () => step(Number(slider.value)));
document.getElementById("first").addEventListener("click", () => step(0));
document.getElementById("previous").addEventListener("click", () => step(round - 1));
document.getElementById("next").addEventListener("click", () => step(round + 1));
document.getElementById("last").addEventListener("click", () => step(last_round));
document.getElementById("play").addEventListener("click", play);
document.getElementById("theme").addEventListener("click", () => set_theme(root.dataset.theme === "dark" ? "light" : "dark"));
const keys = { ArrowLeft: () => step(round - 1), ArrowRight: () => step(round + 1), Home: () => step(0), End: () => step(last_round), " ": play };
addEventListener("keydown", (event) => {
  const own = event.target.tagName === "INPUT" || (event.key === " " && event.target.tagName === "BUTTON");  // they have keys of their own
  if (own || event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});
const preference = matchMedia("(prefers-color-scheme: dark)");
preference.addEventListener("change", () => set_theme(preference.matches ? "dark" : "light"));
addEventListener("hashchange", follow_address);
addEventListener("resize", draw);
follow_address();
