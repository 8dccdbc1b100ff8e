// The page's loop: ask for the data, draw it, say plainly when there is none.

import { draw, element, plotly } from "./panels.js";
import { forget, paint } from "./theme.js";

const page = document.getElementById("page");
const refreshMs = Number(page.dataset.refreshSeconds) * 1000;
const giveUpMs = Number(page.dataset.giveUpSeconds) * 1000;
const query = new URLSearchParams(location.search);
const state = {
  from: query.get("from") ?? page.dataset.from,
  to: query.get("to") ?? page.dataset.to,
  variables: new Map([...query.keys()].filter((key) => key.startsWith("var-")).map((key) => [key, query.getAll(key)])),
  open: new Set(query.getAll("open")),
  last: undefined, // the latest data, drawn again when the theme changes
};
let timer;
let asking;

// --- asking ----------------------------------------------------------------------------------------------------

function address() {
  const asked = new URLSearchParams({ from: state.from, to: state.to });
  for (const [key, values] of state.variables) for (const value of values) asked.append(key, value);
  for (const row of state.open) asked.append("open", row);
  return asked;
}

async function refresh() {
  clearTimeout(timer);
  asking?.abort();
  asking = new AbortController();
  const mine = asking;
  const giveUp = setTimeout(() => mine.abort("slow"), giveUpMs);
  try {
    const response = await fetch(`/api/d/${encodeURIComponent(page.dataset.uid)}?${address()}`, { signal: mine.signal });
    const data = await response.json();
    if (data.error) banner(`<b>This cannot be shown:</b> `, data.error, true);
    else await show(data);
  } catch (error) {
    if (mine !== asking) return; // a newer question is under way
    pulse(false);
    banner("<b>The live page does not answer.</b> It may have been stopped; trying again. ", mine.signal.aborted ? "" : String(error.message), true);
  } finally {
    clearTimeout(giveUp);
    if (mine === asking && live()) timer = setTimeout(tick, refreshMs);
  }
}

function tick() {
  if (document.hidden) return; // asked again as soon as somebody looks
  refresh();
}

function live() {
  return state.to === "now";
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && live()) refresh();
});

// --- showing ---------------------------------------------------------------------------------------------------

let showing = 0;

async function show(data) {
  if (data.version !== page.dataset.version) {
    location.reload(); // the dashboard's file has changed: other panels, other places
    return;
  }
  state.last = data;
  data = structuredClone(data); // drawing writes into it, and it may be drawn again in another theme
  pulse(data.status.state !== "no_prometheus", data.now);
  say(data.status);
  showFiring(data.firing);
  showVariables(data.variables);
  const mine = ++showing;
  const ready = Boolean(window.Plotly);
  const silent = { kind: "message", state: "error", message: "No answer from Prometheus" };
  const panels = [...document.querySelectorAll(".panel")]
    .map((panel) => [panel, data.panels[panel.dataset.id] ?? (data.status.state === "no_prometheus" ? silent : undefined)])
    .filter(([, drawn]) => drawn && (ready || drawn.kind !== "figure"))
    .sort(([, a], [, b]) => (a.kind === "figure") - (b.kind === "figure")); // numbers first, they cost nothing
  for (const [panel, drawn] of panels) {
    draw(panel, drawn, zoom);
    showQueries(panel, drawn.queries ?? []);
    if (drawn.kind === "figure") {
      if (!performance.getEntriesByName("first-chart").length) performance.mark("first-chart"); // seen in a browser's profile
      await new Promise((breath) => setTimeout(breath)); // the page stays usable while figures are drawn
      if (mine !== showing) return;
    }
  }
  if (ready) document.documentElement.dataset.drawn = String(data.now);
  else plotly.then(() => show(state.last)); // numbers first: the drawing library is on its way
}

function say(status) {
  const locust = document.querySelector('[data-part="Locust"]').href;
  const words = {
    ok: undefined,
    no_prometheus: ["<b>No Prometheus.</b> ", `${status.message}. Start the stack with`, " <code>make up</code>; this page tries again every few seconds."],
    no_service: ["<b>Nothing measured yet.</b> ", `${status.message}: it may still be starting, or not be running.`, ""],
    no_traffic: ["<b>No traffic yet.</b> ", `${status.message}.`, ` <a href="${locust}">Start load in Locust</a>`],
  };
  const found = status.state in words ? words[status.state] : ["<b>Part of this page is missing:</b> ", status.message, ""];
  if (found) banner(...[found[0], found[1], status.state !== "no_traffic" && status.state !== "no_service", found[2]]);
  else document.getElementById("banner").hidden = true;
}

/** `lead` and `tail` are markup of this file; `text` is anything. */
function banner(lead, text, wrong, tail = "") {
  const box = document.getElementById("banner");
  box.className = wrong ? "banner wrong" : "banner";
  box.innerHTML = `${lead}<span></span>${tail}`;
  box.querySelector("span").textContent = text;
  box.hidden = false;
}

function pulse(well, now) {
  const light = document.getElementById("pulse");
  light.classList.toggle("live", well && live());
  light.classList.toggle("wrong", !well);
  if (now) document.getElementById("clock").textContent = new Date(now).toLocaleTimeString([], { hour12: false });
}

function showFiring(firing) {
  const box = document.getElementById("firing");
  box.hidden = firing.length === 0;
  const inbox = document.querySelector('[data-part="Alert inbox"]').href;
  box.replaceChildren(
    ...firing.map((alert) => {
      const chip = element("a");
      chip.href = inbox;
      const since = alert.since === null ? "before this time range" : new Date(alert.since).toLocaleTimeString([], { hour12: false });
      chip.append(element("b", "", alert.title), element("span", "", `${alert.text} · firing since ${since}`));
      return chip;
    }),
  );
}

function showQueries(panel, queries) {
  const box = panel.querySelector(".queries");
  const text = queries.join("\n");
  if (box.dataset.text === text) return;
  box.dataset.text = text;
  const graph = `http://${location.hostname}:${page.dataset.prometheusPort}/graph`;
  box.replaceChildren(
    ...queries.flatMap((expr) => {
      const link = element("a", "", "open in Prometheus");
      link.href = `${graph}?${new URLSearchParams({ "g0.expr": expr, "g0.tab": "0", "g0.range_input": "15m" })}`;
      return [element("code", "", expr), link];
    }),
  );
}

// --- the viewer's choices --------------------------------------------------------------------------------------

function look() {
  history.replaceState(null, "", `?${address()}`);
  const range = document.getElementById("range");
  const known = [...range.options].some((option) => option.value === state.from) && live();
  range.querySelector('[value="custom"]').hidden = known;
  range.value = known ? state.from : "custom";
  document.getElementById("back").hidden = live();
  refresh();
}

function zoom(start, end) {
  if (end - start < 10000) return;
  [state.from, state.to] = [String(Math.round(start)), String(Math.round(end))];
  look();
}

document.getElementById("range").addEventListener("change", (event) => {
  [state.from, state.to] = [event.target.value, "now"];
  look();
});
document.getElementById("back").addEventListener("click", () => {
  [state.from, state.to] = [page.dataset.from, "now"];
  look();
});

function showVariables(variables) {
  const box = document.getElementById("variables");
  const shape = JSON.stringify(variables);
  if (box.dataset.shape === shape) return;
  box.dataset.shape = shape;
  box.replaceChildren(
    ...variables.map((variable) => {
      const label = element("label", "picker");
      const select = element("select");
      select.multiple = false;
      const options = variable.all ? [["$__all", "All"], ...variable.options.map((value) => [value, value])] : variable.options.map((value) => [value, value]);
      const several = variable.chosen.length > 1;
      if (several) options.unshift(["", variable.chosen.join(" + ")]);
      for (const [value, text] of options) select.add(new Option(text, value));
      select.value = several ? "" : (variable.chosen[0] ?? "");
      select.addEventListener("change", () => {
        state.variables.set(`var-${variable.name}`, [select.value]);
        look();
      });
      label.append(element("span", "", variable.label), select);
      return label;
    }),
  );
}

for (const heading of document.querySelectorAll(".section h2 button")) {
  heading.addEventListener("click", () => {
    const section = heading.closest(".section");
    const closed = section.classList.toggle("closed");
    heading.setAttribute("aria-expanded", String(!closed));
    if (closed) state.open.delete(section.dataset.row);
    else state.open.add(section.dataset.row);
    look();
  });
}
for (const row of state.open) {
  const section = document.querySelector(`.section[data-row="${CSS.escape(row)}"]`);
  section?.classList.remove("closed");
  section?.querySelector("h2 button")?.setAttribute("aria-expanded", "true");
}

function enlarge(panel) {
  for (const other of document.querySelectorAll(".panel.large")) if (other !== panel) other.classList.remove("large");
  panel?.classList.toggle("large");
  if (state.last) show(state.last);
}
for (const button of document.querySelectorAll(".enlarge")) {
  button.addEventListener("click", () => enlarge(button.closest(".panel")));
}
for (const title of document.querySelectorAll(".panel h3")) {
  title.addEventListener("click", () => document.getElementById(`about-${title.closest(".panel").dataset.id}`).showPopover());
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.querySelector(".panel.large")) enlarge();
});
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details[open]")) if (!menu.contains(event.target)) menu.open = false;
});

function repaint() {
  forget();
  if (state.last) show(state.last);
}
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  if (root.dataset.theme === system) localStorage.removeItem("theme");
  else localStorage.setItem("theme", root.dataset.theme);
  repaint();
});
addEventListener("themechange", repaint);

look();
