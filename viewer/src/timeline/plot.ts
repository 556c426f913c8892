// Where things are on the timeline: fractions of the axis ↔ pixels, bytes ↔ pixels.

import type { Surface } from "../ui/dom";
import type { State } from "../page/state";

const LEFT = 66;
const RIGHT = 12;
const BOTTOM = 24;
/** The height of a lane of spans above the plot. */
export const LANE = 16;

export class Plot {
  readonly left = LEFT;
  /** How many lanes of spans there are above the plot. */
  laneCount = 0;
  /** The bytes that the full height represents. */
  mostBytes = 1;
  private pixelsPerByte = 1;

  constructor(readonly state: State, readonly surface: Surface, readonly isSmall: boolean) {}

  get width(): number {
    return Math.max(1, this.surface.width - LEFT - RIGHT);
  }
  get right(): number {
    return LEFT + this.width;
  }
  get top(): number {
    return 8 + this.laneCount * LANE + (this.laneCount > 0 ? 4 : 0) + (this.isSmall ? 0 : 10);
  }
  get base(): number {
    return this.surface.height - (this.isSmall ? 16 : BOTTOM);
  }

  x(share: number): number {
    return LEFT + ((share - this.state.from) / (this.state.to - this.state.from)) * this.width;
  }
  share(x: number): number {
    return this.state.from + ((x - LEFT) / this.width) * (this.state.to - this.state.from);
  }
  /** The fraction of the axis for a moment. */
  shareOf(position: number, timeNs: number | null): number {
    const { axis, positions, current } = this.state;
    if (axis === "event") return (position + 0.5) / positions;
    const length = current.duration_ns! + 1;
    return (timeNs ?? 0) / length;
  }

  setMostBytes(most: number): void {
    this.mostBytes = most;
    this.pixelsPerByte = (this.base - this.top) / most;
  }
  y(bytes: number): number {
    return this.base - bytes * this.pixelsPerByte;
  }
  /** The height in pixels of this many bytes. */
  height(bytes: number): number {
    return bytes * this.pixelsPerByte;
  }
}
