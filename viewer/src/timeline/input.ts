// The mouse on the timeline: a drag selects a range, with Shift it zooms to it, with Alt or the middle button it pans.

import type { Surface } from "../ui/dom";
import type { State } from "../page/state";
import type { Plot } from "./plot";
import { hideTooltip } from "../ui/tooltip";

interface Actions {
  hover(event: MouseEvent): void;
  click(x: number, y: number): void;
  /** A range was selected, from one place to another to the right of it. */
  pick(first: number, last: number): void;
  schedule(): void;
}

export class TimelineInput {
  private drag: { x: number; from: number; to: number; moved: boolean; does: "select" | "zoom" | "pan" } | null = null;
  private rangeEnd: number | null = null;
  private hovered: { x: number; y: number } | null = null;

  constructor(private readonly state: State, private readonly surface: Surface, private readonly plot: Plot, private readonly actions: Actions) {
    const canvas = surface.canvas;
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onUp(event));
    // A finger that scrolls the page, a window that comes in between: nothing was selected.
    canvas.addEventListener("pointercancel", () => {
      this.drag = this.rangeEnd = null;
      actions.schedule();
    });
    canvas.addEventListener("pointerleave", () => {
      this.hovered = null;
      hideTooltip();
    });
    canvas.addEventListener("dblclick", () => state.setRange(0, 1));
  }

  /** The range that is being selected, in pixels. */
  get chosen(): [number, number] | null {
    if (this.drag === null || this.drag.does === "pan" || this.rangeEnd === null) return null;
    return [Math.min(this.drag.x, this.rangeEnd), Math.max(this.drag.x, this.rangeEnd)];
  }

  /** What zooming with the keyboard is centred on: the mouse, or the middle. */
  get keyboardCentre(): number {
    return this.hovered === null ? (this.state.from + this.state.to) / 2 : Math.min(Math.max(this.plot.share(this.hovered.x), 0), 1);
  }

  private onWheel(event: WheelEvent): void {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan((event.deltaX / this.plot.width) * (this.state.to - this.state.from));
      return;
    }
    const at = Math.min(Math.max(this.plot.share(this.surface.at(event).x), 0), 1);
    this.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.0025), at);
  }

  zoom(factor: number, at = (this.state.from + this.state.to) / 2): void {
    const { from, to } = this.state;
    this.state.setRange(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(shift: number): void {
    const { from, to } = this.state;
    const bounded = Math.min(Math.max(shift, -from), 1 - to);
    this.state.setRange(from + bounded, to + bounded);
  }

  private onDown(event: PointerEvent): void {
    const { x } = this.surface.at(event);
    this.surface.canvas.setPointerCapture(event.pointerId);
    this.drag = { x, from: this.state.from, to: this.state.to, moved: false, does: event.shiftKey ? "zoom" : event.altKey || event.button === 1 ? "pan" : "select" };
    this.rangeEnd = null;
  }

  private onMove(event: PointerEvent): void {
    const at = this.surface.at(event);
    this.hovered = at;
    if (this.drag === null) return this.actions.hover(event);
    if (Math.abs(at.x - this.drag.x) > 3) this.drag.moved = true;
    if (!this.drag.moved) return;
    hideTooltip();
    if (this.drag.does !== "pan") {
      this.rangeEnd = at.x;
      this.actions.schedule();
      return;
    }
    const shift = ((this.drag.x - at.x) / this.plot.width) * (this.drag.to - this.drag.from);
    const bounded = Math.min(Math.max(shift, -this.drag.from), 1 - this.drag.to);
    this.state.setRange(this.drag.from + bounded, this.drag.to + bounded);
  }

  private onUp(event: PointerEvent): void {
    const drag = this.drag;
    const { x, y } = this.surface.at(event);
    this.drag = null;
    this.rangeEnd = null;
    if (drag === null) return;
    if (!drag.moved) return this.actions.click(x, y);
    const [left, right] = [Math.min(drag.x, x), Math.max(drag.x, x)];
    if (drag.does === "zoom") this.state.setRange(this.plot.share(left), this.plot.share(right));
    if (drag.does === "select") this.actions.pick(left, right);
    this.actions.schedule();
  }
}
