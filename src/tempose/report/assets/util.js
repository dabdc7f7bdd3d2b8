// Decoding, formatting, colours and a small element builder.

const ARRAYS = { f4: Float32Array, u4: Uint32Array, i2: Int16Array };

/** Undo pack() of page.py: base64, inflate, regroup the bytes of each number. */
async function unpack(packed) {
  if (!packed) return null;
  const text = atob(packed.body);
  const deflated = Uint8Array.from(text, (c) => c.charCodeAt(0));
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const Kind = ARRAYS[packed.dtype];
  const width = Kind.BYTES_PER_ELEMENT;
  const count = planes.length / width;
  const bytes = new Uint8Array(planes.length);
  for (let plane = 0; plane < width; plane++) {
    for (let i = 0, from = plane * count; i < count; i++) bytes[i * width + plane] = planes[from + i];
  }
  return new Kind(bytes.buffer);
}

const SUPERSCRIPT = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

const raised = (power) => [...String(power)].map((c) => SUPERSCRIPT[c]).join("");
const powerText = (x) => `10${raised(Math.round(Math.log10(x)))}`;

/** A number for people: `digits` significant digits, powers of ten when very small or large. */
function number(x, digits = 3) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 1e-3 || size >= 1e6) {
    const [mantissa, power] = x.toExponential(Math.max(0, digits - 1)).split("e");
    return `${mantissa.replace("-", "−")}×10${raised(Number(power))}`;
  }
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return x.toFixed(decimals).replace("-", "−");
}

/** Tick label: as short as exact tick values allow. */
function tickText(x) {
  const short = Number(x.toPrecision(6));
  const size = Math.abs(short);
  if (short !== 0 && (size < 1e-3 || size >= 1e6)) {
    return number(short, Math.max(1, String(Number(short.toExponential().split("e")[0])).replace(/[-.]/g, "").length));
  }
  return String(short).replace("-", "−");
}

function withUnit(text, unit) {
  if (!unit || text === "–") return text;
  return unit === "°" ? text + unit : `${text} ${unit}`;
}

const measure = (x, unit, digits = 3) => withUnit(number(x, digits), unit);
const plural = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;

/** Round step (1, 2, 5 × 10ᵏ) of at least `rough`. */
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const factor of [1, 2, 5]) if (factor * power >= rough * 0.999) return factor * power;
  return 10 * power;
}

function ticks(low, high, wanted) {
  const step = roundStep((high - low) / wanted);
  const result = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) result.push(k * step);
  return result;
}

/** Element builder: `make("p", {class: "note"}, "text", child…)`; strings become text, never markup. */
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "rect", "line", "text", "circle", "title"].includes(tag);
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const byId = (id) => document.getElementById(id);

// viridis: perceptually uniform, readable with colour-blind eyes and in grey print
const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
// Okabe and Ito's colours, without black and yellow
const CATEGORIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8172b3", "#937860"];

function parseColour(hex) {
  const value = parseInt(hex.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

/** Colour at t in [0, 1] along equally spaced stops, as [r, g, b]. */
function along(stops, t) {
  const place = Math.min(1, Math.max(0, t)) * (stops.length - 1);
  const k = Math.min(stops.length - 2, Math.floor(place));
  const a = parseColour(stops[k]);
  const b = parseColour(stops[k + 1]);
  return a.map((value, i) => Math.round(value + (b[i] - value) * (place - k)));
}

const css = ([r, g, b], alpha = 1) => `rgba(${r},${g},${b},${alpha})`;

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : 0;
}
