// The timeline: live memory over time or events as a stack of bands, with everything that explains
// it drawn on top. In the other views it stays at the top, small, to move the cursor and the range.

import type { Groups, Moment, TimelineOverlays } from "../data/answers";
import { Surface } from "../ui/dom";
import * as format from "../ui/format";
import { chosenTheme, groupColor, type Theme } from "../ui/palette";
import { sourceLabel } from "../page/panel";
import type { State } from "../page/state";
import { Tiles } from "./tiles";
import { drawAxes } from "./axes";
import { drawBands, type Band } from "./bands";
import { columnsOf, type Column } from "./columns";
import { TimelineInput } from "./input";
import { drawBounds, drawOoms, oomAt, oomLines } from "./overlays";
import { drawGhosts, ghostBytes } from "./ghost";
import type { TimelineLayer } from "./layer";
import { Plot } from "./plot";
import { SingleHover } from "./single_hover";
import { type SingleBand, Singles } from "./singles";
import { drawSingles } from "./singles_drawing";
import { SpanLanes } from "./spans";
import { hideTooltip, showTooltip } from "../ui/tooltip";

export class Timeline {
  private readonly surface: Surface;
  private readonly plot: Plot;
  private readonly tiles: Tiles;
  private readonly lanes: SpanLanes;
  private readonly input: TimelineInput;
  readonly singles: Singles;
  private readonly singleHover: SingleHover;
  private columns: Column[] = [];
  private bands: Band[] = [];
  private groups: Groups | null = null;
  private overlays: TimelineOverlays | null = null;
  private moment: Moment | null = null;
  private isScheduled = false;

  /** What others draw over the bands. */
  readonly layers: TimelineLayer[] = [];
  /** Called once everything visible has been drawn from its own level; for measuring. */
  onComplete: (() => void) | null = null;
  /** Called when the drawn single allocations changed. */
  onSingles: (() => void) | null = null;

  constructor(private readonly state: State, parent: HTMLElement, private readonly isSmall: boolean) {
    this.surface = new Surface(parent, isSmall ? "Live memory over time, small" : "Live memory over time; arrow keys move the cursor, W and S zoom", () => this.schedule(), () => this.draw());
    this.plot = new Plot(state, this.surface, isSmall);
    this.tiles = new Tiles(state, () => this.schedule());
    this.lanes = new SpanLanes(this.plot, () => this.schedule());
    this.singles = new Singles(state, () => this.schedule());
    this.singleHover = new SingleHover(state);
    this.input = new TimelineInput(state, this.surface, this.plot, {
      hover: (event) => this.hover(event),
      click: (x, y) => this.click(x, y),
      pick: (first, last) => this.pick(first, last),
      schedule: () => this.schedule(),
    });
    this.load();
    state.listen((change) => {
      if (change === "device") [this.groups, this.overlays, this.columns] = [null, null, []];
      if (change === "grown") {
        this.tiles.clear();
        this.lanes.clear();
      }
      if (change === "device" || change === "grouping" || change === "grown") this.load();
      if (change === "cursor") void this.loadMoment();
      this.schedule();
    });
  }

  private load(): void {
    const { source, deviceName, deviceKey, knownBy } = this.state;
    if (this.groups?.by !== knownBy) this.surface.canvas.parentElement!.dataset["busy"] = "Grouping…";
    const isWanted = () => deviceKey === this.state.deviceKey && knownBy === this.state.knownBy;
    void source.ask("groups", { ...deviceName, by: knownBy }).then(
      (groups) => {
        if (!isWanted()) return;
        delete this.surface.canvas.parentElement!.dataset["busy"];
        this.groups = groups;
        this.schedule();
      },
      () => isWanted() && delete this.surface.canvas.parentElement!.dataset["busy"],
    );
    void source.ask("overlays", deviceName).then(
      (overlays) => {
        if (deviceKey !== this.state.deviceKey) return;
        this.overlays = overlays;
        this.plot.laneCount = this.isSmall ? 0 : overlays.lanes;
        this.schedule();
      },
      () => undefined,
    );
    void this.loadMoment();
  }

  private async loadMoment(): Promise<void> {
    this.moment = await this.state.source.ask("moment", { ...this.state.deviceName, position: this.state.cursor }).catch(() => null);
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

  private get isByAllocation(): boolean {
    return this.state.by === "allocation" && !this.isSmall;
  }

  private draw(): void {
    const theme = chosenTheme();
    const context = this.surface.begin();
    if (this.surface.width < 120 || this.surface.height < 30) return;
    const buckets = this.tiles.buckets(this.plot.width);
    // What was drawn stays until both the groups and the tiles of a new grouping are loaded.
    const isGrouped = this.groups === null || this.groups.by === this.state.knownBy;
    if (isGrouped && (buckets.length > 0 || this.tiles.isComplete)) this.columns = columnsOf(buckets, this.plot);
    this.scale();
    drawAxes(context, theme, this.plot);
    context.save();
    context.beginPath();
    context.rect(this.plot.left, 0, this.plot.width, this.plot.base);
    context.clip();
    if (this.isByAllocation) {
      this.singles.update(this.columns, this.plot, theme, isGrouped ? this.groups : null, this.tiles.isComplete);
      drawSingles(context, theme, this.plot, this.columns, this.singles);
      this.onSingles?.();
    } else {
      this.makeBands(theme);
      drawBands(context, theme, this.plot, this.columns, this.bands);
    }
    this.drawReserved(context, theme);
    if (this.overlays !== null) drawGhosts(context, theme, this.plot, this.overlays);
    context.restore();
    for (const layer of this.layers) layer.draw(context, theme, this.plot);
    if (this.overlays !== null) {
      drawBounds(context, theme, this.plot, this.overlays);
      this.lanes.draw(context, theme);
      drawOoms(context, theme, this.plot, this.overlays);
    }
    this.drawPicked(context, theme);
    this.drawCursor(context, theme);
    this.drawRangeBeingChosen(context, theme);
    this.writeDataset();
  }

  private writeDataset(): void {
    const data = this.surface.canvas.dataset;
    const isComplete = this.tiles.isComplete && this.groups?.by === this.state.knownBy && (this.isSmall || (this.overlays !== null && this.lanes.isComplete)) && (!this.isByAllocation || this.singles.isComplete);
    data["complete"] = String(isComplete);
    data["level"] = String(this.tiles.level(this.plot.width));
    const { boxes, merged, spans } = this.lanes.counts;
    Object.assign(data, { boxes, merged, spans, events: this.state.current.events, bands: this.isByAllocation ? this.singles.bands.length : this.bands.length, matches: this.isByAllocation ? this.singles.matches ?? "" : "" });
    if (isComplete) this.onComplete?.();
  }

  private makeBands(theme: Theme): void {
    const groups = this.groups?.groups ?? [];
    this.bands = groups.map((group, index) => ({
      label: this.groups!.by === "source" ? sourceLabel(group.label) : group.label,
      color: groupColor(theme, index, group.is_rest),
      group,
      number: index,
      bytes: ({ tile, bucket }) => tile.groups[index]?.[bucket] ?? 0,
    }));
  }

  private scale(): void {
    let most = 1;
    for (const column of this.columns) most = Math.max(most, column.max, column.reserved ?? 0);
    if (!this.isSmall) most = Math.max(most, ghostBytes(this.overlays, most));
    for (const layer of this.layers) most = Math.max(most, layer.mostBytes());
    const limit = this.overlays?.limit_bytes ?? null;
    if (limit !== null && limit < 1.3 * most) most = Math.max(most, limit);
    this.plot.setMostBytes(most * (this.isSmall ? 1.06 : 1.08));
  }

  private drawReserved(context: CanvasRenderingContext2D, theme: Theme): void {
    context.beginPath();
    for (const { from, to, reserved } of this.columns) {
      if (reserved === undefined) return;
      context.lineTo(this.plot.x(from), this.plot.y(reserved));
      context.lineTo(this.plot.x(to), this.plot.y(reserved));
    }
    context.strokeStyle = theme.reserved;
    context.lineWidth = this.isSmall ? 1 : 1.5;
    context.stroke();
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

  /** The selected range, and what is outside it paler. */
  private drawPicked(context: CanvasRenderingContext2D, theme: Theme): void {
    const { picked } = this.state;
    if (picked === null || this.columns.length === 0) return;
    const [left, right] = [this.xOf(picked.from), this.xOf(picked.to)];
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.16;
    context.fillRect(left, this.plot.top, Math.max(1, right - left), this.plot.base - this.plot.top);
    context.globalAlpha = 1;
    for (const x of [left, right]) context.fillRect(x - 0.5, this.plot.top - 2, 1.5, this.plot.base - this.plot.top + 2);
  }

  /** Where a moment is drawn; at an edge if it is not visible. */
  private xOf(position: number): number {
    if (this.state.axis === "event") return Math.min(Math.max(this.plot.left, this.plot.x((position + 0.5) / this.state.positions)), this.plot.right);
    const column = this.columns.find((one) => one.position >= position);
    if (column === undefined) return this.plot.right;
    return Math.min(Math.max(this.plot.left, this.plot.x((column.from + column.to) / 2)), this.plot.right);
  }

  /** Selects from the moment drawn at one place to that drawn at another. */
  private pick(firstX: number, lastX: number): void {
    const bounded = (x: number) => Math.min(Math.max(x, this.plot.left), this.plot.right - 0.01);
    const [first, last] = [this.columnAt(bounded(firstX)), this.columnAt(bounded(lastX))];
    if (first === null || last === null) return;
    const isWhole = (x: number, edge: number) => Math.abs(x - edge) < 2;
    const { state } = this;
    const from = isWhole(bounded(firstX), this.plot.left) && state.from === 0 ? 0 : first.position;
    const to = isWhole(bounded(lastX), this.plot.right) && state.to === 1 ? state.current.events : last.position;
    const [low, high] = [from, to].map((position) => state.source.nearestMoment(state.file, state.device, position)) as [number, number];
    if (low < high) state.set({ picked: { from: low, to: high } }, "picked");
  }

  private drawRangeBeingChosen(context: CanvasRenderingContext2D, theme: Theme): void {
    const chosen = this.input.chosen;
    if (chosen === null) return;
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.18;
    context.fillRect(chosen[0], this.plot.top, chosen[1] - chosen[0], this.plot.base - this.plot.top);
    context.globalAlpha = 1;
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

  private bytesAt(y: number): number {
    return ((this.plot.base - y) / (this.plot.base - this.plot.top)) * this.plot.mostBytes;
  }

  private bandAt(column: Column, y: number): Band | null {
    const bytes = this.bytesAt(y);
    let sum = 0;
    for (const band of this.bands) {
      sum += band.bytes(column);
      if (bytes <= sum) return bytes < 0 ? null : band;
    }
    return null;
  }

  private singleAt(column: Column, y: number): SingleBand | null {
    const at = this.columns.indexOf(column);
    const bytes = this.bytesAt(y);
    let sum = 0;
    for (const band of this.singles.bands) {
      if (at < band.first || at >= band.past) continue;
      sum += band.size;
      if (bytes <= sum) return bytes < 0 ? null : band;
    }
    return null;
  }

  /** What is combined, at a point above the single bands. */
  private restAt(column: Column, y: number): Pick<Band, "label" | "bytes"> | null {
    const at = this.columns.indexOf(column);
    const bytes = this.bytesAt(y);
    let sum = 0;
    for (const band of this.singles.bands) if (at >= band.first && at < band.past) sum += band.size;
    for (const rest of this.singles.rest) {
      sum += rest.bytes[at]!;
      if (bytes >= 0 && bytes <= sum) {
        const label = this.groups?.by === "source" ? sourceLabel(rest.label) : rest.label;
        return { label: `combined, too small or too short for a band: ${label}`, bytes: () => rest.bytes[at]! };
      }
    }
    return null;
  }

  private click(x: number, y: number): void {
    if (x < this.plot.left) return;
    const oom = this.overlays === null ? null : oomAt(this.plot, this.overlays, x, y);
    if (oom !== null) return this.state.setCursor(oom.position);
    const column = this.columnAt(x);
    if (column === null) return;
    this.state.setCursor(column.position);
    if (this.isByAllocation) {
      const single = this.singleAt(column, y);
      if (single !== null) this.state.set({ selected: single.row }, "selection");
      return;
    }
    const band = this.bandAt(column, y);
    if (band !== null && !this.isSmall) this.state.set({ highlighted: this.state.highlighted === band.number ? null : band.number }, "grouping");
  }

  private hover(event: MouseEvent): void {
    const { x, y } = this.surface.at(event);
    const oom = this.overlays === null ? null : oomAt(this.plot, this.overlays, x, y);
    if (oom !== null) return showTooltip(event, oomLines(oom, this.state.hasTime));
    const column = x < this.plot.left || x > this.plot.right ? null : this.columnAt(x);
    if (column === null) return hideTooltip();
    if (y < this.plot.top - 2) return this.hoverLane(event, x, y);
    if (this.isByAllocation) {
      const single = this.singleAt(column, y);
      if (single !== null) return this.singleHover.show(event, single, column.position);
    }
    const lines: string[] = [];
    const band = this.isByAllocation ? this.restAt(column, y) : this.bandAt(column, y);
    if (band !== null) lines.push(band.label, `${format.bytes(band.bytes(column))} of ${format.bytes(column.max)} allocated`);
    else lines.push(`${format.bytes(column.max)} allocated`);
    if (column.reserved !== undefined) lines.push(`${format.bytes(column.reserved)} reserved`);
    if (column.min !== column.max) lines.push(`${format.byteRange(column.min, column.max)} in this pixel`);
    lines.push(this.placeOf(column));
    showTooltip(event, lines);
  }

  private placeOf({ from, position }: Column): string {
    const event = position === 0 ? "before the first event" : `event ${format.count(position - 1)}`;
    if (this.state.axis === "event") return event;
    const length = this.state.current.duration_ns! + 1;
    return `${format.duration(from * length)}, ${event}`;
  }

  private hoverLane(event: MouseEvent, x: number, y: number): void {
    const lines = this.lanes.linesAt(x, y);
    if (lines === null) return hideTooltip();
    showTooltip(event, lines);
  }

  zoom(factor: number, at?: number): void {
    this.input.zoom(factor, at);
  }
  pan(shift: number): void {
    this.input.pan(shift);
  }
  get keyboardCentre(): number {
    return this.input.keyboardCentre;
  }

  /** Moves to the moment `buckets` pixels from the cursor. */
  stepCursor(buckets: number): void {
    const share = this.moment === null ? 0.5 : this.plot.shareOf(this.moment.position, this.moment.time_ns);
    const step = Math.max(1, this.plot.width / Math.max(1, this.columns.length));
    const way = Math.sign(buckets);
    // Columns next to a peak show the peak too: move to the next one that shows a different moment.
    for (let count = Math.abs(buckets); count <= Math.abs(buckets) + 3; count++) {
      const position = this.columnAt(this.plot.x(share) + way * count * step)?.position;
      if (position !== undefined && Math.sign(position - this.state.cursor) === way) return this.state.setCursor(position);
    }
    this.state.setCursor(this.state.cursor + way);
  }

  /** Converts a fraction of this axis to the other. */
  async onOtherAxis(share: number): Promise<number> {
    const { state } = this;
    if (share <= 0 || share >= 1) return share;
    if (state.axis === "time") {
      const column = this.columns.find(({ to }) => to >= share) ?? this.columns[this.columns.length - 1];
      return column === undefined ? share : (column.position + 0.5) / state.positions;
    }
    const position = Math.min(Math.round(share * state.positions), state.current.events);
    const known = state.source.nearestMoment(state.file, state.device, position);
    const moment = await state.source.ask("moment", { ...state.deviceName, position: known });
    return moment.time_ns === null ? 0 : moment.time_ns / (state.current.duration_ns! + 1);
  }

  /** The moments drawn at some places, equally far apart, of what is visible. */
  positionsAt(places: number): number[] {
    const positions = Array.from({ length: places }, (_, place) => this.columnAt(this.plot.left + ((place + 0.5) / places) * this.plot.width)?.position);
    return positions.filter((position) => position !== undefined);
  }

  /** Visible positions, for views that show what is live there. */
  get positionsInSight(): [number, number] {
    const first = this.columns[0];
    const last = this.columns[this.columns.length - 1];
    if (first === undefined || last === undefined) return [0, this.state.positions];
    return [first.position, last.position + 1];
  }
}
