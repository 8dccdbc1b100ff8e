// Colours of figures: "@name" is a colour of the page's theme, "/0.2" behind it an opacity.

const COLOUR_KEYS = new Set(["color", "fillcolor", "bgcolor", "bordercolor", "colorscale"]);
const known = new Map();

export function forget() {
  known.clear();
}

function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const canvas = document.createElement("canvas");
canvas.width = canvas.height = 1;
const context = canvas.getContext("2d", { willReadFrequently: true });

/** [r, g, b] of any colour that CSS knows, read back from a canvas. */
function channels(colour) {
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
}

function luminance(rgb) {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b) {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

/** A colour that a file fixes, moved towards black or white until it can be seen on the panel. */
function legible(rgb) {
  const panel = channels(variable("panel"));
  const towards = luminance(panel) > 0.5 ? 0 : 255;
  let mixed = rgb;
  for (let share = 0; share < 0.8 && contrast(mixed, panel) < 4.5; share += 0.05) {
    mixed = rgb.map((c) => Math.round(c + (towards - c) * share));
  }
  return mixed;
}

const SHADES = { "super-light": [255, 0.45], light: [255, 0.25], "semi-dark": [0, 0.18], dark: [0, 0.35] };

function named(name) {
  const plain = variable(name);
  if (plain) return channels(plain);
  for (const [prefix, [towards, share]] of Object.entries(SHADES)) {
    if (name.startsWith(`${prefix}-`) && variable(name.slice(prefix.length + 1))) {
      return channels(variable(name.slice(prefix.length + 1))).map((c) => Math.round(c + (towards - c) * share));
    }
  }
  return channels(variable("text"));
}

/** A CSS colour for a colour of a figure. */
export function paint(text) {
  if (!known.has(text)) {
    const [name, opacity] = text.split("/");
    const rgb = name.startsWith("@") ? named(name.slice(1)) : legible(channels(name));
    known.set(text, opacity === undefined ? `rgb(${rgb})` : `rgba(${rgb},${opacity})`);
  }
  return known.get(text);
}

/** A figure with every colour looked up; nothing else of it changes. */
export function painted(value, key = "") {
  if (typeof value === "string") {
    return COLOUR_KEYS.has(key) && /^[@#]/.test(value) ? paint(value) : value;
  }
  if (Array.isArray(value)) {
    // Long arrays of numbers hold no colour, and copying them is what would cost.
    if (key !== "colorscale" && typeof value[0] !== "object") return value;
    return value.map((item) => painted(item, key));
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, painted(item, name)]));
  }
  return value;
}

/** What every figure has in common. */
export function layoutOf(layout, large) {
  const axis = {
    gridcolor: paint("@grid"),
    linecolor: paint("@grid"),
    zerolinecolor: paint("@faint"),
    tickfont: { size: large ? 14 : 11, color: paint("@muted") },
    ticks: "",
    automargin: true,
    fixedrange: true,
  };
  const title = (given) => (given?.title ? { title: { ...given.title, font: { size: 11, color: paint("@muted") }, standoff: 6 } } : {});
  const marked = (layout.annotations ?? []).some((note) => note.name === "mark");
  const time = layout.xaxis?.type === "date";
  const merged = {
    ...layout,
    autosize: true,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: layout.plot_bgcolor ?? paint("@panel"), // not transparent: Plotly picks the contrast of hover lines by it
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: paint("@text") },
    margin: layout.margin ?? { l: 12, r: 16, t: marked ? 20 : 10, b: 10, pad: 2 },
    showlegend: false,
    dragmode: time && !matchMedia("(pointer: coarse)").matches ? "zoom" : false,
    hoverlabel: { bgcolor: paint("@panel"), bordercolor: paint("@edge"), font: { size: 12, color: paint("@text") }, align: "left", namelength: -1 },
    xaxis: { ...axis, spikecolor: paint("@faint"), spikethickness: 1, spikedash: "solid", nticks: 8, showgrid: !time, fixedrange: !time, ...layout.xaxis, ...title(layout.xaxis) },
  };
  for (const name of ["yaxis", "yaxis2"]) {
    if (layout[name]) merged[name] = { ...axis, ...layout[name], ...title(layout[name]) };
  }
  return merged;
}
