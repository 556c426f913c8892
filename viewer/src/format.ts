// Numbers as people read them; the words and figures are those of gpumemprof report.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** "512 B", "3.00 KiB", "4.78 GiB": three significant figures. */
export function bytes(value: number): string {
  const sign = value < 0 ? "−" : "";
  let rest = Math.abs(value);
  let unit = 0;
  while (rest >= 1024 && unit + 1 < UNITS.length) {
    rest /= 1024;
    unit++;
  }
  if (unit === 0) return `${sign}${Math.round(rest)} B`;
  // 999.6 would be written with four figures.
  if (rest >= 999.5 && unit + 1 < UNITS.length) {
    rest /= 1024;
    unit++;
  }
  const digits = rest >= 99.95 ? 0 : rest >= 9.995 ? 1 : 2;
  return `${sign}${rest.toFixed(digits)} ${UNITS[unit]}`;
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

/** Sizes and durations as a person types them: "10MiB", "5 ms"; null where it is neither. */
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

/** Round steps for an axis of bytes: powers of two, which read as round figures in every unit. */
export function byteStep(span: number, most: number): number {
  return 2 ** Math.max(0, Math.ceil(Math.log2(span / Math.max(1, most))));
}

/** A tick of an axis of bytes: "0", "2 GiB", "2.5 GiB", never "2.00 GiB". */
export function byteTick(value: number): string {
  if (value === 0) return "0";
  return bytes(value).replace(/(\.\d*?)0+ /, "$1 ").replace(/\. /, " ");
}

/** "/train/case.py:52 step" as "case.py:52 step": for where there is little room. */
export function shortestPlace(label: string): string {
  return label.replace(/(?:[^\s/]*\/)+([^\s/]+:\d+)/g, "$1");
}

/** The same with the folder it lies in. */
export function shortPlace(label: string): string {
  return label.replace(/(?:[^\s/]*\/)+([^\s/]+\/[^\s/]+:\d+)/g, "$1");
}
