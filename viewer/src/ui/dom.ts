// Elements built by hand. Text from a recording only ever becomes a text node.

import { visible } from "./format";
import { asContext, VectorContext } from "./vectors";

type Child = Node | string | null;
type Attributes = Record<string, string | number | boolean | ((event: never) => void)>;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2).toLowerCase(), value as EventListener);
    } else if (typeof value === "boolean") {
      if (value) element.setAttribute(name, "");
    } else {
      element.setAttribute(name, typeof value === "string" ? visible(value) : String(value));
    }
  }
  for (const child of children) {
    if (child !== null) element.append(typeof child === "string" ? visible(child) : child);
  }
  return element;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter((child): child is Node | string => child !== null));
}

/** Enter and Space, as on a button. */
export function onActivate(element: HTMLElement, activate: () => void): void {
  element.addEventListener("keydown", (event) => {
    if ((event.key !== "Enter" && event.key !== " ") || event.target !== element) return;
    event.preventDefault();
    event.stopPropagation();
    activate();
  });
}

export interface Choice<Value extends string> {
  value: Value;
  label: string;
}

/** A row of buttons, one of which is pressed. */
export function segmented<Value extends string>(
  label: string,
  choices: Choice<Value>[],
  chosen: Value,
  choose: (value: Value) => void,
): HTMLElement {
  const group = el("div", { class: "segmented", role: "group", "aria-label": label });
  for (const { value, label: text } of choices) {
    group.append(
      el(
        "button",
        { type: "button", "data-value": value, "aria-pressed": String(value === chosen), onclick: () => choose(value) },
        text,
      ),
    );
  }
  return group;
}

export function select<Value extends string>(
  label: string,
  choices: Choice<Value>[],
  chosen: Value,
  choose: (value: Value) => void,
): HTMLSelectElement {
  const list = el("select", { "aria-label": label });
  for (const { value, label: text } of choices) {
    list.append(el("option", { value, selected: value === chosen }, text));
  }
  list.addEventListener("change", () => choose(list.value as Value));
  return list;
}

/** A canvas that fills its parent, sharp on every screen. */
export class Surface {
  readonly canvas = el("canvas");
  width = 0;
  height = 0;

  private static readonly all = new WeakMap<Element, Surface>();
  private vectors: VectorContext | null = null;

  /** `redraw` may wait for the next frame; `drawNow` does not. */
  constructor(parent: HTMLElement, label: string, redraw: () => void, private readonly drawNow: () => void = redraw) {
    Surface.all.set(this.canvas, this);
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.canvas.tabIndex = 0;
    parent.append(this.canvas);
    new ResizeObserver(() => redraw()).observe(parent);
  }

  /** What a canvas shows, as shapes; null: it is no drawing of ours. */
  static vectorsOf(canvas: HTMLCanvasElement): VectorContext | null {
    const surface = Surface.all.get(canvas);
    if (surface === undefined) return null;
    const vectors = (surface.vectors = new VectorContext(surface.width, surface.height));
    try {
      surface.drawNow();
    } finally {
      surface.vectors = null;
    }
    return vectors;
  }

  /** The context, in units of CSS pixels, cleared. */
  begin(height?: number): CanvasRenderingContext2D {
    if (this.vectors !== null) return asContext(this.vectors);
    const parent = this.canvas.parentElement!;
    const scale = window.devicePixelRatio || 1;
    this.width = Math.max(1, parent.clientWidth);
    this.height = Math.max(1, Math.floor(height ?? parent.clientHeight));
    const [w, h] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
      this.canvas.style.width = `${this.width}px`;
      this.canvas.style.height = `${this.height}px`;
    }
    const context = this.canvas.getContext("2d")!;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    return context;
  }

  /** The position of a mouse event on the canvas. */
  at(event: MouseEvent): { x: number; y: number } {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}

/** A text in lines that fit a width, broken between words. */
export function wrapped(context: CanvasRenderingContext2D, given: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of visible(given).split(" ")) {
    const longer = lines.length === 0 ? word : `${lines.at(-1)!} ${word}`;
    if (lines.length > 0 && context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** As much of a text as fits a width; nothing if not even a few letters fit. */
export function fitted(context: CanvasRenderingContext2D, given: string, width: number): string {
  const text = visible(given);
  if (width < 18) return "";
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + "…").width <= width) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? "" : text.slice(0, low) + "…";
}
