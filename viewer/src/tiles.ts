// The timeline's levels of detail: which tiles a stretch of the run needs, and what they hold.

import type { TileAnswer } from "./data";
import type { State } from "./state";

export const TILE_BUCKETS = 512;

export interface Tile {
  min: Float64Array;
  max: Float64Array;
  position: Float64Array;
  /** Empty: the device has no pool. */
  reserved: Float64Array;
  groups: Float64Array[];
}

/** One bucket in sight: a stretch of the axis, and where its values are. */
export interface Column {
  from: number;
  to: number;
  tile: Tile;
  bucket: number;
}

function summed(differences: number[]): Float64Array {
  const values = new Float64Array(differences.length);
  let sum = 0;
  for (let index = 0; index < values.length; index++) values[index] = sum += differences[index]!;
  return values;
}

export class Tiles {
  private readonly loaded = new Map<string, Tile>();
  private readonly asked = new Set<string>();
  isComplete = false;
  private ahead = 0;

  constructor(private readonly state: State, private readonly arrived: () => void) {}

  level(width: number): number {
    const wanted = Math.ceil(Math.log2(width / (TILE_BUCKETS * (this.state.to - this.state.from))));
    return Math.min(Math.max(0, wanted), this.state.deepestLevel);
  }

  private question(level: number, index: number): string {
    const { named, knownBy, axis } = this.state;
    return `tile?${named}&by=${knownBy}&axis=${axis}&level=${level}&index=${index}`;
  }

  private request(level: number, index: number): void {
    const question = this.question(level, index);
    if (this.loaded.has(question) || this.asked.has(question)) return;
    this.asked.add(question);
    this.state.source.ask<TileAnswer>(question).then(
      (answer) => {
        this.asked.delete(question);
        if (this.loaded.size > 300) this.loaded.delete(this.loaded.keys().next().value!);
        this.loaded.set(question, {
          min: summed(answer.min),
          max: summed(answer.max),
          position: summed(answer.position),
          reserved: summed(answer.reserved),
          groups: answer.groups.map(summed),
        });
        this.arrived();
      },
      () => this.asked.delete(question),
    );
  }

  /** The buckets in sight, from coarser tiles where the right ones are still on their way. */
  columns(width: number): Column[] {
    const { from, to } = this.state;
    const level = this.level(width);
    const tiles = 2 ** level;
    const columns: Column[] = [];
    this.isComplete = true;
    const last = Math.min(tiles - 1, Math.ceil(to * tiles) - 1);
    for (let index = Math.floor(from * tiles); index <= last; index++) {
      if (!this.loaded.has(this.question(level, index))) {
        this.isComplete = false;
        this.request(level, index);
      }
      this.addColumns(columns, level, index);
    }
    window.clearTimeout(this.ahead);
    if (this.isComplete) this.ahead = window.setTimeout(() => this.lookAhead(level, Math.floor(from * tiles), last), 150);
    return columns;
  }

  /** Once nothing moves: the neighbours, for the next step to either side, and the whole, for the way back. */
  private lookAhead(level: number, first: number, last: number): void {
    for (const index of [first - 1, last + 1]) {
      if (index >= 0 && index < 2 ** level) this.request(level, index);
    }
    this.request(0, 0);
  }

  private addColumns(columns: Column[], level: number, index: number): void {
    const { from, to } = this.state;
    const [start, end] = [index / 2 ** level, (index + 1) / 2 ** level];
    for (let above = level; above >= 0; above--) {
      const parent = Math.floor(index / 2 ** (level - above));
      const tile = this.loaded.get(this.question(above, parent));
      if (tile === undefined) continue;
      const step = 1 / (TILE_BUCKETS * 2 ** above);
      const origin = parent / 2 ** above;
      const first = Math.max(0, Math.floor((Math.max(start, from) - origin) / step));
      const past = Math.min(TILE_BUCKETS, Math.ceil((Math.min(end, to) - origin) / step));
      for (let bucket = first; bucket < past; bucket++) {
        columns.push({ from: origin + bucket * step, to: origin + (bucket + 1) * step, tile, bucket });
      }
      return;
    }
  }
}
