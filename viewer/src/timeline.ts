// The timeline: live memory over time or events as a stack of bands, with everything that explains
// it drawn on it. In the other views it stays on top, small, to move the cursor and the range.

import type { Allocations, Groups, Marks, Moment } from "./data";
import { Surface } from "./dom";
import * as format from "./format";
import { chosenTheme, groupColor, hashed, type Theme } from "./palette";
import { sourceLabel } from "./panel";
import type { State } from "./state";
import { Tiles, type Column } from "./tiles";
import { drawAxes } from "./timeline_axes";
import { drawBands, type Band } from "./timeline_bands";
import { drawBounds, drawLanes, drawOoms, lanesOf, spanLines } from "./timeline_marks";
import { Plot } from "./timeline_plot";
import { hideTooltip, showTooltip } from "./tooltip";

const MOST_BANDS = 300;

export class Timeline {
  private readonly surface: Surface;
  private readonly plot: Plot;
  private readonly tiles: Tiles;
  private columns: Column[] = [];
  private bands: Band[] = [];
  private groups: Groups | null = null;
  private marks: Marks | null = null;
  private moment: Moment | null = null;
  private singles: { key: string; rows: Allocations } | null = null;
  private isScheduled = false;
  private drag: { x: number; from: number; to: number; moved: boolean; isRange: boolean } | null = null;
  private rangeEnd: number | null = null;
  private hovered: { x: number; y: number } | null = null;

  /** Set once everything in sight has been drawn from its own level; for measuring. */
  onComplete: (() => void) | null = null;

  constructor(private readonly state: State, parent: HTMLElement, private readonly isSmall: boolean) {
    this.surface = new Surface(parent, "Live memory over time", () => this.schedule());
    this.plot = new Plot(state, this.surface, isSmall);
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
      this.plot.laneCount = this.isSmall ? 0 : lanesOf(marks);
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

  private draw(): void {
    const theme = chosenTheme();
    const context = this.surface.begin();
    if (this.surface.width < 120 || this.surface.height < 30) return;
    this.columns = this.tiles.columns(this.plot.width);
    this.makeBands(theme);
    this.scale();
    drawAxes(context, theme, this.plot);
    context.save();
    context.beginPath();
    context.rect(this.plot.left, 0, this.plot.width, this.plot.base);
    context.clip();
    drawBands(context, theme, this.plot, this.columns, this.bands);
    this.drawReserved(context, theme);
    context.restore();
    if (this.marks !== null) {
      drawBounds(context, theme, this.plot, this.marks);
      drawLanes(context, theme, this.plot, this.marks);
      drawOoms(context, theme, this.plot, this.marks);
    }
    this.drawCursor(context, theme);
    this.drawRangeBeingChosen(context, theme);
    this.surface.canvas.dataset["complete"] = String(this.tiles.isComplete && this.groups !== null);
    this.surface.canvas.dataset["level"] = String(this.tiles.level(this.plot.width));
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
    this.plot.setMostBytes(most * (this.isSmall ? 1.06 : 1.08));
  }

  private drawReserved(context: CanvasRenderingContext2D, theme: Theme): void {
    const step = (values: (column: Column) => number | undefined, style: () => void) => {
      context.beginPath();
      for (const column of this.columns) {
        const value = values(column);
        if (value === undefined) return;
        context.lineTo(this.plot.x(column.from), this.plot.y(value));
        context.lineTo(this.plot.x(column.to), this.plot.y(value));
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

  private drawCursor(context: CanvasRenderingContext2D, theme: Theme): void {
    if (this.moment === null || this.moment.position !== this.state.cursor) return;
    const x = this.plot.x(this.plot.shareOf(this.moment.position, this.moment.time_ns));
    if (x < this.plot.left - 1 || x > this.plot.right + 1) return;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x, this.plot.top - 2);
    context.lineTo(x, this.plot.base);
    context.stroke();
    context.fillStyle = theme.accent;
    context.beginPath();
    context.arc(x, this.plot.y(this.moment.allocated_bytes), 3.5, 0, 7);
    context.fill();
  }

  private drawRangeBeingChosen(context: CanvasRenderingContext2D, theme: Theme): void {
    if (this.drag === null || !this.drag.isRange || this.rangeEnd === null) return;
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.18;
    context.fillRect(Math.min(this.drag.x, this.rangeEnd), this.plot.top, Math.abs(this.rangeEnd - this.drag.x), this.plot.base - this.plot.top);
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
      this.pan((event.deltaX / this.plot.width) * (this.state.to - this.state.from));
      return;
    }
    const at = Math.min(Math.max(this.plot.share(this.surface.at(event).x), 0), 1);
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
    const shift = ((this.drag.x - at.x) / this.plot.width) * (this.drag.to - this.drag.from);
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
      const [a, b] = [this.plot.share(drag.x), this.plot.share(x)];
      this.state.setRange(Math.min(a, b), Math.max(a, b));
    }
    this.schedule();
  }

  private columnAt(x: number): Column | null {
    const share = this.plot.share(x);
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
    const bytes = ((this.plot.base - y) / (this.plot.base - this.plot.top)) * this.plot.mostBytes;
    let sum = 0;
    for (const band of this.bands) {
      sum += band.bytes(column);
      if (bytes <= sum) return bytes < 0 ? null : band;
    }
    return null;
  }

  private click(x: number, y: number): void {
    if (x < this.plot.left) return;
    const column = this.columnAt(x);
    if (column === null) return;
    const band = this.bandAt(column, y);
    this.state.setCursor(column.tile.position[column.bucket]!);
    if (band?.row != null) this.state.set({ selected: band.row }, "selection");
    else if (band?.group != null && !this.isSmall) this.state.set({ highlighted: this.state.highlighted === band.number ? null : band.number }, "grouping");
  }

  private hover(event: MouseEvent): void {
    const { x, y } = this.surface.at(event);
    const column = x < this.plot.left || x > this.plot.right ? null : this.columnAt(x);
    if (column === null) return hideTooltip();
    if (y < this.plot.top - 2) return this.hoverLane(event, x, y);
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
    const lines = this.marks === null ? null : spanLines(this.plot, this.marks, x, y);
    if (lines === null) return hideTooltip();
    showTooltip(event, lines);
  }

  /** What zooming with the keyboard is centred on: the mouse, or the middle. */
  get keyboardCentre(): number {
    return this.hovered === null ? (this.state.from + this.state.to) / 2 : Math.min(Math.max(this.plot.share(this.hovered.x), 0), 1);
  }

  /** The moment `buckets` pixels beside the cursor. */
  stepCursor(buckets: number): void {
    const share = this.moment === null ? 0.5 : this.plot.shareOf(this.moment.position, this.moment.time_ns);
    const column = this.columnAt(this.plot.x(share) + buckets * Math.max(1, this.plot.width / Math.max(1, this.columns.length)));
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

function emptyRows(): Allocations {
  return {
    matches: 0, matching_bytes: 0, row: [], size: [], requested: [], birth: [], death: [], birth_ns: [],
    lifetime: [], source: [], stack: [], forward_stack: [], label: [], labels: [],
  };
}
