// One panel's data into its box. Figures are redrawn in place, so nothing flickers.

import { layoutOf, paint, painted } from "./theme.js";

const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };
const BARE = { margin: { l: 0, r: 0, t: 0, b: 0, pad: 0 }, plot_bgcolor: "rgba(0,0,0,0)" }; // behind a tile's number
const hidden = new Map(); // panel id -> names of the series that the viewer has switched off
const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.layout && target.offsetParent) Plotly.Plots.resize(target);
  }
});

/** Settled once Plotly is there: it loads beside everything else. */
export const plotly = new Promise((loaded) => {
  if (window.Plotly) loaded();
  else document.getElementById("plotly").addEventListener("load", loaded);
});

export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

export function draw(panel, data, zoom) {
  const body = panel.querySelector(".body");
  body.querySelector(".late")?.remove();
  body.classList.remove("stale");
  panel.dataset.state = data.state;
  if (data.state === "error" && body.dataset.kind && body.dataset.kind !== "message") {
    // What was there is kept in sight, dimmed, beside the reason why it does not move.
    body.classList.add("stale");
    body.append(element("div", "late", data.message));
    return;
  }
  if (body.dataset.kind !== data.kind) {
    for (const plot of body.querySelectorAll(".plot")) drop(plot);
    body.replaceChildren();
    body.dataset.kind = data.kind;
  }
  panel.classList.toggle("tinted", data.kind === "stat" && data.stats.length === 1 && Boolean(data.stats[0].fill));
  ({ figure: drawFigure, stat: drawStats, table: drawTable, text: drawText, message: drawMessage })[data.kind](panel, body, data, zoom);
}

function drop(plot) {
  watcher.unobserve(plot);
  Plotly.purge(plot);
}

function part(parent, className) {
  let found = parent.querySelector(`:scope > .${className}`);
  if (!found) {
    found = element("div", className);
    parent.append(found);
  }
  return found;
}

// --- figures ---------------------------------------------------------------------------------------------------

function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
}

/** Times in hover texts; those on an axis Plotly itself takes as unix milliseconds and shows in the viewer's zone. */
function withClock(figure) {
  for (const trace of figure.data) {
    if (trace.clock) trace.text = trace.clock.map(clock);
  }
  return figure;
}

const LETTER = 5.7; // pixels of a flag's letter, about

/** Flags of marks side by side: one that would cover its neighbour joins it as "first +1", the rest in the hover text. */
function withFlags(layout, width) {
  const notes = layout.annotations ?? [];
  const [start, end] = layout.xaxis.range ?? [0, 1];
  const room = Math.max(120, width - 80);
  const at = (x) => ((x - start) / (end - start)) * room;
  const flags = [];
  for (const note of notes.filter((one) => one.name === "mark").sort((a, b) => a.x - b.x)) {
    const last = flags.at(-1);
    if (last && at(note.x) < at(last.x) + (last.title.length + 5) * LETTER) last.more.push(note);
    else flags.push({ ...note, title: note.text, more: [] });
  }
  for (const flag of flags) {
    const names = flag.more.length ? `${flag.title} +${flag.more.length}` : flag.title;
    const late = at(flag.x) + (names.length + 3) * LETTER > room;
    Object.assign(flag, { text: late ? `${names} ▾` : `▾ ${names}`, xanchor: late ? "right" : "left", xshift: late ? 5 : -5 });
    flag.hovertext = [flag, ...flag.more].map((one) => `${one.title ?? one.text}: ${one.hovertext}`).join("<br>");
    delete flag.more;
    delete flag.title;
  }
  return { ...layout, annotations: [...notes.filter((one) => one.name !== "mark"), ...flags] };
}

function plotInto(plot, figure, large, zoom) {
  const fresh = !plot.layout;
  figure = { ...figure, layout: withFlags(figure.layout, plot.clientWidth) };
  const layout = layoutOf(painted(figure.layout), large);
  Plotly.react(plot, painted(figure.data), layout, CONFIG);
  if (!fresh) return;
  watcher.observe(plot);
  plot.on("plotly_relayout", (change) => {
    const [start, end] = [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (start !== undefined && zoom) zoom(instant(start), instant(end));
  });
}

/** Unix milliseconds of an axis's end, which Plotly tells as the viewer's wall clock: "2026-11-30 17:04:05.123". */
function instant(value) {
  return typeof value === "number" ? value : new Date(value.replace(" ", "T")).getTime();
}

function drawFigure(panel, body, data, zoom) {
  const off = hidden.get(panel.dataset.id) ?? new Set();
  const figure = withClock(data.figure);
  for (const trace of figure.data) trace.visible = !off.has(trace.name);
  body.classList.toggle("side", data.legend?.place === "right" && body.clientWidth > 520);
  const plot = part(body, "plot");
  drawLegend(panel, body, data, off);
  drawSmall(body, "note", data.note);
  plotInto(plot, figure, panel.classList.contains("large"), zoom);
  body.querySelector(".overlay")?.remove();
  if (data.overlay) {
    const overlay = element("div", "overlay");
    overlay.append(element("span", "", data.overlay));
    body.append(overlay);
  }
}

function drawSmall(body, className, text) {
  if (text) part(body, className).textContent = text;
  else body.querySelector(`:scope > .${className}`)?.remove();
}

function drawLegend(panel, body, data, off) {
  if (!data.legend || data.legend.entries.length === 0) {
    body.querySelector(":scope > .legend")?.remove();
    return;
  }
  const legend = part(body, "legend");
  const focused = legend.contains(document.activeElement) ? document.activeElement.dataset.name : undefined;
  legend.replaceChildren(
    ...data.legend.entries.map((entry) => {
      const button = element("button");
      button.type = "button";
      button.dataset.name = entry.name;
      button.title = "Show or hide";
      button.setAttribute("aria-pressed", String(!off.has(entry.name)));
      const sample = element("i", entry.dash);
      sample.style.color = paint(entry.colour);
      const values = entry.values.map((value, index) => (data.legend.calcs.length > 1 ? `${data.legend.calcs[index]} ${value}` : value));
      button.append(sample, entry.name, element("span", "", values.join("  ")));
      button.addEventListener("click", () => {
        off.has(entry.name) ? off.delete(entry.name) : off.add(entry.name);
        hidden.set(panel.dataset.id, off);
        const shown = !off.has(entry.name);
        button.setAttribute("aria-pressed", String(shown));
        const plot = body.querySelector(":scope > .plot");
        const which = plot.data.map((trace, index) => (trace.name === entry.name ? index : -1)).filter((index) => index >= 0);
        Plotly.restyle(plot, { visible: shown }, which);
      });
      return button;
    }),
  );
  if (focused !== undefined) legend.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
}

// --- everything else -------------------------------------------------------------------------------------------

function drawStats(panel, body, data) {
  const stats = part(body, "stats");
  if (stats.children.length !== data.stats.length) {
    for (const plot of stats.querySelectorAll(".plot")) drop(plot);
    stats.replaceChildren(...data.stats.map(() => element("div", "one")));
  }
  data.stats.forEach((stat, index) => {
    const one = stats.children[index];
    drawSmall(one, "name", stat.name);
    one.classList.toggle("unknown", !stat.known);
    one.classList.toggle("sparked", Boolean(stat.figure));
    const value = part(one, "value");
    value.replaceChildren(stat.text, element("small", "", stat.suffix));
    value.style.color = paint(stat.colour);
    value.style.setProperty("--length", Math.max(6, stat.text.length + stat.suffix.length / 2));
    part(one, "hint").textContent = stat.note;
    if (stat.figure && window.Plotly) plotInto(part(one, "plot"), { ...stat.figure, layout: { ...stat.figure.layout, ...BARE } }, false);
    if (stat.fill) panel.style.setProperty("--tint", paint(stat.fill));
  });
}

function drawTable(panel, body, data) {
  const holder = part(body, "tabular");
  const table = element("table");
  const head = table.createTHead().insertRow();
  for (const column of data.table.columns) head.append(element("th", column.number ? "number" : "", column.name));
  const rows = table.createTBody();
  for (const row of data.table.rows) {
    const line = rows.insertRow();
    row.forEach((cell, index) => {
      const made = element("td", data.table.columns[index].number ? "number" : "", cell.text);
      if (cell.colour) made.style.color = paint(cell.colour);
      line.append(made);
    });
  }
  holder.replaceChildren(table);
  drawSmall(body, "note", data.note);
}

function drawText(panel, body, data) {
  const prose = part(body, "prose");
  if (prose.dataset.html !== data.html) {
    prose.innerHTML = data.html; // written by the server from Markdown, every text in it escaped there
    prose.dataset.html = data.html;
  }
}

function drawMessage(panel, body, data) {
  const message = part(body, "message");
  message.className = `message ${data.state}`;
  message.textContent = data.message;
}
