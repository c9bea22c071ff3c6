// Colours, numbers and names as the page shows them.

const kClassTitles =
  ["two or more at once", "one alone, nothing to run beside it", "one alone, others waited", "idle"];
const kKinds = ["kernel", "copy to the device", "copy to the host", "other copy", "fill", "graph", "collective"];
const kColours = JSON.parse(document.getElementById("palette").textContent);
const kKindColours = kColours.kinds;
const kCallColours = kColours.calls;
const kOverlapped = kColours.overlapped;
const kAlone = kColours.alone;
const kNoCause = "#8fa3bf";
const kCauseColours = [kNoCause, ...kColours.causes];  // the first cause has the number 1

function colourOfClass(kind, cause) {
  return kind === 0 ? kOverlapped : kind === 1 ? kAlone : kCauseColours[cause] ?? kNoCause;
}

function colourOfName(id) {
  return `hsl(${(id * 137.508) % 360}deg 48% 56%)`;
}

function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1000) return `${Math.round(ns)} ns`;
  const [scale, unit] = size < 999.5e3 ? [1e3, "µs"] : size < 999.5e6 ? [1e6, "ms"] : [1e9, "s"];
  const value = ns / scale;
  return `${value.toFixed(Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2)} ${unit}`;
}

// A count with its noun.
function counted(number, one, several) {
  return `${grouped(number)} ${number === 1 ? one : several}`;
}

function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

// An instant of the recording, in ms and to `step` ns.
function instant(ns, step = 1) {
  const digits = step >= 1e6 ? 0 : step >= 1e5 ? 1 : step >= 1e4 ? 2 : step >= 1e3 ? 3 : 6;
  const [whole, part] = (ns / 1e6).toFixed(digits).split(".");
  return `${grouped(whole)}${part ? "." + part : ""} ms`;
}

function share(part, whole) {
  return `${(100 * (whole > 0 ? part / whole : 0)).toFixed(1)}%`;
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < 3) { bytes /= 1024; ++unit; }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`;
}

// A name without its template's arguments, namespaces and parameters, for a block in the timeline.
const shortNames = new Map();
function shortName(name) {
  let short = shortNames.get(name);
  if (short === undefined) {
    const whole = name.replace(/\(anonymous namespace\)::/g, "").replace(/^(?:static |void |__global__ )+/, "");
    short = whole;
    const end = short.search(/[<(]/);
    const head = end > 0 ? short.slice(0, end) : short;
    if (head.includes("::") && !/\s/.test(head)) short = head.slice(head.lastIndexOf("::") + 2);
    else if (!/\s/.test(head)) short = head;
    short ||= whole || "(no name)";
    shortNames.set(name, short);
  }
  return short;
}

// Makes an element. Strings among `children` become text, never markup.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

// A name or sentence from the recording: its direction stays its own.
function text(words) {
  return make("bdi", {class: "text"}, words);
}

function swatch(colour) {
  return make("span", {class: "swatch", style: {background: colour}, "aria-hidden": "true"});
}

// Black or white, whichever can be read on the colour `#rrggbb`.
const inks = new Map();
function inkOn(colour) {
  if (!colour.startsWith("#")) return "#101418";
  let ink = inks.get(colour);
  if (!ink) {
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    ink = 0.3 * r + 0.59 * g + 0.11 * b > 130 ? "#101418" : "#ffffff";
    inks.set(colour, ink);
  }
  return ink;
}

// A text, cut to a width in pixels.
const widths = new Map();
function fitted(context, words, room) {
  let width = widths.get(words);
  if (width === undefined) {
    width = context.measureText(words).width;
    widths.set(words, width);
  }
  if (width <= room) return words;
  const characters = Math.floor((words.length * (room - 8)) / width);
  return characters < 2 ? "" : `${words.slice(0, characters)}…`;
}
