// The flame graph of what is live at the cursor: outermost call on top, width is bytes.

import type { Flame } from "./data";
import { Surface, el, fitted, replace, segmented } from "./dom";
import * as format from "./format";
import { chosenTheme, groupColor, hashed, inkOn, type Theme } from "./palette";
import type { State } from "./state";
import { hideTooltip, showTooltip } from "./tooltip";

const ROW = 20;

interface Box {
  node: number;
  x: number;
  y: number;
  width: number;
}

export class FlameView {
  readonly element = el("section", { class: "view flame", "aria-label": "Flame graph" });
  private readonly bar = el("div", { class: "bar" });
  private readonly scroll = el("div", { class: "scroll" });
  private readonly surface: Surface;
  private flame: Flame | null = null;
  private children: number[][] = [];
  private roots: number[] = [];
  private depth: number[] = [];
  private focus: number | null = null;
  private boxes: Box[] = [];
  private question = "";

  constructor(private readonly state: State) {
    this.element.append(this.bar, this.scroll);
    this.surface = new Surface(this.scroll, "What is live at the cursor, by call stack", () => this.draw());
    this.surface.canvas.addEventListener("mousemove", (event) => this.hover(event));
    this.surface.canvas.addEventListener("mouseleave", hideTooltip);
    this.surface.canvas.addEventListener("click", (event) => this.click(event));
    state.listen((change) => {
      if (state.view !== "flame") return;
      if (change === "theme" || change === "search") this.draw();
      else this.load();
    });
  }

  show(): void {
    this.load();
  }

  private load(): void {
    const { named, cursor, flameBy } = this.state;
    const question = `flame?${named}&position=${cursor}&by=${flameBy}`;
    if (question === this.question) return this.draw();
    this.question = question;
    void this.state.source.ask<Flame>(question).then((flame) => {
      if (question !== this.question) return;
      this.take(flame);
    });
  }

  private take(flame: Flame): void {
    this.flame = flame;
    this.focus = null;
    this.children = flame.parent.map(() => []);
    this.roots = [];
    this.depth = [];
    flame.parent.forEach((parent, node) => {
      if (parent < 0) this.roots.push(node);
      else this.children[parent]!.push(node);
      this.depth.push(parent < 0 ? 0 : this.depth[parent]! + 1);
    });
    this.skipTrunk();
    this.drawBar();
    this.draw();
  }

  /** Frames that everything goes through tell nothing: start where the ways part. */
  private skipTrunk(): void {
    const only = this.roots[0];
    if (this.roots.length !== 1 || only === undefined) return;
    let node = only;
    while (this.children[node]!.length === 1 && this.flame!.bytes[this.children[node]![0]!]! >= 0.999 * this.flame!.bytes[node]!) {
      node = this.children[node]![0]!;
    }
    if (this.depth[node]! > 3) this.focus = node;
  }

  private drawBar(): void {
    const flame = this.flame!;
    const facts = `${format.bytes(flame.allocated_bytes)} allocated in ${format.counted(flame.blocks, "block")}`;
    replace(
      this.bar,
      segmented("Flame graph by", [{ value: "stack", label: "By call stack" }, { value: "module", label: "By module" }], this.state.flameBy, (value) =>
        this.state.set({ flameBy: value }, "grouping"),
      ),
      el("button", { type: "button", onclick: () => this.state.setCursor(this.state.current.peak_position) }, "At the peak"),
      el("span", { class: "facts", "data-testid": "flame-total", "data-bytes": flame.allocated_bytes }, facts),
      this.focus === null
        ? null
        : el("button", { type: "button", onclick: () => this.zoomTo(null) }, "Show the whole"),
      flame.nodes_left_out === 0
        ? null
        : el("span", { class: "muted" }, `${format.counted(flame.nodes_left_out, "call")} too small to be drawn`),
    );
  }

  private zoomTo(node: number | null): void {
    this.focus = node;
    this.drawBar();
    this.draw();
  }

  private label(node: number): string {
    const frame = this.flame!.frames[this.flame!.frame[node]!];
    if (frame == null) return this.state.flameBy === "module" ? "outside any module" : "no stack recorded";
    return frame[3];
  }

  private draw(): void {
    if (this.flame === null || this.state.view !== "flame") return;
    const theme = chosenTheme();
    this.layOut();
    const lowest = this.boxes.reduce((most, box) => Math.max(most, box.y), 0) + ROW + 4;
    const height = Math.max(lowest, this.scroll.clientHeight);
    const context = this.surface.begin(height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    if (this.flame.allocated_bytes === 0) {
      context.fillStyle = theme.muted;
      context.fillText("Nothing is allocated at this moment.", 16, 28);
      return;
    }
    const words = this.state.search.toLowerCase().split(/\s+/).filter((word) => word !== "" && !/[<>]/.test(word));
    for (const box of this.boxes) this.drawBox(context, theme, box, words);
    this.surface.canvas.dataset["boxes"] = String(this.boxes.length);
  }

  private layOut(): void {
    this.boxes = [];
    const flame = this.flame!;
    const width = this.scroll.clientWidth - 2;
    let y = 0;
    let start = this.roots;
    let whole = flame.allocated_bytes;
    if (this.focus !== null) {
      const trunk: number[] = [];
      for (let node = this.focus; node >= 0; node = flame.parent[node]!) trunk.push(node);
      // Of the way to the focus the last few calls are shown.
      for (const node of trunk.slice(0, 4).reverse()) {
        this.boxes.push({ node, x: 0, y, width });
        y += ROW;
      }
      start = this.children[this.focus]!;
      whole = flame.bytes[this.focus]!;
    }
    const place = (nodes: number[], x: number, top: number): void => {
      let left = x;
      for (const node of nodes) {
        const boxWidth = (flame.bytes[node]! / Math.max(1, whole)) * width;
        if (boxWidth < 0.4) break;
        this.boxes.push({ node, x: left, y: top, width: boxWidth });
        place(this.children[node]!, left, top + ROW);
        left += boxWidth;
      }
    };
    place(start, 0, y);
  }

  private drawBox(context: CanvasRenderingContext2D, theme: Theme, box: Box, words: string[]): void {
    const flame = this.flame!;
    const frame = flame.frames[flame.frame[box.node]!] ?? null;
    const isLibrary = frame !== null && /site-packages|dist-packages|\/lib\/python3|\.cpp$/.test(frame[1]);
    const color = groupColor(theme, hashed(frame?.[1] ?? "") % 15, frame === null);
    const text = this.label(box.node).toLowerCase();
    const isFound = words.length > 0 && words.every((word) => text.includes(word) || (frame?.[1].toLowerCase().includes(word) ?? false));
    context.globalAlpha = words.length > 0 && !isFound ? 0.3 : isLibrary ? 0.62 : 1;
    context.fillStyle = color;
    const gap = box.width > 3 ? 1 : 0;
    context.fillRect(box.x, box.y, Math.max(0.5, box.width - gap), ROW - 1);
    context.globalAlpha = 1;
    if (box.width > 30) {
      context.fillStyle = isLibrary && theme.isDark ? "#f2f4f7" : isLibrary ? "#14171c" : inkOn(color);
      const label = `${format.shortPlace(this.label(box.node))}  ${format.bytes(flame.bytes[box.node]!)}`;
      context.fillText(fitted(context, label, box.width - 10), box.x + 5, box.y + ROW / 2 + 0.5);
    }
    if (isFound) {
      context.strokeStyle = theme.text;
      context.lineWidth = 2;
      context.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.width - 3), ROW - 3);
    }
  }

  private boxAt(event: MouseEvent): Box | null {
    const { x, y } = this.surface.at(event);
    return this.boxes.find((box) => box.x <= x && x < box.x + box.width && box.y <= y && y < box.y + ROW) ?? null;
  }

  private hover(event: MouseEvent): void {
    const box = this.boxAt(event);
    if (box === null || this.flame === null) return hideTooltip();
    const flame = this.flame;
    const lines = [
      this.label(box.node),
      `${format.bytes(flame.bytes[box.node]!)} in ${format.counted(flame.node_blocks[box.node]!, "block")}, ${format.percent(flame.bytes[box.node]!, flame.allocated_bytes)}`,
    ];
    if (flame.self_bytes[box.node]! > 0) lines.push(`${format.bytes(flame.self_bytes[box.node]!)} allocated here itself`);
    showTooltip(event, lines);
  }

  private click(event: MouseEvent): void {
    const box = this.boxAt(event);
    if (box === null) return;
    this.zoomTo(box.node === this.focus ? null : box.node);
  }
}
