"use strict";
// The picture of a job. Whatever programs have printed reaches the page as text nodes alone.
const data = JSON.parse(document.getElementById("data").textContent);
const FOLDED = 64; // with more ranks than this, a row is a host until it is opened
const STATES = ["running", "ok", "failed", "lost", "stopped", "served"];
const RANKED = { ok: 0, served: 1, running: 2, stopped: 3, lost: 4, failed: 5 }; // the worst of a host is shown
const CAUSES = {
  good: "ok", start: "start", restart: "restart", hang: "hang", end: "end",
};

function make(tag, name, text, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined && text !== "") element.textContent = text;
  element.append(...children);
  return element;
}

function duration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// -- the data --------------------------------------------------------------------------------

const total = Math.max(data.seconds, 0.001);
const spans = data.spans.map(([rank, host, round, began, ended, state, words]) => (
  { rank, host, round, began, ended: ended === null ? total : ended, state, words }));
const marks = data.marks.map(([at, kind, words, host, rank, until]) => (
  { at, kind, words, host, rank, until }));
const ranks = new Map(); // rank -> its spans
for (const span of spans) {
  if (!ranks.has(span.rank)) ranks.set(span.rank, []);
  ranks.get(span.rank).push(span);
}
const order = [...ranks.keys()].sort((one, other) => one - other);
const view = { from: 0, to: total, open: new Set(), query: "", selected: null };

function hostRows() {
  const merged = data.hosts.map(() => new Map()); // host -> round -> one span over all its ranks
  for (const span of spans) {
    const known = merged[span.host].get(span.round);
    if (!known) merged[span.host].set(span.round, { ...span });
    else {
      known.began = Math.min(known.began, span.began);
      known.ended = Math.max(known.ended, span.ended);
      if (RANKED[span.state] > RANKED[known.state]) {
        known.state = span.state;
        known.words = span.words;
      }
    }
  }
  return data.hosts.map((name, host) => (
    { key: `h${host}`, label: name, host, rank: null, spans: [...merged[host].values()] }));
}

function shown(rank) { // ranks of several roles have numbers of their own
  return data.numbers[rank] ?? rank;
}

function rankRow(rank) {
  const own = ranks.get(rank);
  const host = own[own.length - 1].host;
  return { key: `r${rank}`, label: `${data.hosts[host]}:${shown(rank)}`, host, rank, spans: own };
}

const folded = order.length > FOLDED;
const hosts = hostRows();
const ranksOf = new Map(hosts.map((row) => [row.host, []]));
for (const rank of order) {
  const host = ranks.get(rank)[ranks.get(rank).length - 1].host;
  ranksOf.get(host).push(rank);
}

function textOf(row) {
  const own = row.rank === null ? ranksOf.get(row.host) : [row.rank];
  const tails = own.flatMap((rank) => data.tails[rank].map(([, text]) => text)).join("\n");
  return [row.label, ...row.spans.map((span) => span.words), ...marksOf(row).map((mark) => mark.words),
    tails].join("\n").toLowerCase();
}

function marksOf(row) {
  return marks.filter((mark) => (mark.rank !== null && row.rank !== null
    ? mark.rank === row.rank && mark.host === row.host : mark.host === row.host));
}

function rows() {
  const found = [];
  for (const host of hosts) {
    const members = ranksOf.get(host.host).map(rankRow);
    if (!folded) found.push(...members);
    else {
      found.push({ ...host, members: members.length });
      if (view.open.has(host.host)) found.push(...members.map((row) => ({ ...row, inner: true })));
    }
    if (!members.length && !folded) found.push(host);
  }
  const query = view.query.toLowerCase();
  return query ? found.filter((row) => textOf(row).includes(query)) : found;
}

// -- the parts of the page -------------------------------------------------------------------

function place(element, began, ended) {
  const scale = 100 / (view.to - view.from);
  element.style.left = `${(began - view.from) * scale}%`;
  if (ended !== undefined) element.style.width = `${Math.max(ended - began, 0) * scale}%`;
  return element;
}

function headline() {
  const { report } = data;
  const code = report.exit_code;
  const running = code === null || code === undefined;
  const about = make("dl", "about");
  for (const [name, value] of Object.entries(data.about)) about.append(make("dt", "", name), make("dd", "", value));
  const facts = make("div", "facts");
  const add = (name, value, kind) => {
    if (value !== undefined && value !== null && value !== "") {
      facts.append(make("span", "", `${name} `, make("b", kind || "", String(value))));
    }
  };
  add("job", report.job_id);
  if (!running) add("exit code", code, code ? "bad" : "good");
  for (const [name, count] of Object.entries(data.counts)) if (count) add(name, count);
  add("lasted", duration(report.seconds ?? total));
  if (report.verdict) add("class", report.verdict.class);
  const section = make("section", "", "", make("h1", code ? "bad" : "", data.title));
  for (const line of data.lines) section.append(make("div", "", line));
  section.append(facts, about);
  if (data.box) section.append(make("pre", "", data.box));
  if (data.dropped) section.append(make("div", "facts", `${data.dropped} older entries are left out`));
  return section;
}

function goodput() {
  const bar = make("div", "bar");
  const legend = make("div", "legend");
  for (const [cause, seconds] of Object.entries(data.goodput)) {
    const part = make("i", CAUSES[cause] || "stopped");
    part.style.width = `${(100 * seconds) / total}%`;
    part.title = `${cause}: ${duration(seconds)}`;
    bar.append(part);
    const share = `${((100 * seconds) / total).toFixed(1)} %`;
    const swatch = make("span", `swatch ${CAUSES[cause] || "stopped"}`);
    legend.append(make("span", "", "", swatch, `${cause} ${duration(seconds)} (${share})`));
  }
  return make("section", "", "", make("h2", "", "Where the time went"), bar, legend);
}

function findings() {
  const list = make("ul", "findings");
  for (const line of data.findings) list.append(make("li", "", line));
  return make("section", "", "", make("h2", "", "The quick check"), list);
}

function tools() {
  const search = make("input");
  search.type = "search";
  search.id = "search";
  search.placeholder = "host, rank, or words";
  search.setAttribute("aria-label", "search");
  search.addEventListener("input", () => { view.query = search.value; draw(); });
  const zoom = (factor, shift) => {
    const width = Math.min(total, (view.to - view.from) * factor);
    const middle = (view.from + view.to) / 2 + shift * width;
    view.from = Math.min(Math.max(middle - width / 2, 0), total - width);
    view.to = view.from + width;
    draw();
  };
  const button = (text, about, act) => {
    const made = make("button", "", text);
    made.setAttribute("aria-label", about);
    made.title = about;
    made.addEventListener("click", act);
    return made;
  };
  return make("div", "tools", "", search,
    button("+", "zoom in", () => zoom(0.5, 0)), button("−", "zoom out", () => zoom(2, 0)),
    button("‹", "earlier", () => zoom(1, -0.5)), button("›", "later", () => zoom(1, 0.5)),
    button("all", "the whole job", () => { view.from = 0; view.to = total; draw(); }));
}

function axis() {
  const lane = make("div", "lane");
  const width = view.to - view.from;
  const count = window.innerWidth < 600 ? 3 : 8;
  const rough = width / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) {
    lane.append(place(make("span", "", step < 1 ? `${at.toFixed(2)} s` : duration(at)), at));
  }
  return make("div", "row axis", "", make("div", "label", "time"), lane);
}

function inRound(span) {
  return span.round ? `, round ${span.round}` : "";
}

function ending(span) { // how a life ended; the words of a service say it all
  return span.words && span.state !== "served" ? `${span.state}: ${span.words}` : span.words || span.state;
}

function chartRow(row) {
  const lane = make("div", "lane");
  for (const span of row.spans) {
    const part = place(make("i", span.state), span.began, span.ended);
    part.title = `${row.label}${inRound(span)}: ${ending(span)}`;
    lane.append(part);
  }
  const whole = marks.filter((mark) => mark.host === null && (mark.until !== null || mark.kind === "round"));
  for (const mark of [...marksOf(row), ...whole]) {
    const lasting = mark.until !== null || ["hang", "slow", "rule"].includes(mark.kind);
    const part = lasting
      ? place(make("i", mark.kind), mark.at, mark.until === null ? total : mark.until)
      : place(make("i", `mark ${mark.kind}`), mark.at);
    part.title = `${duration(mark.at)} ${mark.words}`;
    lane.append(part);
  }
  const name = row.members === undefined ? row.label : `${view.open.has(row.host) ? "▾" : "▸"} ${row.label}`;
  const element = make("div", row.inner ? "row rank" : "row", "", make("div", "label", name), lane);
  element.tabIndex = 0;
  element.dataset.key = row.key;
  element.setAttribute("role", "option");
  element.setAttribute("aria-label", `${row.label}, ${row.spans.length ? row.spans[row.spans.length - 1].state : "not started"}`);
  element.setAttribute("aria-selected", String(view.selected === row.key));
  element.addEventListener("click", () => choose(row, true));
  element.addEventListener("focus", () => choose(row, false));
  return element;
}

function choose(row, toggle) {
  view.selected = row.key;
  for (const one of document.querySelectorAll(".row[aria-selected]")) {
    one.setAttribute("aria-selected", String(one.dataset.key === row.key));
  }
  detail(row);
  if (toggle && row.members !== undefined) {
    if (view.open.has(row.host)) view.open.delete(row.host); else view.open.add(row.host);
    draw();
  }
}

function detail(row) {
  const list = make("ul", "events");
  const lines = [
    ...row.spans.map((span) => [span.began, `started${inRound(span)}`]),
    ...row.spans.filter((span) => span.words).map((span) => [span.ended, ending(span)]),
    ...marksOf(row).filter((mark) => mark.kind !== "failure").map((mark) => [mark.at, mark.words]),
  ].sort((one, other) => one[0] - other[0]);
  for (const [at, words] of lines) list.append(make("li", "", "", make("time", "", duration(at)), words));
  const own = row.rank === null ? ranksOf.get(row.host) : [row.rank];
  const texts = own.filter((rank) => data.tails[rank].length).slice(0, 16)
    .flatMap((rank) => output(rank, own.length > 1));
  const box = document.getElementById("detail");
  box.replaceChildren(make("h2", "", row.rank === null ? row.label : `rank ${shown(row.rank)} on ${data.hosts[row.host]}`),
    list, make("pre", "", "", ...(texts.length ? texts : ["it printed nothing"])));
}

function output(rank, named) { // the newest output of a rank, parted by a mark where it was started again
  const lives = data.tails[rank];
  const parted = ranks.get(rank).length > 1;
  return [
    ...(named ? [make("b", "part", `rank ${shown(rank)}`)] : []),
    ...lives.flatMap(([life, text]) => [...(parted && life ? [make("b", "part", life)] : []), text]),
  ];
}

function happened() {
  const list = make("ul", "events");
  for (const mark of marks) {
    const lasted = mark.until === null ? "" : ` (${duration(mark.until - mark.at)})`;
    list.append(make("li", "", "", make("span", `swatch ${mark.kind === "failure" ? "failed" : mark.kind === "loss" ? "lost" : mark.kind}`),
      make("time", "", duration(mark.at)), `${mark.words}${lasted}`));
  }
  return make("section", "", "", make("h2", "", "What happened"), list);
}

function draw() {
  const chart = document.getElementById("chart");
  chart.replaceChildren(axis(), ...rows().map(chartRow));
  const selected = [...chart.children].find((one) => one.dataset.key === view.selected);
  if (selected && document.activeElement === document.body) selected.focus({ preventScroll: true });
}

function move(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const row = event.target.closest ? event.target.closest(".row[data-key]") : null;
  if (!row) return;
  if (step) {
    const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
    if (next && next.dataset.key) next.focus();
    event.preventDefault();
  } else if (event.key === "Enter" || event.key === " ") {
    row.click();
    event.preventDefault();
  }
}

const legend = make("div", "legend");
for (const state of STATES) legend.append(make("span", "", "", make("span", `swatch ${state}`), state));
const chart = make("div", "chart");
chart.id = "chart";
chart.setAttribute("role", "listbox");
chart.setAttribute("aria-label", folded ? "hosts" : "ranks");
chart.addEventListener("keydown", move);
const box = make("section");
box.id = "detail";
box.setAttribute("aria-live", "polite");
const rankSection = make("section", "", "", make("h2", "", folded ? "Hosts (open one for its ranks)" : "Ranks"), tools(), legend, chart);
document.getElementById("page").append(headline(), ...(data.findings.length ? [findings()] : []),
  ...(Object.keys(data.goodput).length ? [goodput()] : []), ...(hosts.length ? [rankSection, box] : []),
  ...(marks.length ? [happened()] : []));
if (hosts.length) draw();
const first = rows().find((row) => row.spans.some((span) => span.state === "failed")) || rows()[0];
if (first) choose(first, false);
