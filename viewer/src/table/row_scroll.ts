// Very many rows in one scroll bar. Browsers cannot scroll further than some 30 million pixels:
// beyond that the bar covers more rows than its pixels, and turning the wheel still moves row by row.

import { el, replace } from "../ui/dom";

export const ROW_PIXELS = 26;
const MOST_PIXELS = 20_000_000;

export class RowScroll {
  readonly element = el("div", { class: "scroll rows", tabindex: 0, role: "rowgroup" });
  private readonly spacer = el("div", { class: "spacer-rows" });
  private count = 0;
  /** The first visible row, plus the fraction of it that is scrolled out of view. */
  private top = 0;
  private lastPixel = 0;
  private isOwn = false;

  constructor(private readonly changed: () => void) {
    this.element.append(this.spacer);
    this.element.addEventListener("scroll", () => this.onScroll());
    new ResizeObserver(() => changed()).observe(this.element);
  }

  private get room(): number {
    return Math.max(1, this.element.clientHeight / ROW_PIXELS);
  }
  private get mostTop(): number {
    return Math.max(0, this.count - this.room);
  }
  private get mostPixel(): number {
    return Math.max(1, this.element.scrollHeight - this.element.clientHeight);
  }
  private get isExact(): boolean {
    return this.count * ROW_PIXELS <= MOST_PIXELS;
  }

  setCount(count: number): void {
    this.count = count;
    this.spacer.style.height = `${Math.min(count * ROW_PIXELS, MOST_PIXELS)}px`;
  }

  get first(): number {
    return Math.max(0, Math.floor(this.top));
  }
  get past(): number {
    return Math.min(this.count, Math.ceil(this.top + this.room) + 1);
  }

  toTop(): void {
    this.top = 0;
    this.lastPixel = 0;
    this.element.scrollTop = 0;
  }

  /** Moves by rows. */
  by(rows: number): void {
    this.moveTo(this.top + rows);
    this.place();
  }

  private moveTo(top: number): void {
    this.top = Math.min(Math.max(0, top), this.mostTop);
    this.changed();
  }

  private onScroll(): void {
    const pixel = this.element.scrollTop;
    if (this.isOwn) {
      this.isOwn = false;
      this.lastPixel = pixel;
      return;
    }
    const moved = pixel - this.lastPixel;
    this.lastPixel = pixel;
    if (this.isExact) return this.moveTo(pixel / ROW_PIXELS);
    // Turning the wheel moves by rows, dragging the bar moves to a fraction of all rows.
    if (pixel <= 0) return this.moveTo(0);
    if (pixel >= this.mostPixel - 1) return this.moveTo(this.mostTop);
    this.moveTo(Math.abs(moved) < 2 * this.element.clientHeight ? this.top + moved / ROW_PIXELS : (pixel / this.mostPixel) * this.mostTop);
  }

  /** Moves the bar to match. */
  private place(): void {
    const pixel = this.isExact ? this.top * ROW_PIXELS : (this.top / Math.max(1, this.mostTop)) * this.mostPixel;
    if (Math.abs(this.element.scrollTop - pixel) < 1) return;
    this.isOwn = true;
    this.element.scrollTop = pixel;
  }

  show(rows: HTMLElement[]): void {
    const origin = this.isExact ? 0 : this.element.scrollTop - this.top * ROW_PIXELS;
    for (const row of rows) {
      const index = row.dataset["index"];
      if (index !== undefined) row.style.top = `${origin + Number(index) * ROW_PIXELS}px`;
    }
    replace(this.spacer, ...rows);
  }
}
