// The segment map: every segment and block at the cursor, as lines of memory read like text.

import type { Groups, SegmentRow, Segments } from "./data";
import { Surface, el, replace, select } from "./dom";
import * as format from "./format";
import { chosenTheme, groupFill, striped, type Theme } from "./palette";
import { BY_LABELS } from "./panel";
import type { State } from "./state";
import { hideTooltip, showTooltip } from "./tooltip";

const LINE = 20;
const HEADING = 26;
const GAP = 3;

interface Piece {
  segment: number;
  block: number;
  x: number;
  y: number;
  width: number;
}

interface Heading {
  text: string;
  y: number;
}

export class SegmentsView {
  readonly element = el("section", { class: "view segments", "aria-label": "Segment map" });
  private readonly bar = el("div", { class: "bar" });
  private readonly scroll = el("div", { class: "scroll" });
  private readonly surface: Surface;
  private map: Segments | null = null;
  private groups: Groups | null = null;
  private pieces: Piece[] = [];
  private outlines: { segment: number; x: number; y: number; width: number }[] = [];
  private headings: Heading[] = [];
  private question = "";
  private zoom = 1;

  constructor(private readonly state: State) {
    this.element.append(this.bar, this.scroll);
    this.surface = new Surface(this.scroll, "Segments and blocks at the cursor", () => this.draw());
    const canvas = this.surface.canvas;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", hideTooltip);
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.setZoom(this.zoom * Math.exp(-event.deltaY * 0.004));
      },
      { passive: false },
    );
    state.listen((change) => {
      if (state.view !== "segments") return;
      if (change === "theme" || change === "selection") this.draw();
      else this.load();
    });
  }

  show(): void {
    this.load();
  }

  private get by(): string {
    // A page that stands alone knows one grouping only.
    return this.state.source.embedded === null ? this.state.knownBy : this.state.current.group_bys[0]!;
  }

  private load(): void {
    const { named, cursor, source } = this.state;
    const by = this.by;
    const question = `segments?${named}&position=${cursor}&by=${by}`;
    if (question === this.question) return this.draw();
    this.question = question;
    void Promise.all([source.ask<Segments>(question), source.ask<Groups>(`groups?${named}&by=${by}`)]).then(([map, groups]) => {
      if (question !== this.question) return;
      [this.map, this.groups] = [map, groups];
      this.drawBar();
      this.draw();
    });
  }

  private setZoom(zoom: number): void {
    this.zoom = Math.min(Math.max(zoom, 1), 64);
    this.draw();
  }

  private drawBar(): void {
    const map = this.map!;
    const figure = (label: string, value: number, id: string) =>
      el("span", { class: "facts", "data-testid": id, "data-bytes": value }, `${format.bytes(value)} ${label}`);
    replace(
      this.bar,
      this.state.source.embedded === null
        ? select("Colour by", this.state.current.group_bys.map((by) => ({ value: by, label: `Colour ${BY_LABELS[by]!.toLowerCase()}` })), this.by, (by) =>
            this.state.set({ by }, "grouping"),
          )
        : null,
      figure("reserved", map.reserved_bytes, "map-reserved"),
      figure("allocated", map.allocated_bytes, "map-allocated"),
      map.waiting_bytes > 0 ? figure("waiting for a stream", map.waiting_bytes, "map-waiting") : null,
      figure("free", map.free_bytes, "map-free"),
      el("span", { class: "muted" }, format.counted(map.segments.length, "segment")),
      el("span", { class: "spacer" }),
      el("span", { class: "key" }, el("i", { class: "swatch free" }), "free"),
      el("span", { class: "key" }, el("i", { class: "swatch pin" }), "pins its segment"),
      el("button", { type: "button", title: "Zoom out", onclick: () => this.setZoom(this.zoom / 2) }, "−"),
      el("button", { type: "button", title: "Zoom in", onclick: () => this.setZoom(this.zoom * 2) }, "+"),
    );
  }

  private poolName(segment: SegmentRow): string {
    const pool = segment.pool === null ? "" : segment.pool[0] > 0 ? `CUDA graph pool ${segment.pool[0]}, ` : `pool ${segment.pool[1]}, `;
    const kind = segment.is_small ? "small blocks (up to 1 MiB)" : "large blocks";
    const stream = segment.stream === "0x0" ? "default stream" : `stream ${segment.stream}`;
    return `${pool}${kind}, ${stream}`;
  }

  /** Bytes become pixels at one scale, so that everything fits the screen at zoom 1. */
  private layOut(width: number, height: number): number {
    const map = this.map!;
    const pools = new Map<string, number[]>();
    map.segments.forEach((segment, index) => {
      const name = this.poolName(segment);
      if (!pools.has(name)) pools.set(name, []);
      pools.get(name)!.push(index);
    });
    const firstBlock: number[] = [];
    let next = 0;
    for (const segment of map.segments) {
      firstBlock.push(next);
      next += segment.blocks;
    }
    const room = Math.max(4, Math.floor((height - pools.size * HEADING) / (LINE + 4)) - pools.size);
    const pixels = (this.zoom * (width - 2) * room * 0.92) / Math.max(1, map.reserved_bytes);
    this.pieces = [];
    this.outlines = [];
    this.headings = [];
    let y = 4;
    const ordered = [...pools].sort(([, a], [, b]) => total(map, b) - total(map, a));
    for (const [name, segments] of ordered) {
      this.headings.push({ text: `${name}: ${format.bytes(total(map, segments))} in ${format.counted(segments.length, "segment")}`, y });
      y += HEADING;
      let x = 1;
      for (const index of segments) {
        const segment = map.segments[index]!;
        const wanted = Math.max(2, segment.size * pixels);
        if (x > 1 && x + Math.min(wanted, width - 2) > width - 1) [x, y] = [1, y + LINE + 4];
        [x, y] = this.placeSegment(index, firstBlock[index]!, pixels, x, y, width);
        x += GAP;
      }
      y += LINE + 10;
    }
    return y;
  }

  /** A segment longer than a line goes on in the next, as a word would not. */
  private placeSegment(index: number, firstBlock: number, pixels: number, x: number, y: number, width: number): [number, number] {
    const map = this.map!;
    const segment = map.segments[index]!;
    let start = x;
    const close = () => this.outlines.push({ segment: index, x: start, y, width: Math.max(1, x - start) });
    for (let block = firstBlock; block < firstBlock + segment.blocks; block++) {
      let rest = Math.max(segment.blocks === 1 ? 2 : 0, map.size[block]! * pixels);
      for (;;) {
        const part = Math.min(rest, width - 1 - x);
        this.pieces.push({ segment: index, block, x, y, width: part });
        x += part;
        rest -= part;
        if (rest <= 0.01) break;
        close();
        [x, y] = [1, y + LINE + 4];
        start = x;
      }
    }
    close();
    return [x, y];
  }

  private draw(): void {
    if (this.map === null || this.groups === null || this.state.view !== "segments") return;
    const theme = chosenTheme();
    const { clientWidth: width, clientHeight: least } = this.scroll;
    if (width < 40) return;
    const height = this.layOut(width, least);
    const context = this.surface.begin(Math.min(30000, Math.max(height, least)));
    if (this.map.segments.length === 0) {
      context.fillStyle = theme.muted;
      context.font = "13px system-ui, sans-serif";
      const why = this.state.current.has_pool ? "Nothing is reserved at this moment." : "CPU memory comes straight from the C library: there are no segments.";
      context.fillText(why, 16, 28);
      return;
    }
    context.font = "600 12px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = theme.muted;
    for (const { text, y } of this.headings) context.fillText(text, 1, y + HEADING / 2);
    const free = striped(context, theme.surface, theme.isDark ? "#3b424e" : "#c9cfd8", 6);
    for (const piece of this.pieces) this.drawPiece(context, theme, piece, free);
    context.strokeStyle = theme.muted;
    context.lineWidth = 1;
    for (const outline of this.outlines) context.strokeRect(outline.x + 0.5, outline.y + 0.5, Math.max(0, outline.width - 1), LINE - 1);
    this.surface.canvas.dataset["blocks"] = String(this.map.size.length);
  }

  private drawPiece(context: CanvasRenderingContext2D, theme: Theme, piece: Piece, free: CanvasPattern | string): void {
    const map = this.map!;
    const row = map.row[piece.block]!;
    const group = map.group[piece.block]!;
    const isWaiting = group < 0;
    const number = isWaiting ? -1 - group : group;
    context.fillStyle = row < 0 ? free : groupFill(context, theme, number, this.groups!.groups[number]?.is_rest ?? false);
    context.globalAlpha = isWaiting ? 0.45 : 1;
    const gap = piece.width > 4 ? 0.75 : 0;
    context.fillRect(piece.x, piece.y, Math.max(0.35, piece.width - gap), LINE);
    context.globalAlpha = 1;
    if (row < 0) return;
    if (row === map.segments[piece.segment]!.pin) this.drawPin(context, theme, piece);
    if (row === this.state.selected) {
      context.strokeStyle = theme.text;
      context.lineWidth = 2.5;
      context.strokeRect(piece.x, piece.y, Math.max(2, piece.width), LINE);
    }
  }

  /** A small flag on top: told by its shape. */
  private drawPin(context: CanvasRenderingContext2D, theme: Theme, piece: Piece): void {
    const x = piece.x + Math.min(piece.width / 2, 6);
    context.fillStyle = theme.danger;
    context.strokeStyle = theme.surface;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x - 4, piece.y);
    context.lineTo(x + 4, piece.y);
    context.lineTo(x, piece.y + 7);
    context.closePath();
    context.fill();
    context.stroke();
  }

  private pieceAt(event: MouseEvent): Piece | null {
    const { x, y } = this.surface.at(event);
    let nearest: Piece | null = null;
    for (const piece of this.pieces) {
      if (y < piece.y || y >= piece.y + LINE) continue;
      if (piece.x <= x && x < piece.x + piece.width) return piece;
      // Blocks narrower than a pixel are found by coming near.
      if (Math.abs(piece.x - x) <= 1.5 && nearest === null) nearest = piece;
    }
    return nearest;
  }

  private hover(event: MouseEvent): void {
    const piece = this.pieceAt(event);
    const map = this.map;
    if (piece === null || map === null) return hideTooltip();
    const segment = map.segments[piece.segment]!;
    const row = map.row[piece.block]!;
    const lines = [row < 0 ? `${format.bytes(map.size[piece.block]!)} free` : map.labels[map.label[piece.block]!]!];
    if (row >= 0) lines.push(`${format.bytes(map.size[piece.block]!)}${map.group[piece.block]! < 0 ? ", let go, a stream still uses it" : ""}`);
    if (row >= 0 && row === segment.pin) lines.push(`in the segment longest: it pins ${format.bytes(segment.free)} of free memory`);
    const kind = segment.is_expandable ? "run of an expandable segment" : "segment";
    lines.push(`${kind} ${segment.address}: ${format.bytes(segment.size)}, ${format.bytes(segment.free)} of it free`);
    showTooltip(event, lines);
  }

  private click(event: MouseEvent): void {
    const piece = this.pieceAt(event);
    if (piece === null || this.map === null) return;
    const row = this.map.row[piece.block]!;
    if (row >= 0) this.state.set({ selected: row }, "selection");
  }
}

function total(map: Segments, segments: number[]): number {
  return segments.reduce((sum, index) => sum + map.segments[index]!.size, 0);
}
