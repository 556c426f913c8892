// The edge between the views and the panel next to them: dragged, or moved with the arrow keys.

import { el } from "../ui/dom";

const LEAST = 200;
const MOST = 720;
const USUAL = 320;
/** Of the window: a third of a narrow one, and on a wide one room for names. */
const MOST_SHARE = 0.33;
const LEAST_SHARE = 0.16;
const MOST_USUAL = 560;
const STEP = 24;
const KEY = "gpumemprof-panel";

export class Splitter {
  readonly element = el("div", {
    class: "splitter", role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": "Width of the panel", title: "Drag to resize; double-click to reset",
  });

  private chosen: number | null = null;

  constructor(private readonly panel: HTMLElement) {
    try {
      this.chosen = Number(localStorage.getItem(KEY)) || null;
    } catch {
      // Some browsers refuse storage to local files.
    }
    this.show();
    window.addEventListener("resize", () => this.show());
    this.element.addEventListener("pointerdown", (event) => this.element.setPointerCapture(event.pointerId));
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) this.choose(window.innerWidth - event.clientX);
    });
    this.element.addEventListener("dblclick", () => this.choose(null));
    this.element.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowLeft" ? STEP : event.key === "ArrowRight" ? -STEP : 0;
      if (step === 0) return;
      event.preventDefault();
      event.stopPropagation();
      this.choose(this.panel.getBoundingClientRect().width + step);
    });
  }

  /** Null: as wide as the window suggests. */
  private choose(width: number | null): void {
    this.chosen = width;
    const shown = this.show();
    try {
      if (width === null) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, String(shown));
    } catch {
      // It lasts until the page is closed.
    }
  }

  private show(): number {
    const usual = Math.min(MOST_USUAL, Math.max(Math.min(USUAL, MOST_SHARE * window.innerWidth), LEAST_SHARE * window.innerWidth));
    const wanted = this.chosen ?? usual;
    const width = Math.round(Math.min(Math.max(wanted, LEAST), MOST, Math.max(LEAST, window.innerWidth - 260)));
    this.panel.style.setProperty("--panel-width", `${width}px`);
    for (const [name, value] of [["aria-valuenow", width], ["aria-valuemin", LEAST], ["aria-valuemax", MOST]] as const) this.element.setAttribute(name, String(value));
    return width;
  }
}
