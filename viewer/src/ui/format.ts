// Numbers as people read them; words and figures match gpumemprof report.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** A tie goes to the even digit, as in C++ and Python; toFixed() always rounds it up. */
function fixed(value: number, digits: number): string {
  const scaled = value * 10 ** digits;
  const below = Math.floor(scaled);
  if (scaled - below !== 0.5) return value.toFixed(digits);
  return ((below % 2 === 0 ? below : below + 1) / 10 ** digits).toFixed(digits);
}

/** "512 B", "3.00 KiB", "4.78 GiB": the rule of src/base/bytes.h, which tests/data/bytes.tsv pins. */
export function bytes(value: number): string {
  const sign = value < 0 ? "−" : "";
  let rest = Math.abs(value);
  if (rest < 1024) return `${sign}${Math.round(rest)} B`;
  rest /= 1024;
  let unit = 1;
  // 1023.5 would be written as 1024.
  while (rest >= 1023.5 && unit + 1 < UNITS.length) {
    rest /= 1024;
    unit++;
  }
  const digits = rest < 9.995 ? 2 : rest < 99.95 ? 1 : 0;
  return `${sign}${fixed(rest, digits)} ${UNITS[unit]}`;
}

export function signedBytes(value: number): string {
  return value > 0 ? `+${bytes(value)}` : bytes(value);
}

/** "1,234,567" */
export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function percent(part: number, whole: number): string {
  if (whole <= 0) return "–";
  const share = (100 * part) / whole;
  if (part > 0 && share < 0.05) return "<0.1 %";
  return `${share.toFixed(1)} %`;
}

/** "0.31 s", "12.4 ms", "2 min 05 s" */
export function duration(ns: number): string {
  const figures = (value: number) => (value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2));
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 999.5e3) return `${figures(ns / 1e3)} µs`;
  if (ns < 999.5e6) return `${figures(ns / 1e6)} ms`;
  if (ns < 60e9) return `${figures(ns / 1e9)} s`;
  const seconds = Math.round(ns / 1e9);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(seconds / 3600)} h ${String(Math.floor(seconds / 60) % 60).padStart(2, "0")} min`;
}

/** Sizes and durations as a user types them: "10MiB", "5 ms"; null if it is neither. */
export function parseSize(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b?)$/i.exec(text.trim());
  if (!match) return null;
  const power = "kmgt".indexOf(match[2]!.toLowerCase()) + 1;
  return Math.round(Number(match[1]) * 1024 ** (match[2] ? power : 0));
}

export function parseDuration(text: string): number | null {
  const match = /^(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|min|h)?$/i.exec(text.trim());
  if (!match) return null;
  const scale: Record<string, number> = { ns: 1, us: 1e3, "µs": 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9 };
  return Math.round(Number(match[1]) * (scale[(match[2] ?? "ms").toLowerCase()] ?? 1e6));
}

/** Round steps for an axis: 1, 2, 5 times a power of ten. */
export function decimalStep(span: number, most: number): number {
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  for (const factor of [1, 2, 5, 10]) {
    if (factor * power >= rough) return factor * power;
  }
  return 10 * power;
}

/** How many digits after the decimal point steps of this size need. */
function digitsOf(step: number): number {
  return Math.min(9, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
}

/** Ticks of a byte axis: round figures, all in one unit, "0.5 GiB", "1 GiB". */
export function byteTicks(span: number, most: number): { value: number; text: string }[] {
  let unit = 0;
  while (span >= 1024 ** (unit + 1) && unit + 1 < UNITS.length) unit++;
  const scale = 1024 ** unit;
  const step = Math.max(decimalStep(span / scale, most), unit === 0 ? 1 : 0);
  const digits = digitsOf(step);
  const ticks = [{ value: 0, text: "0" }];
  for (let index = 1; index * step * scale <= span; index++) {
    ticks.push({ value: index * step * scale, text: `${(index * step).toFixed(digits)} ${UNITS[unit]}` });
  }
  return ticks;
}

/** "between 3.10 GiB and 3.50 GiB"; if both would read the same, how far apart they are. */
export function byteRange(least: number, most: number): string {
  if (bytes(least) !== bytes(most)) return `between ${bytes(least)} and ${bytes(most)}`;
  return `${bytes(most)}, varying by ${bytes(most - least)}`;
}

/** A tick of a time axis that ends at `last`, with this step: "1.5 s", "6:20", "1:02:05". */
export function timeTick(ns: number, step: number, last: number): string {
  if (last >= 120e9) {
    const seconds = ns / 1e9;
    const digits = digitsOf(step / 1e9);
    const [hours, minutes] = [Math.floor(seconds / 3600 + 1e-9), Math.floor((seconds % 3600) / 60 + 1e-9)];
    const rest = Math.abs(seconds - hours * 3600 - minutes * 60).toFixed(digits).padStart(digits === 0 ? 2 : 3 + digits, "0");
    return hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
  }
  const [scale, unit] = last >= 1e9 ? [1e9, "s"] : last >= 1e6 ? [1e6, "ms"] : last >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${(ns / scale).toFixed(digitsOf(step / scale))} ${unit}`;
}

/** Round steps for a time axis: seconds and minutes if it is that long. */
export function timeStep(span: number, most: number): number {
  const rough = span / Math.max(1, most);
  const clock = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
  if (rough > 1e9) return 1e9 * (clock.find((seconds) => seconds * 1e9 >= rough) ?? Math.ceil(rough / 86400e9) * 86400);
  return Math.max(1, decimalStep(span, most));
}

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** Invisible characters, and those that change the text direction, are escaped. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** A name that would fill a page: its beginning and its end. */
export function shortened(text: string, most = 200): string {
  const letters = [...text];
  return letters.length <= most ? text : `${letters.slice(0, most / 2).join("")}…${letters.slice(-most / 2).join("")}`;
}

/** With a full stop, if it has no end. */
export function sentence(text: string): string {
  return /[.!?:]$/.test(text) ? text : `${text}.`;
}

/** "/train/case.py:52 step" as "case.py:52 step": for when there is little room. */
export function shortestPlace(label: string): string {
  return label.replace(/(?:[^\s/]*\/)+([^\s/]+:\d+)/g, "$1");
}

/** The same with its parent folder. */
export function shortPlace(label: string): string {
  return label.replace(/(?:[^\s/]*\/)+([^\s/]+\/[^\s/]+:\d+)/g, "$1");
}
