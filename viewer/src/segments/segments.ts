// The segment map: every segment and block at the cursor, as lines of memory read like text.

import type { GroupBy, Groups, Segments } from "../data/answers";
import { questionText } from "../data/source";
import { Surface, el, fitted, replace, select, wrapped } from "../ui/dom";
import { momentNote } from "../flame/flame";
import * as format from "../ui/format";
import { chosenTheme, groupFill, striped, type Theme } from "../ui/palette";
import { BY_LABELS } from "../page/panel";
import { HEADING, LINE, layOutSegments, type Outline, type Piece, type SegmentLayout } from "./layout";
import { HistoryStrip } from "./history_strip";
import { SettingsList } from "./settings";
import { largestPinned, pinsOf, returnedByEmptyCache } from "./pins";
import type { State } from "../page/state";
import { hideTooltip, showTooltip } from "../ui/tooltip";

const LABEL = "Segments and blocks at the cursor";
const HEADING_FONT = "600 12px system-ui, sans-serif";
const EMPTY: SegmentLayout = { pieces: [], outlines: [], headings: [], height: 0 };

export class SegmentsView {
  readonly element = el("section", { class: "view segments", "aria-label": "Segment map" });
  private readonly bar = el("div", { class: "bar" });
  private readonly pins = el("div", { class: "bar pins", "data-testid": "pins" });
  private readonly scroll = el("div", { class: "scroll" });
  /** As tall as the whole map; the canvas is only as tall as the visible part. */
  private readonly spacer = el("div", { class: "spacer-map" });
  private readonly surface: Surface;
  private map: Segments | null = null;
  private groups: Groups | null = null;
  private layout = EMPTY;
  private question = "";

  private readonly history: HistoryStrip;
  private readonly settings: SettingsList;

  constructor(private readonly state: State, visible: (places: number) => number[]) {
    this.history = new HistoryStrip(state, visible);
    this.settings = new SettingsList(state);
    this.element.append(this.bar, this.pins, this.history.element, this.settings.element, this.scroll);
    this.surface = new Surface(this.scroll, LABEL, () => this.draw());
    this.scroll.append(this.spacer);
    this.scroll.addEventListener("scroll", () => this.draw());
    const canvas = this.surface.canvas;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", hideTooltip);
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.setZoom(state.segmentZoom * Math.exp(-event.deltaY * 0.004));
      },
      { passive: false },
    );
    state.listen((change) => {
      if (state.view !== "segments") return;
      this.history.show();
      this.settings.show();
      if (change === "theme" || change === "selection" || change === "segments") {
        if (this.map !== null) this.drawPins();
        this.draw();
      } else this.load();
    });
  }

  show(): void {
    this.history.show();
    this.settings.show();
    this.load();
  }

  private get by(): GroupBy {
    // For a device that is not whole, a standalone page knows only one grouping.
    const { state } = this;
    return state.source.isWhole(state.file, state.device) ? state.knownBy : state.current.group_bys[0]!;
  }

  private load(): void {
    const { deviceName, cursor, source, file, device } = this.state;
    const by = this.by;
    const asked = { file, device, position: source.nearestState(file, device, cursor), by };
    const question = questionText("segments", asked);
    if (question === this.question) return this.draw();
    this.question = question;
    void Promise.all([source.ask("segments", asked), source.ask("groups", { ...deviceName, by })]).then(([map, groups]) => {
      if (question !== this.question) return;
      [this.map, this.groups] = [map, groups];
      this.drawBar();
      this.drawPins();
      this.draw();
    }, (error: Error) => {
      if (question !== this.question) return;
      // What is drawn is of another moment.
      [this.question, this.map] = ["", null];
      this.pins.hidden = true;
      this.surface.begin(1);
      this.bar.hidden = false;
      replace(this.bar, el("p", { class: "empty", "data-testid": "map-unknown" }, error.message));
    });
  }

  /** What is in the middle stays there. */
  private setZoom(zoom: number): void {
    const middle = this.scroll.scrollTop + this.scroll.clientHeight / 2;
    const share = this.layout.height === 0 ? 0 : middle / this.layout.height;
    this.state.set({ segmentZoom: Math.min(Math.max(zoom, 1), 64) }, "segments");
    this.scroll.scrollTop = share * this.layout.height - this.scroll.clientHeight / 2;
  }

  private drawBar(): void {
    const map = this.map!;
    const { state } = this;
    // CPU memory is in no pool: there is nothing to count.
    this.bar.hidden = !state.current.has_pool;
    const figure = (label: string, value: number, id: string) =>
      el("span", { class: "facts", "data-testid": id, "data-bytes": value }, `${format.bytes(value)} ${label}`);
    replace(
      this.bar,
      state.source.isWhole(state.file, state.device)
        ? select("Colour by", state.current.group_bys.map((by) => ({ value: by, label: `Colour ${BY_LABELS[by].toLowerCase()}` })), this.by, (by) =>
            state.set({ by, highlighted: null }, "grouping"),
          )
        : null,
      figure("reserved", map.reserved_bytes, "map-reserved"),
      figure("allocated", map.allocated_bytes, "map-allocated"),
      map.waiting_bytes > 0 ? figure("freed, still in use by another stream", map.waiting_bytes, "map-waiting") : null,
      figure("free", map.free_bytes, "map-free"),
      el("span", { class: "muted", "data-testid": "map-segments" }, format.counted(map.segments.length, "segment")),
      map.position === state.cursor ? null : el("span", { class: "chip", "data-testid": "map-moment", "data-position": map.position }, momentNote(map.position)),
      el("span", { class: "spacer" }),
      el("span", { class: "key" }, el("i", { class: "swatch free" }), "free"),
      el("span", { class: "key" }, el("i", { class: "swatch pin" }), "pins its segment"),
      el(
        "span",
        { class: "segmented", role: "group", "aria-label": "Zoom" },
        el("button", { type: "button", title: "Zoom out", "aria-label": "Zoom out", onclick: () => this.setZoom(state.segmentZoom / 2) }, "−"),
        el("button", { type: "button", title: "Zoom in", "aria-label": "Zoom in", onclick: () => this.setZoom(state.segmentZoom * 2) }, "+"),
      ),
    );
  }

  /** Which lines keep free memory from being returned. */
  private drawPins(): void {
    const map = this.map!;
    const largest = largestPinned(map);
    this.pins.hidden = map.segments.length === 0;
    const select = (row: number) => this.state.set({ selected: row }, "selection");
    const lines = pinsOf(map);
    const returned = returnedByEmptyCache(map);
    replace(
      this.pins,
      largest === null
        ? el("span", { class: "muted" }, "Nothing pins free memory at this moment.")
        : el(
            "button",
            { type: "button", "data-testid": "largest-free", "data-bytes": largest.free, "data-row": largest.pin!, title: `Segment ${largest.address}: select what pins it`, onclick: () => select(largest.pin!) },
            `Largest free: ${format.bytes(largest.free)} of ${format.bytes(largest.size)}`,
          ),
      largest === null ? null : el("span", { class: "muted" }, "pinned:"),
      ...lines.slice(0, 4).map((pin) =>
        el(
          "button",
          { type: "button", class: "pin-line", title: `${pin.label} pins ${format.counted(pin.segments, "segment")}`, "data-bytes": pin.free, "data-segments": pin.segments, onclick: () => select(pin.row) },
          `${format.bytes(pin.free)} by ${format.shortestPlace(pin.label)}`,
        ),
      ),
      lines.length > 4 ? el("span", { class: "muted" }, `${format.counted(lines.length - 4, "more line")} pin ${format.bytes(lines.slice(4).reduce((sum, { free }) => sum + free, 0))}`) : null,
      el("span", { class: "facts", "data-testid": "empty-cache", "data-bytes": returned, title: "Segments in which nothing is used; parts of expandable segments may be returned too" }, `empty_cache() would return ${format.bytes(returned)}`),
      this.toggle("Over time", "hasSegmentHistory", "Segments over time"),
      this.toggle("Other settings", "hasSettings", "What other settings of the allocator would reserve, simulated"),
    );
  }

  private toggle(text: string, name: "hasSegmentHistory" | "hasSettings", title: string): HTMLElement {
    const { state } = this;
    return el("button", { type: "button", title, "aria-pressed": String(state[name]), onclick: () => state.set({ [name]: !state[name] }, "segments") }, text);
  }

  private draw(): void {
    if (this.map === null || this.groups === null || this.state.view !== "segments") return;
    const theme = chosenTheme();
    const { clientWidth: width, clientHeight: height } = this.scroll;
    if (width < 40) return;
    const context = this.surface.begin(height);
    context.font = HEADING_FONT;
    this.layout = layOutSegments(this.map, width, height, this.state.segmentZoom, (heading) => wrapped(context, heading, width - 2));
    this.spacer.style.height = `${Math.max(0, this.layout.height - height)}px`;
    this.writeDataset();
    const why = this.map.segments.length > 0 ? null : this.state.current.has_pool ? "Nothing is reserved at this moment." : "CPU memory comes straight from the C library: there are no segments.";
    this.surface.canvas.setAttribute("aria-label", why ?? LABEL);
    if (why !== null) {
      context.fillStyle = theme.muted;
      context.font = "13px system-ui, sans-serif";
      wrapped(context, why, width - 32).forEach((line, at) => context.fillText(line, 16, 28 + at * 18));
      return;
    }
    const top = this.scroll.scrollTop;
    const isInSight = ({ y }: { y: number }) => y + HEADING >= top && y <= top + height;
    context.save();
    context.translate(0, -top);
    context.font = HEADING_FONT;
    context.textBaseline = "middle";
    context.fillStyle = theme.muted;
    for (const { text, y } of this.layout.headings.filter(isInSight)) context.fillText(text, 1, y + HEADING / 2);
    const free = striped(context, theme.surface, theme.isDark ? "#3b424e" : "#c9cfd8", 6);
    for (const piece of this.layout.pieces) if (isInSight(piece)) this.drawPiece(context, theme, piece, free);
    context.strokeStyle = theme.muted;
    context.lineWidth = 1;
    for (const outline of this.layout.outlines) if (isInSight(outline)) drawOutline(context, theme, outline);
    context.restore();
  }

  private writeDataset(): void {
    const { outlines } = this.layout;
    Object.assign(this.surface.canvas.dataset, {
      blocks: this.map!.size.length,
      starts: outlines.filter(({ isStart }) => isStart).length,
      ends: outlines.filter(({ isEnd }) => isEnd).length,
      lines: outlines.length,
      zoom: this.state.segmentZoom,
    });
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
    if (row < 0) return this.nameFree(context, theme, piece);
    if (piece.isFirst && row === map.segments[piece.segment]!.pin) drawPin(context, theme, piece);
    if (row === this.state.selected) {
      context.strokeStyle = theme.text;
      context.lineWidth = 2.5;
      context.strokeRect(piece.x, piece.y, Math.max(2, piece.width), LINE);
    }
  }

  private nameFree(context: CanvasRenderingContext2D, theme: Theme, piece: Piece): void {
    if (piece.width < 60) return;
    context.font = "11px system-ui, sans-serif";
    const text = fitted(context, `${format.bytes(this.map!.size[piece.block]!)} free`, piece.width - 14);
    if (text === "") return;
    context.fillStyle = theme.surface;
    context.fillRect(piece.x + 5, piece.y + 3, context.measureText(text).width + 6, LINE - 6);
    context.fillStyle = theme.muted;
    context.fillText(text, piece.x + 8, piece.y + LINE / 2 + 0.5);
  }

  private pieceAt(event: MouseEvent): Piece | null {
    const at = this.surface.at(event);
    const [x, y] = [at.x, at.y + this.scroll.scrollTop];
    let nearest: Piece | null = null;
    for (const piece of this.layout.pieces) {
      if (y < piece.y || y >= piece.y + LINE) continue;
      if (piece.x <= x && x < piece.x + piece.width) return piece;
      // Blocks narrower than a pixel are found by pointing near them.
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
    if (row >= 0) lines.push(`${format.bytes(map.size[piece.block]!)}${map.group[piece.block]! < 0 ? ", freed, still in use by another stream" : ""}`);
    if (row >= 0 && row === segment.pin) lines.push(`oldest block in its segment: it pins ${format.bytes(segment.free)} of free memory`);
    const kind = segment.is_expandable ? "mapped range of an expandable segment" : "segment";
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

/** Closed where the segment begins and ends; open, with an arrow, where it continues on another line. */
function drawOutline(context: CanvasRenderingContext2D, theme: Theme, { x, y, width, isStart, isEnd }: Outline): void {
  const [left, right, top, base] = [x + 0.5, x + Math.max(1, width) - 0.5, y + 0.5, y + LINE - 0.5];
  context.beginPath();
  context.moveTo(right, top);
  context.lineTo(left, top);
  if (isStart) context.lineTo(left, base);
  else context.moveTo(left, base);
  context.lineTo(right, base);
  if (isEnd) context.lineTo(right, top);
  context.stroke();
  context.fillStyle = theme.muted;
  const arrow = (at: number) => {
    context.beginPath();
    context.moveTo(at, y + LINE / 2 - 4);
    context.lineTo(at + 5, y + LINE / 2);
    context.lineTo(at, y + LINE / 2 + 4);
    context.fill();
  };
  if (!isStart) arrow(x - 7);
  if (!isEnd && width > 12) {
    context.fillStyle = theme.surface;
    context.fillRect(right - 8, y + LINE / 2 - 6, 9, 12);
    context.fillStyle = theme.muted;
    arrow(right - 6);
  }
}

/** A small flag on top: recognized by its shape. */
function drawPin(context: CanvasRenderingContext2D, theme: Theme, piece: Piece): void {
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
