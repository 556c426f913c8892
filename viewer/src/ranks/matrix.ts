// The figures of the heat map: of each rank and column, in bytes; NaN is what is not known.

import type { Job, MetricName } from "./report";

/** What can be shown: a figure of the summaries, or how far the peak is from the median of the rank's group. */
export type Shown = MetricName | "imbalance";

export const METRICS: MetricName[] = ["peak", "floor", "reserved", "outside"];

export class Matrix {
  readonly columns: number;
  readonly ranks: number;
  private readonly values = new Map<Shown, Float64Array>();
  private readonly largest = new Map<Shown, number>();

  constructor(private readonly job: Job) {
    this.columns = job.cells.first_steps.length;
    this.ranks = job.ranks.rank.length;
    for (const name of METRICS) this.values.set(name, this.unpack(name));
  }

  /** Whether any figure of this kind is known. */
  has(shown: Shown): boolean {
    return this.of(shown).some((value) => !Number.isNaN(value));
  }

  at(shown: Shown, place: number, column: number): number {
    return this.of(shown)[place * this.columns + column]!;
  }

  /** The largest of some ranks in some columns; NaN if none is known. */
  most(shown: Shown, places: ArrayLike<number>, from: number, to: number): number {
    const values = this.of(shown);
    let most = NaN;
    for (let row = 0; row < places.length; row++) {
      const start = places[row]! * this.columns;
      for (let column = from; column < to; column++) {
        const value = values[start + column]!;
        if (!(value <= most) && !Number.isNaN(value)) most = value;
      }
    }
    return most;
  }

  /** The largest absolute figure of all: the end of a scale that has no card. */
  largestOf(shown: Shown): number {
    let largest = this.largest.get(shown);
    if (largest === undefined) {
      largest = 0;
      for (const value of this.of(shown)) if (Math.abs(value) > largest) largest = Math.abs(value);
      this.largest.set(shown, largest);
    }
    return largest;
  }

  of(shown: Shown): Float64Array {
    let values = this.values.get(shown);
    if (values === undefined) {
      values = this.imbalance();
      this.values.set(shown, values);
    }
    return values;
  }

  private unpack(name: MetricName): Float64Array {
    const { rows, unit_bytes } = this.job.cells;
    const values = new Float64Array(this.ranks * this.columns).fill(NaN);
    rows[name].forEach((row, place) => {
      let now = 0;
      row.forEach((difference, column) => {
        if (difference === null) return;
        now += difference;
        values[place * this.columns + column] = now * unit_bytes;
      });
    });
    return values;
  }

  private imbalance(): Float64Array {
    const peaks = this.of("peak");
    const values = new Float64Array(peaks.length).fill(NaN);
    const members: number[][] = this.job.groups.map(() => []);
    this.job.ranks.group.forEach((group, place) => members[group]!.push(place));
    for (const places of members) {
      if (places.length < 2) continue;
      for (let column = 0; column < this.columns; column++) {
        const known = places.map((place) => peaks[place * this.columns + column]!).filter((value) => !Number.isNaN(value));
        if (known.length < 2) continue;
        const middle = median(known);
        for (const place of places) values[place * this.columns + column] = peaks[place * this.columns + column]! - middle;
      }
    }
    return values;
  }
}

/** As the report takes it: of an even number, the mean of the two in the middle. */
export function median(values: number[]): number {
  const ordered = Float64Array.from(values).sort();
  const middle = ordered.length >> 1;
  return ordered.length % 2 === 1 ? ordered[middle]! : (ordered[middle - 1]! + ordered[middle]!) / 2;
}
