// What is being looked at: one state for all views, kept in the address so that it can be shared,
// restored after a reload, and returned to.

import { readAddress, writeAddress } from "./address";
import { type Axis, type DeviceMeta, type Direction, type FlameBy, type GroupBy, type Meta, ORDER_VALUES, type Order, type RangePart } from "../data/answers";
import type { Source } from "../data/source";
import * as format from "../ui/format";

export const VIEWS = ["timeline", "flame", "segments", "allocations", "summary", "compare", "steps", "whatif"] as const;
export type ViewName = (typeof VIEWS)[number];
export const SCOPES = ["all", "range", "cursor"] as const;
export type Scope = (typeof SCOPES)[number];
export const ORDERS = ORDER_VALUES;
/** How the timeline is divided: into groups, or into single allocations. */
export type ShownBy = GroupBy | "allocation";
/** What the colours of single allocations say. */
export type ColourBy = GroupBy | "stream" | "age";
/** What the flame graph is of: what is live at the cursor, or a part of what happened in the selected range. */
export type FlameOf = "live" | RangePart;
export const FLAME_SHAPES = ["calls", "inverted", "sandwich"] as const;
export type FlameShape = (typeof FLAME_SHAPES)[number];

/** Two moments, and all that happened between them. */
export interface PickedRange {
  from: number;
  to: number;
}

/** Changes that any view may react to. */
export type Change = "device" | "view" | "range" | "cursor" | "selection" | "grouping" | "search" | "theme" | "compare" | "table" | "flame" | "segments" | "whatif" | "grown" | "picked" | "steps";
const ALL_CHANGES: Change[] = ["device", "view", "range", "cursor", "selection", "grouping", "search", "compare", "table", "flame", "segments", "whatif", "picked", "steps"];

/** One side of a comparison. */
export interface Side {
  file: number;
  device: number;
  position: number;
  /** If it is a range, what was allocated from this moment to that position; otherwise what is live there. */
  from?: number;
}

/** Letters of a search: an address and a question hold no more than some thousands. */
export const MOST_SEARCHED = 500;

/** Everything that views change and the address keeps. */
export interface Shown {
  view: ViewName;
  by: ShownBy;
  flameBy: FlameBy;
  selected: number | null;
  search: string;
  highlighted: number | null;
  scope: Scope;
  order: Order;
  direction: Direction;
  /** The sides and grouping of a comparison; null: as the view chooses. */
  first: Side | null;
  second: Side | null;
  compareBy: GroupBy | null;
  /** The path to the flame graph box that is shown as the whole; null: as the view chooses. */
  focus: string | null;
  segmentZoom: number;
  /** Remedies that are tried together, by name, and the memory they are to fit into. */
  remedies: string[];
  fitBytes: number | null;
  colour: ColourBy;
  picked: PickedRange | null;
  flameOf: FlameOf;
  flameShape: FlameShape;
  /** The call that a sandwich is made around. */
  around: string | null;
  /** Whether a comparison is drawn as a flame graph. */
  isDifferenceFlame: boolean;
  /** What the segments view shows besides: segments over time, and other settings. */
  hasSegmentHistory: boolean;
  hasSettings: boolean;
  /** Rows of the table of steps that show what is in them, by their first step. */
  openSteps: number[];
}

// Changes of these kinds that follow each other this quickly are one step in the browser's history.
const BURST_MS = 700;
const BURSTS: Change[] = ["range", "cursor", "search", "selection", "segments"];
const WRITE_MS = 120;

export class State implements Shown {
  file = 0;
  device = 0;
  view: ViewName = "timeline";
  axis: Axis = "time";
  /** The visible part of the run, as fractions of the whole along the axis. */
  from = 0;
  to = 1;
  /** A position: 0 before the first event, p after event p - 1. */
  cursor = 0;
  /** A row of the allocations table. */
  selected: number | null = null;
  by: ShownBy = "line";
  flameBy: FlameBy = "stack";
  search = "";
  highlighted: number | null = null;
  scope: Scope = "all";
  order: Order = "size";
  direction: Direction = "down";
  first: Side | null = null;
  second: Side | null = null;
  compareBy: GroupBy | null = null;
  focus: string | null = null;
  segmentZoom = 1;
  remedies: string[] = [];
  fitBytes: number | null = null;
  colour: ColourBy = "line";
  picked: PickedRange | null = null;
  flameOf: FlameOf = "live";
  flameShape: FlameShape = "calls";
  around: string | null = null;
  isDifferenceFlame = false;
  hasSegmentHistory = false;
  hasSettings = false;
  openSteps: number[] = [];

  private readonly listeners: ((change: Change) => void)[] = [];

  constructor(readonly source: Source, public meta: Meta, readonly usualAxis: Axis = "time") {
    readAddress(this, location.hash);
    const readAgain = () => {
      if (location.hash === this.written) return;
      this.written = location.hash;
      this.lastChange = null;
      readAddress(this, location.hash);
      for (const change of ALL_CHANGES) this.notify(change);
    };
    window.addEventListener("popstate", readAgain);
    window.addEventListener("hashchange", readAgain);
    this.written = location.hash;
  }

  get current(): DeviceMeta {
    return this.meta.files[this.file]!.devices[this.device]!;
  }
  /** A prediction took time, but the run that it predicts took another one, which is not known. */
  get isPredicted(): boolean {
    return this.meta.files[this.file]!.kind === "predicted";
  }
  get hasTime(): boolean {
    return this.current.duration_ns !== null && !this.isPredicted;
  }
  /** How long an allocation lived: in time where that is known. */
  lifeText({ birth, death, lifetime }: { birth: number; death: number | null; lifetime: number }): string {
    if (this.hasTime) return format.duration(lifetime);
    return format.counted(this.isPredicted ? (death ?? this.current.events) - birth : lifetime, "event");
  }
  /** The start of almost every question. */
  get deviceName(): { file: number; device: number } {
    return { file: this.file, device: this.device };
  }
  /** The same as text, to compare. */
  get deviceKey(): string {
    return `${this.file}/${this.device}`;
  }
  get positions(): number {
    return this.current.events + 1;
  }
  get deepestLevel(): number {
    const { embedded } = this.source;
    const isPart = embedded !== null && !this.source.isWhole(this.file, this.device);
    return Math.min(this.current.deepest_level, isPart ? embedded.deepest_level : 99);
  }
  /** The grouping by which the server knows groups: single allocations are drawn over another one. */
  get knownBy(): GroupBy {
    if (this.by !== "allocation") return this.by;
    return this.current.group_bys.find((by) => by === this.colour) ?? this.current.group_bys[0]!;
  }

  listen(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }
  private notify(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  set(values: Partial<Shown>, change: Change): void {
    Object.assign(this, values);
    this.write(change);
    this.notify(change);
  }

  setDevice(file: number, device: number): void {
    [this.file, this.device] = [file, device];
    this.startDevice();
    this.write("device");
    this.notify("device");
  }

  setRange(from: number, to: number): void {
    const least = this.axis === "event" ? Math.min(1, 4 / this.positions) : 1e-9;
    const width = Math.min(1, Math.max(least, to - from));
    const start = Math.min(Math.max(0, from), 1 - width);
    if (start === this.from && start + width === this.to) return;
    [this.from, this.to] = [start, start + width];
    this.write("range");
    this.notify("range");
  }

  /** The recording has grown: what is visible stays, or is extended if it was everything. */
  grow(meta: Meta): void {
    const [positions, duration] = [this.positions, this.current.duration_ns];
    this.meta = meta;
    this.switched = null;
    if (this.from !== 0 || this.to !== 1) {
      const shrunk = this.axis === "event" ? positions / this.positions : ((duration ?? 0) + 1) / ((this.current.duration_ns ?? 0) + 1);
      [this.from, this.to] = [this.from * shrunk, this.to * shrunk];
      // This is no step of the user's: Back does not return to it.
      const { isPush } = this;
      this.write("range");
      this.isPush = isPush;
    }
    this.notify("grown");
  }

  /** One of the axes, with all of the run. */
  setAxis(axis: Axis): void {
    if (axis === this.axis || (axis === "time" && !this.hasTime)) return;
    this.axis = axis;
    [this.from, this.to] = [0, 1];
    this.switched = null;
    this.write("range");
    this.notify("range");
  }

  /** The other axis, with the same part of the run visible. */
  async switchAxis(): Promise<void> {
    if (!this.hasTime) return;
    const { deviceKey, axis, from, to } = this;
    const isWhole = from === 0 && to === 1;
    const isBack = this.switched?.to === to && this.switched.from === from;
    const [first, last] = isWhole ? [0, 1] : isBack ? this.switched!.before : await Promise.all([this.onOtherAxis(from), this.onOtherAxis(to)]);
    if (deviceKey !== this.deviceKey || axis !== this.axis) return;
    this.axis = axis === "time" ? "event" : "time";
    [this.from, this.to] = last > first ? [Math.max(0, first), Math.min(1, last)] : [0, 1];
    this.switched = { before: [from, to], from: this.from, to: this.to };
    this.write("range");
    this.notify("range");
  }

  /** What was visible before the axis was switched: switching back restores exactly that. */
  private switched: { before: [number, number]; from: number; to: number } | null = null;

  /** Set by the timeline, which knows where things are. */
  onOtherAxis: (share: number) => Promise<number> = async (share) => share;

  setCursor(position: number): void {
    const wanted = Math.round(Math.min(Math.max(0, position), this.current.events));
    const known = this.source.nearestMoment(this.file, this.device, wanted);
    if (known === this.cursor) return;
    this.cursor = known;
    this.write("cursor");
    this.notify("cursor");
  }

  /** How a device is first shown. */
  startDevice(): void {
    if (!this.hasTime) this.axis = "event";
    [this.from, this.to] = [0, 1];
    this.switched = null;
    this.cursor = this.source.nearestMoment(this.file, this.device, this.current.peak_position);
    this.selected = null;
    this.highlighted = null;
    this.focus = null;
    this.picked = null;
    this.openSteps = [];
    this.flameOf = "live";
    if (this.colour !== "age" && this.colour !== "stream" && !this.current.group_bys.includes(this.colour)) this.colour = this.current.group_bys[0]!;
    if (!this.current.flame_bys.includes(this.flameBy)) this.flameBy = "stack";
    if (this.by !== "allocation" && !this.current.group_bys.includes(this.by)) this.by = this.current.group_bys[0]!;
  }

  private written = "";
  private pending = 0;
  private isPush = false;
  private lastChange: { change: Change; at: number } | null = null;

  /** Browsers reject rapid changes to the address, as a wheel causes them, so it is updated with a short delay. */
  private write(change: Change): void {
    if (change === "theme") return;
    const now = performance.now();
    const isBurst = BURSTS.includes(change) && this.lastChange?.change === change && now - this.lastChange.at < BURST_MS;
    if (!isBurst && this.pending !== 0) this.writeNow();
    this.lastChange = { change, at: now };
    this.isPush ||= !isBurst;
    if (this.pending !== 0) return;
    this.pending = window.setTimeout(() => this.writeNow(), WRITE_MS);
  }

  private writeNow(): void {
    window.clearTimeout(this.pending);
    this.pending = 0;
    const next = writeAddress(this);
    const isNew = next !== this.written;
    this.written = next;
    if (isNew && this.isPush) history.pushState(null, "", next);
    else if (isNew) history.replaceState(null, "", next);
    this.isPush = false;
  }
}
