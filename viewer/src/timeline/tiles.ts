// The timeline's levels of detail: which tiles a range of the run needs, and what they hold.

import type { TileAnswer } from "../data/answers";
import { summed } from "../data/deltas";
import { TILE_BUCKETS } from "../data/questions";
import { type Answer, type Asked, questionText } from "../data/source";
import type { State } from "../page/state";

export interface Tile {
  min: Float64Array;
  max: Float64Array;
  position: Float64Array;
  /** Empty: the device has no pool. */
  reserved: Float64Array;
  groups: Float64Array[];
}

/** One visible bucket: a range of the axis, and where its values are. */
export interface Bucket {
  from: number;
  to: number;
  tile: Tile;
  bucket: number;
}

/** Tiles of one kind, kept as they arrive; coarser ones stand in for those still loading. */
export class TileStore<Name extends "tile" | "spans", Made> {
  private readonly loaded = new Map<string, Made>();
  private readonly pending = new Set<string>();
  isComplete = false;
  private ahead = 0;
  private epoch = 0;

  constructor(
    private readonly state: State,
    private readonly name: Name,
    private readonly asked: (level: number, index: number) => Asked<Name>,
    private readonly make: (answer: Answer<Name>) => Made,
    private readonly arrived: () => void,
    private readonly deepest: () => number = () => state.deepestLevel,
  ) {}

  level(width: number): number {
    const wanted = Math.ceil(Math.log2(width / (TILE_BUCKETS * (this.state.to - this.state.from))));
    return Math.min(Math.max(0, wanted), this.deepest());
  }

  private question(level: number, index: number): string {
    return questionText(this.name, this.asked(level, index));
  }

  /** The recording has grown, so each tile now stands for another part of it. */
  clear(): void {
    this.loaded.clear();
    this.pending.clear();
    ++this.epoch;
  }

  request(level: number, index: number): void {
    const question = this.question(level, index);
    if (this.loaded.has(question) || this.pending.has(question)) return;
    this.pending.add(question);
    const { epoch } = this;
    this.state.source.ask(this.name, this.asked(level, index)).then(
      (answer) => {
        if (epoch !== this.epoch) return;
        this.pending.delete(question);
        if (this.loaded.size > 300) this.loaded.delete(this.loaded.keys().next().value!);
        this.loaded.set(question, this.make(answer));
        this.arrived();
      },
      () => epoch === this.epoch && this.pending.delete(question),
    );
  }

  /** Calls visit for each visible range, with the finest tile that is loaded and where it begins. */
  visit(width: number, visit: (made: Made, level: number, index: number, from: number, to: number) => void): void {
    const { from, to } = this.state;
    const level = this.level(width);
    const tiles = 2 ** level;
    this.isComplete = true;
    const first = Math.floor(from * tiles);
    const last = Math.min(tiles - 1, Math.ceil(to * tiles) - 1);
    for (let index = first; index <= last; index++) {
      if (!this.loaded.has(this.question(level, index))) {
        this.isComplete = false;
        this.request(level, index);
      }
      for (let above = level; above >= 0; above--) {
        const parent = Math.floor(index / 2 ** (level - above));
        const made = this.loaded.get(this.question(above, parent));
        if (made === undefined) continue;
        visit(made, above, parent, Math.max(from, index / tiles), Math.min(to, (index + 1) / tiles));
        break;
      }
    }
    window.clearTimeout(this.ahead);
    if (this.isComplete) this.ahead = window.setTimeout(() => this.lookAhead(level, first, last), 150);
  }

  /** Once nothing moves: loads the neighbours, for a step to either side, and the whole, for zooming back out. */
  private lookAhead(level: number, first: number, last: number): void {
    for (const index of [first - 1, last + 1]) {
      if (index >= 0 && index < 2 ** level) this.request(level, index);
    }
    this.request(0, 0);
  }
}

export class Tiles extends TileStore<"tile", Tile> {
  constructor(state: State, arrived: () => void) {
    const asked = (level: number, index: number) => ({ ...state.deviceName, by: state.knownBy, axis: state.axis, level, index });
    const make = (answer: TileAnswer): Tile => ({
      min: summed(answer.min),
      max: summed(answer.max),
      position: summed(answer.position),
      reserved: summed(answer.reserved),
      groups: answer.groups.map(summed),
    });
    super(state, "tile", asked, make, arrived);
  }

  /** The visible buckets. */
  buckets(width: number): Bucket[] {
    const buckets: Bucket[] = [];
    this.visit(width, (tile, level, index, from, to) => {
      const step = 1 / (TILE_BUCKETS * 2 ** level);
      const origin = index / 2 ** level;
      const first = Math.max(0, Math.floor((from - origin) / step));
      const past = Math.min(TILE_BUCKETS, Math.ceil((to - origin) / step));
      for (let bucket = first; bucket < past; bucket++) {
        buckets.push({ from: origin + bucket * step, to: origin + (bucket + 1) * step, tile, bucket });
      }
    });
    return buckets;
  }
}
