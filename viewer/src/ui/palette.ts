// Colours of groups, for light and dark, and what distinguishes groups without colour: a number in
// each band and legend row, and stripes on every second group.

import { vectorsOf } from "./vectors";

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

// The first ten, and the grey of the rest, differ by a CIEDE2000 of at least 10 for every pair of
// them and every common kind of colour vision; tests/viewer/palette.test.mjs measures it. The last
// colour is for the rest.
export const LIGHT = [
  "#3c648e", "#da9b34", "#ac4433", "#1c9a89", "#8d64cc", "#d6dc79", "#2ba8fb", "#b37731",
  "#ba7fb8", "#5a8360", "#d7b568", "#697aa0", "#c59780", "#7bb8a3", "#9c5a7a", "#a9adb5",
];
export const DARK = [
  "#3a81e8", "#df9e37", "#ca4838", "#27e1cd", "#bd6f71", "#d5e081", "#48acff", "#c3ac82",
  "#9865a6", "#7ca697", "#d6c58c", "#8c9bc4", "#f0b6a8", "#80a165", "#be7fa3", "#7d828c",
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

/** A colour with diagonal stripes on it. */
export function striped(context: CanvasRenderingContext2D, color: string, over: string, step = 7): CanvasPattern | string {
  const vectors = vectorsOf(context);
  if (vectors !== null) return vectors.stripes(color, over, step);
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

const parts = (color: string) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));

/** A colour over another one with some opacity. */
export function blended(color: string, below: string, opacity: number): string {
  const under = parts(below);
  return `#${parts(color).map((part, at) => Math.round(part * opacity + under[at]! * (1 - opacity)).toString(16).padStart(2, "0")).join("")}`;
}

/** As the Web Content Accessibility Guidelines measure it. */
function luminance(color: string): number {
  const [r, g, b] = parts(color).map((part) => {
    const value = part / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** Black or white, whichever is easier to read on a colour: one of them always has a contrast of 4.5. */
export function inkOn(color: string): string {
  const light = luminance(color) + 0.05;
  return light / 0.05 > 1.05 / light ? "#000000" : "#ffffff";
}

/** Neighbours of one group differ a little, so that each can be seen. */
export function shaded(color: string, step: number): string {
  return step === 0 ? color : blended(color, step === 1 ? "#ffffff" : "#000000", 0.86);
}

const AGE_CLASSES = 6;

/** How old something is at a moment, from 0, the newest; null: it does not exist yet. In powers, as ages spread over many. */
export function ageClass(birth: number, cursor: number): number | null {
  if (birth > cursor) return null;
  const share = Math.log(cursor - birth + 1) / Math.log(cursor + 2);
  return Math.min(AGE_CLASSES - 1, Math.floor(share * AGE_CLASSES));
}

/** One colour, the darker the older; in dark the brighter. */
export function ageColor(theme: Theme, age: number | null): string {
  if (age === null) return blended(theme.muted, theme.surface, 0.25);
  return blended(theme.accent, theme.surface, 0.2 + (0.8 * age) / (AGE_CLASSES - 1));
}

/** What the classes mean: the oldest first. */
export function ageLegend(theme: Theme, cursor: number): { color: string; most: number; least: number }[] {
  return Array.from({ length: AGE_CLASSES }, (_, index) => {
    const age = AGE_CLASSES - 1 - index;
    const edge = (at: number) => Math.ceil((cursor + 2) ** (at / AGE_CLASSES) - 1);
    return { color: ageColor(theme, age), least: edge(age), most: age === AGE_CLASSES - 1 ? cursor : edge(age + 1) - 1 };
  });
}

/** A colour as a pixel of a canvas, which holds red first. */
export function packed(color: string, opacity: number): number {
  const [red, green, blue] = parts(color) as [number, number, number];
  return ((Math.round(opacity * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
