// The timeline: live memory over time or events as a stack of bands, with everything that explains
// it drawn on it. In the other views it stays on top, small, to move the cursor and the range.

import type { Allocations, Group, Groups, Marks, Moment } from "./data";
import { Surface, fitted } from "./dom";
import * as format from "./format";
import { chosenTheme, groupColor, groupFill, hashed, inkOn, type Theme } from "./palette";
import { sourceLabel } from "./panel";
import type { State } from "./state";
import { Tiles, type Column } from "./tiles";
import { hideTooltip, showTooltip } from "./tooltip";

const LEFT = 66;
const RIGHT = 12;
const BOTTOM = 24;
const LANE = 16;
const MOST_LANES = 3;
const MOST_BANDS = 300;

interface Band {
  label: string;
  row: number | null;
  color: string;
  group: Group | null;
  number: number;
  bytes(column: Column): number;
}

export class Timeline {
  private readonly surface: Surface;
  private readonly tiles: Tiles;
  private columns: Column[] = [];
  private bands: Band[] = [];
  private groups: Groups | null = null;
  private marks: Marks | null = null;
  private laneCount = 0;
  private moment: Moment | null = null;
  private singles: { key: string; rows: Allocations } | null = null;
  private mostBytes = 1;
  private pixelsPerByte = 1;
  private isScheduled = false;
  private drag: { x: number; from: number; to: number; moved: boolean; isRange: boolean } | null = null;
  private rangeEnd: number | null = null;
  private hovered: { x: number; y: number } | null = null;

  /** Set once everything in sight has been drawn from its own level; for measuring. */
  onComplete: (() => void) | null = null;

  constructor(private readonly state: State, parent: HTMLElement, private readonly isSmall: boolean) {
    this.surface = new Surface(parent, "Live memory over time", () => this.schedule());
    this.tiles = new Tiles(state, () => this.schedule());
    this.listen();
    this.load();
    state.listen((change) => {
      if (change === "device" || change === "grouping") this.load();
      if (change === "cursor") void this.loadMoment();
      this.schedule();
    });
  }

  private load(): void {
    const { source, named, knownBy } = this.state;
    this.groups = null;
    const question = `groups?${named}&by=${knownBy}`;
    void source.ask<Groups>(question).then((groups) => {
      if (question !== `groups?${this.state.named}&by=${this.state.knownBy}`) return;
      this.groups = groups;
      this.schedule();
    });
    void source.ask<Marks>(`marks?${named}`).then((marks) => {
      this.marks = marks;
      const deepest = marks.spans.reduce((most, span) => Math.max(most, span.depth), -1);
      this.laneCount = this.isSmall ? 0 : Math.min(MOST_LANES, deepest + 1);
      this.schedule();
    });
    void this.loadMoment();
  }

  private async loadMoment(): Promise<void> {
    const moment = await this.state.source.ask<Moment>(`moment?${this.state.named}&position=${this.state.cursor}`);
    this.moment = moment;
    this.schedule();
  }

  schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.draw();
    });
  }

  // Where things lie. Shares of the axis ↔ pixels.
  private get plotWidth(): number {
    return Math.max(1, this.surface.width - LEFT - RIGHT);
  }
  private x(share: number): number {
    return LEFT + ((share - this.state.from) / (this.state.to - this.state.from)) * this.plotWidth;
  }
  private share(x: number): number {
    return this.state.from + ((x - LEFT) / this.plotWidth) * (this.state.to - this.state.from);
  }
  private get top(): number {
    return 8 + this.laneCount * LANE + (this.laneCount > 0 ? 4 : 0) + (this.isSmall ? 0 : 10);
  }
  private get base(): number {
    return this.surface.height - (this.isSmall ? 16 : BOTTOM);
  }
  private y(bytes: number): number {
    return this.base - bytes * this.pixelsPerByte;
  }
  /** Of a moment on the axis. */
  private shareOf(position: number, timeNs: number | null): number {
    const { axis, positions, current } = this.state;
    if (axis === "event") return (position + 0.5) / positions;
    const length = current.duration_ns! + 1;
    return (timeNs ?? 0) / length;
  }

  private draw(): void {
    const theme = chosenTheme();
    const context = this.surface.begin();
    if (this.surface.width < 120 || this.surface.height < 30) return;
    this.columns = this.tiles.columns(this.plotWidth);
    this.makeBands(theme);
    this.scale();
    this.drawAxes(context, theme);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, this.plotWidth, this.base);
    context.clip();
    this.drawBands(context, theme);
    this.drawReserved(context, theme);
    context.restore();
    this.drawBounds(context, theme);
    this.drawLanes(context, theme);
    this.drawOoms(context, theme);
    this.drawCursor(context, theme);
    this.drawRangeBeingChosen(context, theme);
    this.surface.canvas.dataset["complete"] = String(this.tiles.isComplete && this.groups !== null);
    this.surface.canvas.dataset["level"] = String(this.tiles.level(this.plotWidth));
    if (this.tiles.isComplete && this.groups !== null && this.marks !== null) this.onComplete?.();
  }

  private makeBands(theme: Theme): void {
    if (this.state.by === "allocation" && !this.isSmall) return this.makeSingleBands(theme);
    const groups = this.groups?.groups ?? [];
    this.bands = groups.map((group, index) => ({
      label: this.state.by === "source" ? sourceLabel(group.label) : group.label,
      row: null,
      color: groupColor(theme, index, group.is_rest),
      group,
      number: index,
      bytes: ({ tile, bucket }) => tile.groups[index]?.[bucket] ?? 0,
    }));
  }

  /** Each of the allocations that take most room in sight, and all others on top of them. */
  private makeSingleBands(theme: Theme): void {
    const first = this.columns[0];
    const last = this.columns[this.columns.length - 1];
    if (first === undefined || last === undefined) return;
    const from = first.tile.position[first.bucket]!;
    const to = last.tile.position[last.bucket]! + 1;
    const question = `bands?${this.state.named}&from=${from}&to=${to}&most=${MOST_BANDS}`;
    if (this.singles?.key !== question && this.tiles.isComplete) {
      const rows = this.singles?.rows;
      this.singles = { key: question, rows: rows ?? emptyRows() };
      void this.state.source.ask<Allocations>(question).then((answer) => {
        if (this.singles?.key !== question) return;
        this.singles.rows = answer;
        this.schedule();
      });
    }
    const rows = this.singles?.rows ?? emptyRows();
    const columns = this.columns;
    const known = new Map(columns.map((column) => [column, 0]));
    this.bands = rows.row.map((row, index) => {
      const [birth, death, size] = [rows.birth[index]!, rows.death[index] ?? Infinity, rows.size[index]!];
      const label = rows.labels[rows.label[index]!]!;
      return {
        label,
        row,
        color: groupColor(theme, hashed(label) % 15, false),
        group: null,
        number: index,
        bytes: ({ tile, bucket }: Column) => {
          const position = tile.position[bucket]!;
          return birth <= position && position < death ? size : 0;
        },
      };
    });
    for (const column of columns) known.set(column, this.bands.reduce((sum, band) => sum + band.bytes(column), 0));
    this.bands.push({
      label: "smaller allocations",
      row: null,
      color: groupColor(theme, 15, true),
      group: null,
      number: 15,
      bytes: (column) => Math.max(0, column.tile.max[column.bucket]! - (known.get(column) ?? 0)),
    });
  }

  private scale(): void {
    let most = 1;
    for (const { tile, bucket } of this.columns) {
      most = Math.max(most, tile.max[bucket]!, tile.reserved[bucket] ?? 0);
    }
    const limit = this.marks?.limit_bytes ?? null;
    if (limit !== null && limit < 1.3 * most) most = Math.max(most, limit);
    this.mostBytes = most * (this.isSmall ? 1.06 : 1.08);
    this.pixelsPerByte = (this.base - this.top) / this.mostBytes;
  }

  private drawBands(context: CanvasRenderingContext2D, theme: Theme): void {
    const columns = this.columns;
    if (columns.length === 0) return;
    const edges = columns.map((column) => [this.x(column.from), this.x(column.to)] as const);
    const base = new Float64Array(columns.length);
    const isSingle = this.state.by === "allocation" && !this.isSmall;
    const labels: (() => void)[] = [];
    this.bands.forEach((band, index) => {
      const top = new Float64Array(columns.length);
      let hasAny = false;
      for (let at = 0; at < columns.length; at++) {
        const bytes = band.bytes(columns[at]!);
        top[at] = base[at]! + bytes;
        if (bytes > 0) hasAny = true;
      }
      if (!hasAny) return;
      const isDim = this.state.highlighted !== null && !isSingle && this.state.highlighted !== index;
      const isChosen = band.row !== null && band.row === this.state.selected;
      context.globalAlpha = isDim ? 0.25 : 1;
      context.fillStyle = isSingle ? band.color : groupFill(context, theme, band.number, band.group?.is_rest ?? false);
      context.beginPath();
      context.moveTo(edges[0]![0], this.y(top[0]!));
      for (let at = 0; at < columns.length; at++) {
        const y = this.y(top[at]!);
        context.lineTo(edges[at]![0], y);
        context.lineTo(edges[at]![1], y);
      }
      for (let at = columns.length - 1; at >= 0; at--) {
        const y = this.y(base[at]!);
        context.lineTo(edges[at]![1], y);
        context.lineTo(edges[at]![0], y);
      }
      context.closePath();
      context.fill();
      // Edges between bands of a few pixels would be all there is to see.
      const isTall = isSingle && top.some((value, at) => (value - base[at]!) * this.pixelsPerByte > 5);
      if (isChosen || isTall) {
        context.strokeStyle = isChosen ? theme.text : theme.surface;
        context.lineWidth = isChosen ? 2 : 0.5;
        context.stroke();
      }
      if (!this.isSmall) labels.push(this.bandLabel(context, band, edges, Float64Array.from(base), top));
      base.set(top);
    });
    context.globalAlpha = 1;
    for (const label of labels) label();
  }

  /** The label goes where the band is highest, if there is room for it. */
  private bandLabel(
    context: CanvasRenderingContext2D,
    band: Band,
    edges: (readonly [number, number])[],
    base: Float64Array,
    top: Float64Array,
  ): () => void {
    const perByte = (this.base - this.top) / this.mostBytes;
    const need = 15 / perByte;
    let best = { from: 0, to: 0, low: 0, high: 0 };
    let run: typeof best | null = null;
    for (let at = 0; at < base.length; at++) {
      const [low, high] = [base[at]!, top[at]!];
      const joined: typeof best | null = run === null
        ? null
        : { from: run.from, to: edges[at]![1], low: Math.max(run.low, low), high: Math.min(run.high, high) };
      if (joined !== null && joined.high - joined.low >= need) run = joined;
      else run = high - low >= need ? { from: edges[at]![0], to: edges[at]![1], low, high } : null;
      if (run !== null && run.to - run.from > best.to - best.from) best = run;
    }
    return () => {
      const isSingle = band.row !== null;
      const from = Math.max(best.from, LEFT);
      const to = Math.min(best.to, LEFT + this.plotWidth);
      context.font = "11px system-ui, sans-serif";
      const prefix = isSingle || band.number === 15 ? "" : `${band.number + 1}  `;
      const text = fitted(context, prefix + format.shortestPlace(band.label), to - from - 12);
      if (text === "" || text.length < 4) return;
      const y = (this.y(best.low) + this.y(best.high)) / 2;
      const width = context.measureText(text).width;
      // A plate below the text keeps it readable over stripes.
      context.fillStyle = band.color;
      context.globalAlpha = 0.85;
      context.fillRect(from + 4, y - 7, width + 6, 14);
      context.globalAlpha = 1;
      context.fillStyle = inkOn(band.color);
      context.textBaseline = "middle";
      context.fillText(text, from + 7, y + 0.5);
    };
  }

  private drawReserved(context: CanvasRenderingContext2D, theme: Theme): void {
    const step = (values: (column: Column) => number | undefined, style: () => void) => {
      context.beginPath();
      for (const column of this.columns) {
        const value = values(column);
        if (value === undefined) return;
        context.lineTo(this.x(column.from), this.y(value));
        context.lineTo(this.x(column.to), this.y(value));
      }
      style();
      context.stroke();
      context.setLineDash([]);
    };
    if (!this.isSmall) {
      step(({ tile, bucket }) => tile.min[bucket], () => {
        context.strokeStyle = theme.isDark ? "rgba(0,0,0,.55)" : "rgba(255,255,255,.75)";
        context.lineWidth = 1;
        context.setLineDash([2, 2]);
      });
    }
    step(({ tile, bucket }) => tile.reserved[bucket], () => {
      context.strokeStyle = theme.reserved;
      context.lineWidth = this.isSmall ? 1 : 1.5;
    });
  }

  private drawAxes(context: CanvasRenderingContext2D, theme: Theme): void {
    context.font = "11px system-ui, sans-serif";
    context.strokeStyle = theme.line;
    context.fillStyle = theme.muted;
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const step = format.byteStep(this.mostBytes, this.isSmall ? 2 : Math.max(2, (this.base - this.top) / 55));
    for (let value = 0; value <= this.mostBytes; value += step) {
      const y = Math.round(this.y(value)) + 0.5;
      context.globalAlpha = value === 0 ? 1 : 0.45;
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(LEFT + this.plotWidth, y);
      context.stroke();
      context.globalAlpha = 1;
      context.fillText(format.byteTick(value), LEFT - 8, y);
    }
    this.drawTicks(context);
    context.textAlign = "left";
  }

  private drawTicks(context: CanvasRenderingContext2D): void {
    const { axis, from, to, positions, current } = this.state;
    const whole = axis === "event" ? positions : current.duration_ns! + 1;
    const span = (to - from) * whole;
    const step = Math.max(format.decimalStep(span, Math.max(2, this.plotWidth / 110)), 1);
    context.textBaseline = "top";
    context.textAlign = "center";
    for (let tick = Math.ceil((from * whole) / step) * step; tick <= to * whole; tick += step) {
      const x = Math.round(this.x(tick / whole)) + 0.5;
      context.beginPath();
      context.moveTo(x, this.base);
      context.lineTo(x, this.base + 4);
      context.stroke();
      const text = axis === "event" ? format.count(Math.round(tick)) : timeTick(tick, step);
      const half = context.measureText(text).width / 2;
      if (x - half < 4 || x + half > this.surface.width - 2) continue;
      context.fillText(text, x, this.base + (this.isSmall ? 3 : 7));
    }
  }

  /** The limit and the card: lines with their names. */
  private drawBounds(context: CanvasRenderingContext2D, theme: Theme): void {
    if (this.marks === null || this.isSmall) return;
    const { limit_bytes: limit, card_bytes: card, is_limit_inferred: isInferred } = this.marks;
    const bounds: [number | null, string, number[]][] = [
      [limit, `limit ${limit === null ? "" : format.bytes(limit)}${isInferred ? " (inferred)" : ""}`, [8, 4]],
      [card, `card ${card === null ? "" : format.bytes(card)}`, [2, 4]],
    ];
    for (const [bytes, label, dash] of bounds) {
      if (bytes === null || bytes > this.mostBytes) continue;
      const y = Math.round(this.y(bytes)) + 0.5;
      context.strokeStyle = theme.danger;
      context.lineWidth = 1.5;
      context.setLineDash(dash);
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(LEFT + this.plotWidth, y);
      context.stroke();
      context.setLineDash([]);
      this.plate(context, theme, label, LEFT + this.plotWidth - 6, y - 9, theme.danger, "right");
    }
  }

  private plate(
    context: CanvasRenderingContext2D,
    theme: Theme,
    text: string,
    x: number,
    y: number,
    color: string,
    align: "left" | "right",
  ): void {
    context.font = "600 11px system-ui, sans-serif";
    const width = context.measureText(text).width;
    const left = align === "left" ? x : x - width;
    context.fillStyle = theme.surface;
    context.globalAlpha = 0.88;
    context.fillRect(left - 4, y - 7, width + 8, 15);
    context.globalAlpha = 1;
    context.fillStyle = color;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, left, y + 0.5);
  }

  /** Steps and annotations above the plot, one lane for each depth. */
  private drawLanes(context: CanvasRenderingContext2D, theme: Theme): void {
    const lanes = this.laneCount;
    if (lanes === 0 || this.marks === null) return;
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    const past = new Float64Array(lanes).fill(-1);
    for (const span of this.marks.spans) {
      const lane = Math.min(span.depth, lanes - 1);
      const x0 = Math.max(LEFT, this.x(this.shareOf(span.from, span.from_ns)));
      const x1 = Math.min(LEFT + this.plotWidth, this.x(this.shareOf(span.to, span.to_ns)));
      // What is narrower than a pixel and touches its neighbour would only be drawn over it.
      if (x1 < LEFT || x0 > LEFT + this.plotWidth || x1 <= past[lane]!) continue;
      const y = 4 + lane * LANE;
      const width = Math.max(1, x1 - x0);
      context.fillStyle = hashed(span.name.replace(/\d+/g, "")) % 2 === 0 ? theme.panel : theme.free;
      context.fillRect(x0, y, width, LANE - 2);
      context.strokeStyle = theme.line;
      context.strokeRect(x0 + 0.5, y + 0.5, Math.max(0, width - 1), LANE - 3);
      context.fillStyle = theme.text;
      context.fillText(fitted(context, span.name, width - 6), x0 + 4, y + LANE / 2 - 1);
      past[lane] = x0 + width;
    }
  }

  private drawOoms(context: CanvasRenderingContext2D, theme: Theme): void {
    let lastLabel = -1e9;
    for (const oom of this.marks?.ooms ?? []) {
      const x = this.x(this.shareOf(oom.position, oom.time_ns));
      if (x < LEFT || x > LEFT + this.plotWidth) continue;
      context.strokeStyle = theme.danger;
      context.lineWidth = 1.5;
      context.setLineDash([4, 3]);
      context.beginPath();
      context.moveTo(x, this.top - 4);
      context.lineTo(x, this.base);
      context.stroke();
      context.setLineDash([]);
      context.fillStyle = theme.danger;
      context.beginPath();
      context.moveTo(x - 5, this.top - 10);
      context.lineTo(x + 5, this.top - 10);
      context.lineTo(x, this.top - 2);
      context.fill();
      if (this.isSmall || x - lastLabel < 150) continue;
      lastLabel = x;
      const text = `out of memory: ${format.bytes(oom.wanted_bytes)} wanted`;
      context.font = "600 11px system-ui, sans-serif";
      const isRight = x + context.measureText(text).width + 16 > LEFT + this.plotWidth;
      this.plate(context, theme, text, isRight ? x - 9 : x + 9, this.top - 5, theme.danger, isRight ? "right" : "left");
    }
  }

  private drawCursor(context: CanvasRenderingContext2D, theme: Theme): void {
    if (this.moment === null || this.moment.position !== this.state.cursor) return;
    const x = this.x(this.shareOf(this.moment.position, this.moment.time_ns));
    if (x < LEFT - 1 || x > LEFT + this.plotWidth + 1) return;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x, this.top - 2);
    context.lineTo(x, this.base);
    context.stroke();
    context.fillStyle = theme.accent;
    context.beginPath();
    context.arc(x, this.y(this.moment.allocated_bytes), 3.5, 0, 7);
    context.fill();
  }

  private drawRangeBeingChosen(context: CanvasRenderingContext2D, theme: Theme): void {
    if (this.drag === null || !this.drag.isRange || this.rangeEnd === null) return;
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.18;
    context.fillRect(Math.min(this.drag.x, this.rangeEnd), this.top, Math.abs(this.rangeEnd - this.drag.x), this.base - this.top);
    context.globalAlpha = 1;
  }

  // What the mouse does.

  private listen(): void {
    const canvas = this.surface.canvas;
    canvas.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.onDown(event));
    canvas.addEventListener("pointermove", (event) => this.onMove(event));
    canvas.addEventListener("pointerup", (event) => this.onUp(event));
    canvas.addEventListener("pointerleave", () => {
      this.hovered = null;
      hideTooltip();
    });
    canvas.addEventListener("dblclick", () => this.state.setRange(0, 1));
  }

  private onWheel(event: WheelEvent): void {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      this.pan((event.deltaX / this.plotWidth) * (this.state.to - this.state.from));
      return;
    }
    const at = Math.min(Math.max(this.share(this.surface.at(event).x), 0), 1);
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
    this.drag = { x, from: this.state.from, to: this.state.to, moved: false, isRange: event.shiftKey };
    this.rangeEnd = null;
  }

  private onMove(event: PointerEvent): void {
    const at = this.surface.at(event);
    this.hovered = at;
    if (this.drag === null) return this.hover(event);
    if (Math.abs(at.x - this.drag.x) > 3) this.drag.moved = true;
    if (!this.drag.moved) return;
    hideTooltip();
    if (this.drag.isRange) {
      this.rangeEnd = at.x;
      this.schedule();
      return;
    }
    const shift = ((this.drag.x - at.x) / this.plotWidth) * (this.drag.to - this.drag.from);
    const bounded = Math.min(Math.max(shift, -this.drag.from), 1 - this.drag.to);
    this.state.setRange(this.drag.from + bounded, this.drag.to + bounded);
  }

  private onUp(event: PointerEvent): void {
    const drag = this.drag;
    const { x, y } = this.surface.at(event);
    this.drag = null;
    this.rangeEnd = null;
    if (drag === null) return;
    if (!drag.moved) return this.click(x, y);
    if (drag.isRange) {
      const [a, b] = [this.share(drag.x), this.share(x)];
      this.state.setRange(Math.min(a, b), Math.max(a, b));
    }
    this.schedule();
  }

  private columnAt(x: number): Column | null {
    const share = this.share(x);
    let low = 0;
    let high = this.columns.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.columns[middle]!.to <= share) low = middle + 1;
      else high = middle;
    }
    return this.columns[low] ?? null;
  }

  private bandAt(column: Column, y: number): Band | null {
    const bytes = ((this.base - y) / (this.base - this.top)) * this.mostBytes;
    let sum = 0;
    for (const band of this.bands) {
      sum += band.bytes(column);
      if (bytes <= sum) return bytes < 0 ? null : band;
    }
    return null;
  }

  private click(x: number, y: number): void {
    if (x < LEFT) return;
    const column = this.columnAt(x);
    if (column === null) return;
    const band = this.bandAt(column, y);
    this.state.setCursor(column.tile.position[column.bucket]!);
    if (band?.row != null) this.state.set({ selected: band.row }, "selection");
    else if (band?.group != null && !this.isSmall) this.state.set({ highlighted: this.state.highlighted === band.number ? null : band.number }, "grouping");
  }

  private hover(event: MouseEvent): void {
    const { x, y } = this.surface.at(event);
    const column = x < LEFT || x > LEFT + this.plotWidth ? null : this.columnAt(x);
    if (column === null) return hideTooltip();
    if (y < this.top - 2) return this.hoverLane(event, x, y);
    const position = column.tile.position[column.bucket]!;
    const lines: string[] = [];
    const band = this.bandAt(column, y);
    if (band !== null) {
      lines.push(band.label);
      lines.push(`${format.bytes(band.bytes(column))} of ${format.bytes(column.tile.max[column.bucket]!)} allocated`);
    } else {
      lines.push(`${format.bytes(column.tile.max[column.bucket]!)} allocated`);
    }
    const reserved = column.tile.reserved[column.bucket];
    if (reserved !== undefined) lines.push(`${format.bytes(reserved)} reserved`);
    const low = column.tile.min[column.bucket]!;
    if (low !== column.tile.max[column.bucket]!) lines.push(`between ${format.bytes(low)} and ${format.bytes(column.tile.max[column.bucket]!)} in this pixel`);
    lines.push(this.placeOf(column, position));
    showTooltip(event, lines);
  }

  private placeOf(column: Column, position: number): string {
    const event = position === 0 ? "before the first event" : `event ${format.count(position - 1)}`;
    if (this.state.axis === "event") return event;
    const length = this.state.current.duration_ns! + 1;
    return `${format.duration(column.from * length)} in, ${event}`;
  }

  private hoverLane(event: MouseEvent, x: number, y: number): void {
    const lane = Math.floor((y - 4) / LANE);
    const under = (this.marks?.spans ?? []).filter((span) => {
      const [x0, x1] = [this.x(this.shareOf(span.from, span.from_ns)), this.x(this.shareOf(span.to, span.to_ns))];
      return Math.min(span.depth, this.laneCount - 1) === lane && x0 - 1 <= x && x <= x1 + 1;
    });
    const span = under[under.length - 1];
    if (span === undefined) return hideTooltip();
    const lines = [span.name, `events ${format.count(span.from)} to ${format.count(span.to)}`];
    if (span.from_ns !== null && span.to_ns !== null) lines.push(format.duration(span.to_ns - span.from_ns));
    showTooltip(event, lines);
  }

  /** What zooming with the keyboard is centred on: the mouse, or the middle. */
  get keyboardCentre(): number {
    return this.hovered === null ? (this.state.from + this.state.to) / 2 : Math.min(Math.max(this.share(this.hovered.x), 0), 1);
  }

  /** The moment `buckets` pixels beside the cursor. */
  stepCursor(buckets: number): void {
    const share = this.moment === null ? 0.5 : this.shareOf(this.moment.position, this.moment.time_ns);
    const column = this.columnAt(this.x(share) + buckets * Math.max(1, this.plotWidth / Math.max(1, this.columns.length)));
    const position = column?.tile.position[column.bucket];
    if (position === undefined || position === this.state.cursor) this.state.setCursor(this.state.cursor + Math.sign(buckets));
    else this.state.setCursor(position);
  }

  /** Positions in sight, for views that show what lives there. */
  get positionsInSight(): [number, number] {
    const first = this.columns[0];
    const last = this.columns[this.columns.length - 1];
    if (first === undefined || last === undefined) return [0, this.state.positions];
    return [first.tile.position[first.bucket]!, last.tile.position[last.bucket]! + 1];
  }
}

function timeTick(ns: number, step: number): string {
  const [scale, unit] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${format.count(Math.round(ns / scale))} ${unit}`;
}

function emptyRows(): Allocations {
  return {
    matches: 0, matching_bytes: 0, row: [], size: [], requested: [], birth: [], death: [], birth_ns: [],
    lifetime: [], source: [], stack: [], forward_stack: [], label: [], labels: [],
  };
}
