// Colours of the cells. Along each scale the lightness only rises or only falls, so it can be read with any colour
// vision and in print; tests/viewer/ranks.test.mjs measures it.

/** Shares from 0 to 1: the fuller the card, the further from the background. */
export const SHARE_LIGHT = ["#eaf1f7", "#b9d3e6", "#7fabd0", "#5b7bb8", "#6a4a98", "#5f1f5f", "#3d0a2e"];
export const SHARE_DARK = ["#1f2a36", "#2b4a68", "#3b6f94", "#4f98a8", "#7fbf98", "#c9dc7c", "#fff2a0"];
/** Below and above the median: blue and orange, which nobody confuses. */
export const DIFFERENCE_LIGHT = ["#1f4e9c", "#8fb2dc", "#f0f1f3", "#eba15c", "#a8450a"];
export const DIFFERENCE_DARK = ["#8cc0ff", "#3f6ea3", "#262b33", "#a9662a", "#ffb35c"];

export const STEPS = 256;

const parts = (color: string): number[] => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));

/** Red, green and blue of a number of steps along the colours. */
export function ramp(colors: readonly string[], steps = STEPS): Uint8ClampedArray {
  const stops = colors.map(parts);
  const table = new Uint8ClampedArray(steps * 3);
  for (let step = 0; step < steps; step++) {
    const at = (step / (steps - 1)) * (stops.length - 1);
    const below = Math.min(stops.length - 2, Math.floor(at));
    for (let part = 0; part < 3; part++) {
      const [from, to] = [stops[below]![part]!, stops[below + 1]![part]!];
      table[step * 3 + part] = from + (to - from) * (at - below);
    }
  }
  return table;
}
