// What is being looked at: one state for all views, kept in the address so that it can be shared.

import type { DeviceMeta, Meta, Source } from "./data";

export const VIEWS = ["timeline", "flame", "segments", "allocations", "summary", "compare"] as const;
export type ViewName = (typeof VIEWS)[number];
export type Axis = "event" | "time";

/** Changes all views may care about. */
export type Change = "device" | "view" | "range" | "cursor" | "selection" | "grouping" | "search" | "theme" | "compare";

export class State {
  file = 0;
  device = 0;
  view: ViewName = "timeline";
  axis: Axis = "time";
  /** The part of the run in sight, as shares of the whole along the axis. */
  from = 0;
  to = 1;
  /** A position: 0 before the first event, p after event p - 1. */
  cursor = 0;
  /** A row of the allocations. */
  selected: number | null = null;
  by = "line";
  flameBy = "stack";
  search = "";
  highlighted: number | null = null;
  /** The other side of a comparison: file, device, position; null: as the view chooses. */
  other: { file: number; device: number; position: number } | null = null;

  private readonly listeners: ((change: Change) => void)[] = [];
  private isWriting = false;

  constructor(readonly source: Source, readonly meta: Meta) {
    this.read(location.hash);
    window.addEventListener("hashchange", () => {
      if (this.isWriting || location.hash === this.written) return;
      this.read(location.hash);
      for (const change of ["device", "view", "range", "cursor", "selection"] as const) this.tell(change);
    });
  }

  get current(): DeviceMeta {
    return this.meta.files[this.file]!.devices[this.device]!;
  }
  get hasTime(): boolean {
    return this.current.duration_ns !== null;
  }
  /** "file=0&device=0", as every question begins. */
  get named(): string {
    return `file=${this.file}&device=${this.device}`;
  }
  get positions(): number {
    return this.current.events + 1;
  }
  get deepestLevel(): number {
    return Math.min(this.current.deepest_level, this.source.embedded?.deepest_level ?? 99);
  }
  /** The grouping by which the server knows groups: single allocations are drawn over another. */
  get knownBy(): string {
    return this.by === "allocation" ? this.current.group_bys[0]! : this.by;
  }

  listen(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }
  private tell(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  set(values: Partial<Pick<State, "view" | "by" | "flameBy" | "selected" | "search" | "highlighted" | "axis" | "other">>, change: Change): void {
    Object.assign(this, values);
    this.write();
    this.tell(change);
  }

  setDevice(file: number, device: number): void {
    [this.file, this.device] = [file, device];
    this.startDevice();
    this.write();
    this.tell("device");
  }

  setRange(from: number, to: number): void {
    const least = this.axis === "event" ? Math.min(1, 4 / this.positions) : 1e-9;
    const width = Math.min(1, Math.max(least, to - from));
    const start = Math.min(Math.max(0, from), 1 - width);
    if (start === this.from && start + width === this.to) return;
    [this.from, this.to] = [start, start + width];
    this.write();
    this.tell("range");
  }

  /** The whole run on the other axis: a stretch of one is no stretch of the other. */
  switchAxis(): void {
    if (!this.hasTime) return;
    this.axis = this.axis === "time" ? "event" : "time";
    [this.from, this.to] = [0, 1];
    this.write();
    this.tell("range");
  }

  setCursor(position: number): void {
    const wanted = Math.round(Math.min(Math.max(0, position), this.current.events));
    const known = this.source.nearestMoment(this.file, this.device, wanted);
    if (known === this.cursor) return;
    this.cursor = known;
    this.write();
    this.tell("cursor");
  }

  private startDevice(): void {
    this.axis = this.hasTime && this.axis === "time" ? "time" : this.hasTime ? this.axis : "event";
    [this.from, this.to] = [0, 1];
    this.cursor = this.source.nearestMoment(this.file, this.device, this.current.peak_position);
    this.selected = null;
    this.highlighted = null;
    if (this.by !== "allocation" && !this.current.group_bys.includes(this.by)) this.by = this.current.group_bys[0]!;
  }

  private written = "";

  private read(hash: string): void {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const number = (name: string): number | null => {
      const value = Number(given.get(name) ?? NaN);
      return Number.isFinite(value) ? value : null;
    };
    const file = number("file") ?? 0;
    const device = number("device") ?? 0;
    const isThere = this.meta.files[file]?.devices[device] !== undefined;
    const first = this.meta.files.findIndex((any) => any.devices.length > 0);
    [this.file, this.device] = isThere ? [file, device] : [first, 0];
    if (given.get("axis") === "event") this.axis = "event";
    this.by = given.get("by") ?? this.current.group_bys[0]!;
    this.startDevice();
    const view = VIEWS.find((name) => name === given.get("view"));
    if (view !== undefined) this.view = view;
    const [from, to] = [number("from"), number("to")];
    if (from !== null && to !== null && from >= 0 && to <= 1 && from < to) [this.from, this.to] = [from, to];
    const at = number("at");
    if (at !== null) this.cursor = this.source.nearestMoment(this.file, this.device, Math.min(Math.max(0, Math.round(at)), this.current.events));
    const row = number("allocation");
    if (row !== null && row >= 0 && row < this.current.allocations) this.selected = row;
    this.search = given.get("search") ?? "";
    if (given.get("flame") === "module") this.flameBy = "module";
  }

  private pending = 0;

  private write(): void {
    const words = new URLSearchParams({ view: this.view });
    if (this.file > 0) words.set("file", String(this.file));
    if (this.device > 0) words.set("device", String(this.device));
    if (this.axis === "event") words.set("axis", "event");
    if (this.by !== this.current.group_bys[0]) words.set("by", this.by);
    if (this.flameBy !== "stack") words.set("flame", this.flameBy);
    if (this.from > 0 || this.to < 1) {
      words.set("from", this.from.toPrecision(9));
      words.set("to", this.to.toPrecision(9));
    }
    words.set("at", String(this.cursor));
    if (this.selected !== null) words.set("allocation", String(this.selected));
    if (this.search !== "") words.set("search", this.search);
    this.written = `#${words.toString()}`;
    // Browsers refuse a flood of changes to the address, as a wheel makes it.
    if (this.pending !== 0) return;
    this.pending = window.setTimeout(() => {
      this.pending = 0;
      this.isWriting = true;
      history.replaceState(null, "", this.written);
      this.isWriting = false;
    }, 120);
  }
}
