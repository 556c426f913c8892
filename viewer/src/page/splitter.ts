// The edge between the views and the panel next to them: dragged, or moved with the arrow keys.

import { el } from "../ui/dom";

const LEAST = 200;
const MOST = 720;
const USUAL = 320;
const STEP = 24;
const KEY = "gpumemprof-panel";

export class Splitter {
  readonly element = el("div", {
    class: "splitter", role: "separator", tabindex: 0, "aria-orientation": "vertical", "aria-label": "Width of the panel", title: "Drag to resize; double-click to reset",
  });

  constructor(private readonly panel: HTMLElement) {
    let width = USUAL;
    try {
      width = Number(localStorage.getItem(KEY)) || USUAL;
    } catch {
      // Some browsers refuse storage to local files.
    }
    this.set(width);
    this.element.addEventListener("pointerdown", (event) => this.element.setPointerCapture(event.pointerId));
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) this.set(window.innerWidth - event.clientX);
    });
    this.element.addEventListener("dblclick", () => this.set(USUAL));
    this.element.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowLeft" ? STEP : event.key === "ArrowRight" ? -STEP : 0;
      if (step === 0) return;
      event.preventDefault();
      event.stopPropagation();
      this.set(this.panel.getBoundingClientRect().width + step);
    });
  }

  private set(wanted: number): void {
    const width = Math.round(Math.min(Math.max(wanted, LEAST), MOST, Math.max(LEAST, window.innerWidth - 260)));
    this.panel.style.setProperty("--panel-width", `${width}px`);
    for (const [name, value] of [["aria-valuenow", width], ["aria-valuemin", LEAST], ["aria-valuemax", MOST]] as const) this.element.setAttribute(name, String(value));
    try {
      localStorage.setItem(KEY, String(width));
    } catch {
      // It lasts until the page is closed.
    }
  }
}
