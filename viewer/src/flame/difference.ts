// The difference of two moments, or of what two ranges allocated, as a flame graph: a box is as wide as what both sides
// hold in it, and its colour says which of them holds more.

import type { Flame, Working } from "../data/answers";
import { IN_BACKWARD, NO_STACK } from "../data/questions";
import type { Waiting } from "../data/source";
import type { Side, State } from "../page/state";
import { el, fitted, replace, segmented, Surface } from "../ui/dom";
import * as format from "../ui/format";
import { blended, chosenTheme, inkOn, type Theme } from "../ui/palette";
import { hideTooltip, showTooltip } from "../ui/tooltip";
import { workingText } from "../ui/waiting";
import { type Box, FlameTree, ROW } from "./layout";
import { merged, type Merged } from "./merged";

// Blue and orange differ for every common kind of colour vision.
const LESS = "#2f6fb5";
const MORE = "#e08a1e";

/** From -1, only in the first, to 1, only in the second. */
export function changeOf(first: number, second: number): number {
  return first + second === 0 ? 0 : (second - first) / (first + second);
}

export function changeColor(theme: Theme, change: number): string {
  const same = theme.isDark ? "#4a505b" : "#dfe3e8";
  return blended(change < 0 ? LESS : MORE, same, Math.min(1, Math.abs(change) ** 0.5));
}

export function flameOfSide(state: State, side: Side, waiting: Waiting): Promise<Flame> {
  const { file, device, position, from } = side;
  if (from !== undefined) return state.source.ask("range_flame", { file, device, from, to: position, part: "allocated", by: state.flameBy }, waiting);
  return state.source.ask("flame", { file, device, position: state.source.nearestState(file, device, position), by: state.flameBy });
}

export class DifferenceFlame {
  readonly element = el("div", { class: "difference" });
  private readonly bar = el("div", { class: "bar" });
  private readonly status = el("div", { class: "status muted", role: "status", "data-testid": "difference-active" });
  private readonly scroll = el("div", { class: "scroll" });
  private readonly surface: Surface;
  private parts: Merged | null = null;
  private tree: FlameTree | null = null;
  private boxes: Box[] = [];
  private focus: number | null = null;
  private active: number | null = null;
  private key = "";
  private waiting = new AbortController();

  constructor(private readonly state: State) {
    this.element.append(this.bar, this.status, this.scroll);
    this.surface = new Surface(this.scroll, "Difference by call; arrow keys move between boxes, Enter zooms in, Escape shows everything", () => this.draw());
    const { canvas } = this.surface;
    canvas.addEventListener("mousemove", (event) => {
      const box = this.boxAt(event);
      if (box === null) hideTooltip();
      else showTooltip(event, this.lines(box.node));
    });
    canvas.addEventListener("mouseleave", hideTooltip);
    canvas.addEventListener("click", (event) => {
      const box = this.boxAt(event);
      if (box !== null) this.zoomTo(box.node === this.focus ? null : box.node);
    });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("blur", () => this.draw());
    state.listen((change) => change === "theme" && this.draw());
  }

  show(first: Side, second: Side): void {
    const { state } = this;
    if (!state.current.flame_bys.includes(state.flameBy)) state.flameBy = "stack";
    const key = JSON.stringify([first, second, state.flameBy]);
    if (key === this.key) return this.takeFocus();
    this.key = key;
    const before = this.waiting;
    const { signal } = (this.waiting = new AbortController());
    const onProgress = (working: Working) => key === this.key && (this.scroll.dataset["busy"] = workingText(working));
    const asked = Promise.all([flameOfSide(state, first, { signal, onProgress }), flameOfSide(state, second, { signal, onProgress })]);
    // Not before the new questions: what both ask goes on.
    before.abort();
    void asked.then(
      ([a, b]) => {
        if (key !== this.key) return;
        delete this.scroll.dataset["busy"];
        this.parts = merged(a, b);
        this.tree = new FlameTree(this.parts.flame);
        this.active = null;
        this.drawBar(a, b);
        this.takeFocus();
      },
      (error: Error) => {
        if (key !== this.key) return;
        delete this.scroll.dataset["busy"];
        replace(this.bar, el("p", { class: "empty" }, error.message));
      },
    );
  }

  /** Something else is shown: long ranges need not be read for this. */
  giveUp(): void {
    if (this.scroll.dataset["busy"] === undefined) return;
    delete this.scroll.dataset["busy"];
    this.key = "";
    this.waiting.abort();
  }

  private takeFocus(): void {
    if (this.tree === null) return;
    this.focus = this.state.focus === null ? this.tree.trunk : this.tree.nodeAt(this.state.focus);
    this.draw();
  }

  private drawBar(a: Flame, b: Flame): void {
    const { state } = this;
    const labels = { stack: "By call stack", module: "By module", tag: "By tag" };
    const swatch = (color: string) => {
      const box = el("i", { class: "swatch" });
      box.style.backgroundColor = color;
      return box;
    };
    const left = this.parts!.flame.nodes_left_out;
    replace(
      this.bar,
      segmented("Difference by", state.current.flame_bys.map((value) => ({ value, label: labels[value] })), state.flameBy, (value) => state.set({ flameBy: value, focus: null }, "compare")),
      el(
        "span",
        { class: "facts", "data-testid": "difference-total", "data-first": a.allocated_bytes, "data-second": b.allocated_bytes },
        `${format.bytes(a.allocated_bytes)} → ${format.bytes(b.allocated_bytes)}, ${format.signedBytes(b.allocated_bytes - a.allocated_bytes)}`,
      ),
      el("span", { class: "key" }, swatch(LESS), "more in A"),
      el("span", { class: "key" }, swatch(MORE), "more in B"),
      left === 0 ? null : el("span", { class: "muted" }, `${format.counted(left, "call")} too small to draw`),
    );
  }

  private label(node: number): string {
    const { flame } = this.tree!;
    const frame = flame.frames[flame.frame[node]!] ?? null;
    if (frame !== null) return frame[3];
    const parent = flame.parent[node]!;
    return parent >= 0 ? IN_BACKWARD + this.label(parent) : this.state.flameBy === "stack" ? NO_STACK : "none";
  }

  private lines(node: number): string[] {
    const { first, second, firstBlocks, secondBlocks } = this.parts!;
    return [
      this.label(node),
      `${format.signedBytes(second[node]! - first[node]!)} from A to B`,
      `A: ${format.bytes(first[node]!)} in ${format.counted(firstBlocks[node]!, "block")}`,
      `B: ${format.bytes(second[node]!)} in ${format.counted(secondBlocks[node]!, "block")}`,
    ];
  }

  private zoomTo(node: number | null): void {
    this.active = node;
    this.state.set({ focus: this.tree!.pathOf(node) }, "compare");
  }

  private boxAt(event: MouseEvent): Box | null {
    const { x, y } = this.surface.at(event);
    return this.boxes.find((box) => box.x <= x && x < box.x + box.width && box.y <= y && y < box.y + ROW) ?? null;
  }

  private draw(): void {
    if (this.tree === null || this.parts === null || this.element.hidden || this.scroll.clientWidth < 40) return;
    const theme = chosenTheme();
    this.boxes = this.tree.layOut(this.focus, this.scroll.clientWidth - 2);
    const lowest = this.boxes.reduce((most, box) => Math.max(most, box.y), 0) + ROW + 4;
    const context = this.surface.begin(Math.max(lowest, this.scroll.clientHeight));
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const isFocused = document.activeElement === this.surface.canvas;
    for (const { node, x, y, width } of this.boxes) {
      const [first, second] = [this.parts.first[node]!, this.parts.second[node]!];
      const fill = changeColor(theme, changeOf(first, second));
      context.fillStyle = fill;
      context.fillRect(x, y, Math.max(0.5, width - (width > 3 ? 1 : 0)), ROW - 1);
      if (width > 30) {
        context.fillStyle = inkOn(fill);
        const change = first === second ? "no change" : format.signedBytes(second - first);
        context.fillText(fitted(context, `${change}  ${format.shortPlace(this.label(node))}`, width - 10), x + 5, y + ROW / 2 + 0.5);
      }
      if (node === this.active && isFocused) {
        context.strokeStyle = theme.accent;
        context.lineWidth = 3;
        context.strokeRect(x + 1, y + 1, Math.max(1, width - 3), ROW - 3);
      }
    }
    this.status.textContent = this.active !== null && isFocused ? format.visible(this.lines(this.active).join(" · ")) : "";
    Object.assign(this.surface.canvas.dataset, { boxes: this.boxes.length, focus: this.state.focus ?? "" });
  }

  private onKey(event: KeyboardEvent): void {
    if (this.tree === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const { tree } = this;
    const drawn = new Set(this.boxes.map(({ node }) => node));
    const active = this.active !== null && drawn.has(this.active) ? this.active : null;
    const beside = (step: number) => {
      if (active === null) return undefined;
      const all = tree.siblings(active);
      return all[all.indexOf(active) + step];
    };
    const moves: Record<string, () => number | undefined> = {
      ArrowDown: () => (active === null ? undefined : tree.children[active]![0]),
      ArrowUp: () => (active === null ? undefined : tree.flame.parent[active]),
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
    };
    const move = moves[event.key];
    if (move !== undefined) {
      const next = move();
      if (next !== undefined && drawn.has(next)) this.active = next;
      else if (active === null) this.active = this.boxes[0]?.node ?? null;
      this.draw();
    } else if (event.key === "Enter" && active !== null) {
      this.zoomTo(active === this.focus ? null : active);
    } else if (event.key === "Escape" && this.focus !== null) {
      this.zoomTo(null);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
