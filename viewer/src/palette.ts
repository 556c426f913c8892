// Colours of groups, for light and dark, and what tells groups apart without colour: a number in
// each band and legend row, and stripes on every second group.

export interface Theme {
  isDark: boolean;
  text: string;
  muted: string;
  line: string;
  surface: string;
  panel: string;
  accent: string;
  danger: string;
  reserved: string;
  free: string;
}

// Hues that differ for all common kinds of colour vision, alternating in lightness.
const LIGHT = [
  "#3b6fb6", "#e69f2e", "#c8553d", "#2a9d8f", "#8e6bbf", "#b5c24a", "#56a3d9", "#a8763e",
  "#d77fa1", "#4f7f52", "#f2c14e", "#6a7ba2", "#e08e6d", "#7bb8a4", "#9c5b7c", "#a9adb5",
];
const DARK = [
  "#5b8fd6", "#e6a945", "#dd6f58", "#3fb5a5", "#a78bd6", "#c3cf66", "#74bdf0", "#c29257",
  "#e39bb8", "#6fa373", "#f5d06f", "#8b9cc4", "#eda98c", "#96cfbc", "#bb7d9b", "#7d828c",
];

export function chosenTheme(): Theme {
  const isDark = document.documentElement.dataset["theme"] === "dark";
  return isDark
    ? { isDark, text: "#e6e8ec", muted: "#9aa1ad", line: "#343a44", surface: "#16191f", panel: "#1d2129", accent: "#7fb2ff", danger: "#ff7b6b", reserved: "#c9d1dd", free: "#2a2f38" }
    : { isDark, text: "#1c2027", muted: "#626a77", line: "#dde1e7", surface: "#ffffff", panel: "#f6f7f9", accent: "#1f5fc4", danger: "#c0291b", reserved: "#2b3340", free: "#e9ecf0" };
}

export function groupColor(theme: Theme, group: number, isRest: boolean): string {
  const colors = theme.isDark ? DARK : LIGHT;
  return isRest ? colors[15]! : colors[group % 15]!;
}

/** The same number for the same text, to colour by name. */
export function hashed(text: string): number {
  let hash = 2166136261;
  for (let index = 0; index < text.length; index++) hash = Math.imul(hash ^ text.charCodeAt(index), 16777619);
  return hash >>> 0;
}

const stripes = new Map<string, CanvasPattern>();

/** A colour with diagonal stripes over it. */
export function striped(context: CanvasRenderingContext2D, color: string, over: string, step = 7): CanvasPattern | string {
  const key = `${color} ${over} ${step}`;
  const known = stripes.get(key);
  if (known) return known;
  const tile = document.createElement("canvas");
  tile.width = tile.height = step;
  const paint = tile.getContext("2d")!;
  paint.fillStyle = color;
  paint.fillRect(0, 0, step, step);
  paint.strokeStyle = over;
  paint.lineWidth = 1;
  for (const shift of [-step, 0, step]) {
    paint.beginPath();
    paint.moveTo(shift, step);
    paint.lineTo(shift + step, 0);
    paint.stroke();
  }
  const pattern = context.createPattern(tile, "repeat") ?? color;
  if (typeof pattern !== "string") stripes.set(key, pattern);
  return pattern;
}

/** Every second group is striped. */
export function groupFill(context: CanvasRenderingContext2D, theme: Theme, group: number, isRest: boolean): CanvasPattern | string {
  const color = groupColor(theme, group, isRest);
  if (group % 2 === 0 || isRest) return color;
  return striped(context, color, theme.isDark ? "rgba(0,0,0,.2)" : "rgba(255,255,255,.3)");
}

/** Black or white, whichever reads better on a colour. */
export function inkOn(color: string): string {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)) as [number, number, number];
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14171c" : "#ffffff";
}
