// The flame graph of what is live at the cursor: outermost call on top, width is bytes.

import type { Flame, FlameBy, FlameFrame, Working } from "../data/answers";
import { IN_BACKWARD, NO_MODULE, NO_STACK } from "../data/questions";
import { questionText } from "../data/source";
import { Surface, el, fitted, replace, segmented, select } from "../ui/dom";
import { FlameTree, ROW, type Box } from "./layout";
import { frameKey, inverted, sandwich, SandwichTree } from "./shapes";
import * as format from "../ui/format";
import { workingText } from "../ui/waiting";
import { blended, chosenTheme, groupColor, hashed, inkOn, type Theme } from "../ui/palette";
import { isInFrame, parseSearch, type Word } from "../table/search";
import type { FlameOf, FlameShape, State } from "../page/state";
import { hideTooltip, showTooltip } from "../ui/tooltip";

const BY_LABELS: Record<FlameBy, string> = { stack: "By call stack", module: "By module", tag: "By tag" };
const OF_LABELS: Record<FlameOf, string> = { live: "Live at the cursor", allocated: "Allocated in the range", freed: "Freed in the range", survived: "Survived the range" };
const SHAPE_LABELS: Record<FlameShape, string> = { calls: "Callers first", inverted: "Inverted", sandwich: "Sandwich" };
const BY_LINE_NOTE = "The recording does not identify module instances, so modules are grouped by the line of their forward()";
/** The label of a box at the top that has neither frame nor name. */
const NONE_LABELS: Record<FlameBy, string> = { stack: NO_STACK, module: NO_MODULE, tag: "no tag" };

export class FlameView {
  readonly element = el("section", { class: "view flame", "aria-label": "Flame graph" });
  private readonly bar = el("div", { class: "bar" });
  private readonly scroll = el("div", { class: "scroll" });
  private readonly status = el("div", { class: "status muted", role: "status", "data-testid": "flame-active" });
  private readonly surface: Surface;
  private tree: FlameTree | null = null;
  private focus: number | null = null;
  /** The box that has the keyboard focus. */
  private active: number | null = null;
  private boxes: Box[] = [];
  private question = "";
  /** As it was answered. */
  private flame: Flame | null = null;
  private problem = "";
  private waiting = new AbortController();

  constructor(private readonly state: State) {
    this.element.append(this.bar, this.status, this.scroll);
    this.surface = new Surface(this.scroll, "Live memory at the cursor, by call stack; arrow keys move between boxes, Enter zooms in, Escape shows everything", () => this.draw());
    const { canvas } = this.surface;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", hideTooltip);
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => this.draw());
    state.listen((change) => {
      if (state.view !== "flame") return void (change === "view" && this.giveUp());
      if (change === "theme" || change === "search") this.draw();
      else this.load();
    });
  }

  show(): void {
    this.load();
  }

  /** Another view is shown: a long range need not be read for this one. */
  private giveUp(): void {
    const box = this.surface.canvas.parentElement!;
    if (box.dataset["busy"] === undefined) return;
    delete box.dataset["busy"];
    this.question = "";
    this.waiting.abort();
  }

  private load(): void {
    const { cursor, flameBy, source, file, device } = this.state;
    const { picked, flameOf, flameShape, around } = this.state;
    const position = source.nearestState(file, device, cursor);
    const isRange = picked !== null && flameOf !== "live";
    const ranged = { file, device, ...(picked ?? { from: 0, to: 0 }), part: flameOf === "live" ? ("allocated" as const) : flameOf, by: flameBy };
    const asked = { file, device, position, by: flameBy };
    const question = isRange ? questionText("range_flame", ranged) : questionText("flame", asked);
    const shown = `${question} ${flameShape} ${around}`;
    if (shown === this.question) {
      this.takeFocus();
      return this.draw();
    }
    this.question = shown;
    this.waiting.abort();
    this.waiting = new AbortController();
    const box = this.surface.canvas.parentElement!;
    const wait = { signal: this.waiting.signal, onProgress: (working: Working) => shown === this.question && (box.dataset["busy"] = workingText(working)) };
    void (isRange ? source.ask("range_flame", ranged, wait) : source.ask("flame", asked)).then(
      (flame) => {
        if (shown !== this.question) return;
        delete box.dataset["busy"];
        this.problem = "";
        this.take(flame);
      },
      (error: Error) => {
        if (shown !== this.question) return;
        delete box.dataset["busy"];
        this.problem = error.message;
        this.take({ position, allocated_bytes: 0, blocks: 0, nodes_left_out: 0, frames: [], parent: [], frame: [], bytes: [], self_bytes: [], node_blocks: [] });
      },
    );
  }

  private shaped(flame: Flame): FlameTree {
    const { flameShape, around } = this.state;
    if (flameShape === "inverted") return new FlameTree(inverted(flame));
    const parts = flameShape === "sandwich" ? sandwich(flame, around ?? "") : null;
    return parts === null ? new FlameTree(flame) : new SandwichTree(parts);
  }

  private take(flame: Flame): void {
    this.flame = flame;
    const before = this.tree;
    const wasFocused = before !== null && this.state.focus !== null ? before.nodeAt(this.state.focus) : null;
    this.tree = this.shaped(flame);
    this.active = null;
    // Moving the cursor keeps the same call in focus, if it holds anything at that moment.
    if (before !== null && wasFocused !== null && before.flame.frames.length > 0) {
      const same = this.tree.counterpart(before, wasFocused);
      this.state.focus = same === null ? null : this.tree.pathOf(same);
    }
    this.takeFocus();
    this.draw();
  }

  private takeFocus(): void {
    if (this.tree === null) return;
    this.focus = this.state.focus === null ? this.tree.trunk : this.tree.nodeAt(this.state.focus);
    this.drawBar();
  }

  private drawBar(): void {
    const { state } = this;
    const flame = this.flame!;
    const shown = this.tree!.flame;
    const word = state.picked === null || state.flameOf === "live" ? "allocated" : state.flameOf;
    const facts = `${format.bytes(flame.allocated_bytes)} ${word} in ${format.counted(flame.blocks, "block")}`;
    replace(
      this.bar,
      segmented("Flame graph by", state.current.flame_bys.map((value) => ({ value, label: BY_LABELS[value] })), state.flameBy, (value) =>
        state.set({ flameBy: value, focus: null }, "grouping"),
      ),
      segmented("Shape", (["calls", "inverted", "sandwich"] as const).map((value) => ({ value, label: SHAPE_LABELS[value] })), state.flameShape, (value) => this.setShape(value)),
      state.picked === null
        ? null
        : select("Flame graph of", (["live", "allocated", "freed", "survived"] as const).map((value) => ({ value, label: OF_LABELS[value] })), state.flameOf, (value) =>
            state.set({ flameOf: value, focus: null }, "flame"),
          ),
      word === "allocated" && state.flameOf === "live" && state.current.has_history ? el("button", { type: "button", onclick: () => state.setCursor(state.current.peak_position) }, "At the peak") : null,
      state.flameShape === "sandwich"
        ? el("span", { class: "chip", "data-testid": "flame-around", "data-bytes": state.around === null ? "" : shown.allocated_bytes },
            state.around === null ? "click a call to see what leads to it and what it leads to" : `around ${format.shortPlace(state.around)}: ${format.bytes(shown.allocated_bytes)}`)
        : null,
      el("span", { class: "facts", "data-testid": "flame-total", "data-bytes": flame.allocated_bytes }, facts),
      flame.position === state.cursor || word !== "allocated" || state.flameOf !== "live" ? null : el("span", { class: "chip", "data-testid": "flame-moment", "data-position": flame.position }, momentNote(flame.position)),
      this.focus === null ? null : el("button", { type: "button", onclick: () => this.zoomTo(null) }, "Show everything"),
      state.flameBy !== "module" || state.current.has_module_instances ? null : el("span", { class: "muted", "data-testid": "flame-by-line" }, BY_LINE_NOTE),
      flame.nodes_left_out === 0 ? null : el("span", { class: "muted" }, `${format.counted(flame.nodes_left_out, "call")} too small to draw`),
    );
  }

  private setShape(flameShape: FlameShape): void {
    const { state } = this;
    const focused = this.focus === null || this.tree === null ? null : this.keyOf(this.focus);
    state.set({ flameShape, around: flameShape === "sandwich" ? focused : null, focus: null }, "flame");
  }

  private keyOf(node: number): string {
    const { flame } = this.tree!;
    return frameKey(flame.frames[flame.frame[node]!] ?? null);
  }

  private zoomTo(node: number | null): void {
    if (this.tree === null) return;
    this.active = node;
    if (this.state.flameShape === "sandwich") {
      this.state.set({ around: node === null ? null : this.keyOf(node), focus: null }, "flame");
      return;
    }
    this.state.set({ focus: this.tree.pathOf(node) }, "flame");
  }

  private label(node: number): string {
    const { flame } = this.tree!;
    const frame = flame.frames[flame.frame[node]!];
    const parent = flame.parent[node]!;
    if (frame == null && parent >= 0 && this.state.flameShape === "calls") return IN_BACKWARD + this.label(parent);
    if (frame == null && this.state.flameShape !== "calls" && this.state.flameBy === "stack") return "allocated in backward, or without a stack";
    if (frame == null) return NONE_LABELS[this.state.flameBy];
    return frame[3];
  }

  /** Whether it is a module instance or a tag, not a call. */
  private isNamed(node: number): boolean {
    const { flame } = this.tree!;
    const frame = flame.frames[flame.frame[node]!];
    return frame != null && frame[2] === 0 && frame[1] === frame[0];
  }

  /** For an instance, what it adds to its parent's path: "mlp" in "h.0"; for a list element "h.0", as a number says little. */
  private shortLabel(node: number): string {
    const label = this.label(node);
    if (!this.isNamed(node)) return format.shortPlace(label);
    const parent = this.tree!.flame.parent[node]!;
    const around = parent < 0 ? "" : `${this.label(parent)}.`;
    if (around === "" || !label.startsWith(around)) return label;
    const own = label.slice(around.length);
    return /^\d+$/.test(own) ? label.split(".").slice(-2).join(".") : own;
  }

  private draw(): void {
    if (this.tree === null || this.state.view !== "flame") return;
    const theme = chosenTheme();
    this.boxes = this.tree.layOut(this.focus, this.scroll.clientWidth - 2);
    const lowest = this.boxes.reduce((most, box) => Math.max(most, box.y), 0) + ROW + 4;
    const height = Math.max(lowest, this.scroll.clientHeight);
    const context = this.surface.begin(height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.announceActive();
    if (this.tree.flame.allocated_bytes === 0) {
      context.fillStyle = theme.muted;
      context.fillText(this.problem !== "" ? this.problem : this.state.flameOf === "live" ? "Nothing is allocated at this moment." : "There is nothing of this in the range.", 16, 28);
      return;
    }
    const { words } = parseSearch(this.state.search);
    let found = 0;
    for (const box of this.boxes) if (this.drawBox(context, theme, box, words)) found++;
    Object.assign(this.surface.canvas.dataset, { boxes: this.boxes.length, found, focus: this.state.focus ?? "" });
  }

  private announceActive(): void {
    const isThere = this.active !== null && document.activeElement === this.surface.canvas;
    this.status.textContent = isThere ? format.visible(this.lines(this.active!).join(" · ")) : "";
  }

  /** Whether it matches the search. */
  private drawBox(context: CanvasRenderingContext2D, theme: Theme, box: Box, words: Word[]): boolean {
    const { flame } = this.tree!;
    const frame = flame.frames[flame.frame[box.node]!] ?? null;
    const isLibrary = frame !== null && /site-packages|dist-packages|\/lib\/python3|\.cpp$/.test(frame[1]);
    // Layers of one kind share a colour, as calls into one file do.
    const kind = this.isNamed(box.node) ? frame![0].replace(/(^|\.)\d+(?=\.|$)/g, "$1*") : frame?.[1] ?? "";
    const color = groupColor(theme, hashed(kind) % 15, frame === null);
    const isFound = words.length > 0 && words.every((word) => this.isInBox(word, frame, this.label(box.node)) !== word.isExcluded);
    const fill = blended(color, theme.surface, words.length > 0 && !isFound ? 0.3 : isLibrary ? 0.62 : 1);
    context.fillStyle = fill;
    const gap = box.width > 3 ? 1 : 0;
    context.fillRect(box.x, box.y, Math.max(0.5, box.width - gap), ROW - 1);
    if (box.width > 30) {
      context.fillStyle = inkOn(fill);
      const label = `${this.shortLabel(box.node)}  ${format.bytes(flame.bytes[box.node]!)}`;
      context.fillText(fitted(context, label, box.width - 10), box.x + 5, box.y + ROW / 2 + 0.5);
    }
    const isActive = box.node === this.active && document.activeElement === this.surface.canvas;
    if (isFound || isActive) {
      context.strokeStyle = isActive ? theme.accent : theme.text;
      context.lineWidth = isActive ? 3 : 2;
      context.strokeRect(box.x + 1, box.y + 1, Math.max(1, box.width - 3), ROW - 3);
    }
    return isFound;
  }

  private isInBox(word: Word, frame: FlameFrame, label: string): boolean {
    if (frame !== null && isInFrame(word, frame[0].toLowerCase(), frame[1].toLowerCase(), frame[2])) return true;
    return word.field === "any" && label.toLowerCase().includes(word.text);
  }

  private boxAt(event: MouseEvent): Box | null {
    const { x, y } = this.surface.at(event);
    return this.boxes.find((box) => box.x <= x && x < box.x + box.width && box.y <= y && y < box.y + ROW) ?? null;
  }

  private lines(node: number): string[] {
    const { flame } = this.tree!;
    const lines = [
      this.label(node),
      `${format.bytes(flame.bytes[node]!)} in ${format.counted(flame.node_blocks[node]!, "block")}, ${format.percent(flame.bytes[node]!, flame.allocated_bytes)}`,
    ];
    if (flame.self_bytes[node]! > 0) lines.push(`${format.bytes(flame.self_bytes[node]!)} allocated by this frame itself`);
    return lines;
  }

  private hover(event: MouseEvent): void {
    const box = this.boxAt(event);
    if (box === null || this.tree === null) return hideTooltip();
    showTooltip(event, this.lines(box.node));
  }

  private click(event: MouseEvent): void {
    const box = this.boxAt(event);
    if (box === null) return;
    this.zoomTo(box.node === this.focus ? null : box.node);
  }

  private onKey(event: KeyboardEvent): void {
    if (this.tree === null || event.ctrlKey || event.metaKey || event.altKey) return;
    const { tree } = this;
    const drawn = new Set(this.boxes.map((box) => box.node));
    const active = this.active !== null && drawn.has(this.active) ? this.active : null;
    const beside = (step: number) => {
      if (active === null) return null;
      const all = tree.siblings(active);
      return all[all.indexOf(active) + step] ?? active;
    };
    const moves: Record<string, () => number | null | undefined> = {
      ArrowDown: () => (active === null ? this.boxes[0]?.node : tree.children[active]![0]),
      ArrowUp: () => (active === null ? this.boxes[0]?.node : tree.flame.parent[active]),
      ArrowLeft: () => beside(-1),
      ArrowRight: () => beside(1),
    };
    const move = moves[event.key];
    if (move !== undefined) {
      const next = move();
      if (next != null && drawn.has(next)) this.active = next;
      else if (active === null) this.active = this.boxes[0]?.node ?? null;
      this.draw();
      this.reveal();
    } else if (event.key === "Enter" || event.key === " ") {
      if (active === null) return;
      this.zoomTo(active === this.focus ? null : active);
    } else if (event.key === "Escape" && this.focus !== null) {
      this.zoomTo(null);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  private reveal(): void {
    const box = this.boxes.find(({ node }) => node === this.active);
    if (box === undefined) return;
    if (box.y < this.scroll.scrollTop) this.scroll.scrollTop = box.y;
    if (box.y + ROW > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop = box.y + ROW - this.scroll.clientHeight;
  }
}

/** For a standalone page that contains only some moments. */
export function momentNote(position: number): string {
  const where = position === 0 ? "before the first event" : `after event ${format.count(position - 1)}`;
  return `state ${where}, the nearest moment in this file`;
}
