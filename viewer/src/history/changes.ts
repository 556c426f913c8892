// Allocations and frees of a history in order: how many bytes are live at any position, and by group.

import type { HistoryRows } from "./history";

const BLOCK = 64;

export class Changes {
  readonly position: Uint32Array;
  /** row * 2 + (1: death) */
  readonly code: Uint32Array;
  private readonly after: Float64Array;

  constructor(birth: Float64Array, death: Float64Array, size: Float64Array, never: Set<number>, last: number) {
    const forEach = (visit: (position: number, code: number) => void) => {
      for (let row = 0; row < birth.length; row++) {
        if (never.has(row) || birth[row]! > last) continue;
        visit(birth[row]!, row * 2);
        if (death[row]! <= last && death[row]! >= birth[row]!) visit(death[row]!, row * 2 + 1);
      }
    };
    // Counting sort: one pass to count the changes at each position, one to place them.
    const next = new Uint32Array(last + 2);
    forEach((position) => next[position + 1]!++);
    for (let position = 0; position <= last; position++) next[position + 1]! += next[position]!;
    const count = next[last + 1]!;
    this.code = new Uint32Array(count);
    this.position = new Uint32Array(count);
    forEach((position, code) => {
      const index = next[position]!++;
      this.code[index] = code;
      this.position[index] = position;
    });
    this.after = new Float64Array(count);
    let bytes = 0;
    for (let index = 0; index < count; index++) {
      const code = this.code[index]!;
      this.after[index] = bytes += code % 2 === 1 ? -size[code >> 1]! : size[code >> 1]!;
    }
  }

  /** How many changes are at or before a position. */
  countAt(position: number): number {
    let low = 0;
    let high = this.position.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.position[middle]! <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  at(position: number): number {
    const count = this.countAt(position);
    return count === 0 ? 0 : this.after[count - 1]!;
  }

  /** Over [from, to): the minimum, the maximum, and the first position of the maximum. */
  range(from: number, to: number): { min: number; max: number; position: number } {
    let index = this.countAt(from);
    const first = index === 0 ? 0 : this.after[index - 1]!;
    const found = { min: first, max: first, position: from };
    while (index < this.position.length && this.position[index]! < to) {
      const position = this.position[index]!;
      while (index < this.position.length && this.position[index] === position) index++;
      const bytes = this.after[index - 1]!;
      if (bytes < found.min) found.min = bytes;
      if (bytes > found.max) [found.max, found.position] = [bytes, position];
    }
    return found;
  }
}

/** What each group holds at any position: sums before every 64 changes. */
export class GroupSums {
  private readonly before: Float64Array;

  constructor(
    private readonly changes: Changes,
    private readonly rows: HistoryRows,
    private readonly groupOf: Float64Array,
    readonly count: number,
    /** By source, the bytes of blocks beyond what was requested; -1: none. */
    private readonly rounding: number,
  ) {
    const blocks = Math.floor(changes.code.length / BLOCK) + 1;
    this.before = new Float64Array(blocks * count);
    const sums = new Float64Array(count);
    for (let index = 0; index < changes.code.length; index++) {
      if (index % BLOCK === 0) this.before.set(sums, (index / BLOCK) * count);
      this.apply(index, sums);
    }
    if (changes.code.length % BLOCK === 0) this.before.set(sums, (blocks - 1) * count);
  }

  private apply(index: number, sums: Float64Array): void {
    const code = this.changes.code[index]!;
    const row = code >> 1;
    const sign = code % 2 === 1 ? -1 : 1;
    const size = this.rows.size[row]!;
    const own = this.rounding < 0 ? size : Math.min(size, this.rows.requested[row]!);
    sums[this.groupOf[row]!]! += sign * own;
    if (this.rounding >= 0) sums[this.rounding]! += sign * (size - own);
  }

  at(position: number): Float64Array {
    const past = this.changes.countAt(position);
    const block = Math.floor(past / BLOCK);
    const sums = this.before.slice(block * this.count, (block + 1) * this.count);
    for (let index = block * BLOCK; index < past; index++) this.apply(index, sums);
    return sums;
  }
}
