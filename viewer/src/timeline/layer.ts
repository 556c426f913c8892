// What others draw on the timeline: over its bands, within its axes.

import type { Theme } from "../ui/palette";
import type { Plot } from "./plot";

export interface TimelineLayer {
  /** The most bytes that it must have room for; 0: no matter. */
  mostBytes(): number;
  draw(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void;
}
