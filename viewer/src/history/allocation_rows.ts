// Allocations in the page itself: searched, sorted and paged as a server would.

import type { Allocation, Allocations, FrameRow, GroupBy, Order, Singles } from "../data/answers";
import { MOST_BANDS } from "../data/questions";
import type { Asked } from "../data/source";
import { isInFrame, isInName, isInSource, isInTag, parseWords, type Word } from "../table/search";

/** One list for each column, all of the same length. */
export interface RowColumns {
  row: ArrayLike<number>;
  size: ArrayLike<number>;
  requested: ArrayLike<number>;
  birth: ArrayLike<number>;
  /** Position; null: never. */
  death(index: number): number | null;
  birthNs(index: number): number | null;
  /** Nanoseconds, or events if no time is known. */
  lifetime(index: number): number;
  source(index: number): number | null;
  /** Null: no row has one. */
  name: ((index: number) => string | null) | null;
  tag: ((index: number) => string | null) | null;
  /** -1: none */
  stack: ArrayLike<number>;
  forwardStack: ArrayLike<number>;
  frames(stack: number): FrameRow[];
  label(index: number): string;
  sources: string[];
  isInGroup(by: string, group: number, index: number): boolean;
  /** A number that no group has: it is not known. */
  groupOf(by: GroupBy, index: number): number;
  streamOf(index: number): string;
  /** When the event before a position happened; where no time is known, the position. */
  timeAt(position: number): number;
  positions: number;
}

export class AllocationRows {
  constructor(readonly columns: RowColumns) {}

  get count(): number {
    return this.columns.row.length;
  }

  query(asked: Asked<"allocations">): Allocations {
    const { columns } = this;
    const found: number[] = [];
    const isWanted = this.filter(asked);
    let bytes = 0;
    for (let index = 0; index < this.count; index++) {
      if (!isWanted(index)) continue;
      found.push(index);
      bytes += columns.size[index]!;
    }
    const keys: Record<Order, (index: number) => number> = {
      size: (index) => columns.size[index]!,
      birth: (index) => columns.birth[index]!,
      lifetime: (index) => columns.lifetime(index),
      rounding: (index) => columns.size[index]! - columns.requested[index]!,
    };
    const key = keys[asked.order ?? "size"];
    const sign = asked.direction === "up" ? 1 : -1;
    found.sort((a, b) => sign * (key(a) - key(b)) || a - b);
    const offset = asked.offset ?? 0;
    return this.picked(found.slice(offset, offset + (asked.limit ?? 100)), found.length, bytes);
  }

  /** Those drawn as bands of their own: long and high enough, and of these the ones that take the most room. */
  singles({ from, to: given, by, axis, least_bytes: leastBytes = 0, least_length: leastLength = 0, most = MOST_BANDS }: Asked<"singles">): Singles {
    const { columns } = this;
    const to = Math.min(given, columns.positions);
    const at = axis === "time" ? columns.timeAt : (position: number) => position;
    const found: { index: number; area: number }[] = [];
    let matches = 0;
    for (let index = 0; index < this.count; index++) {
      const birth = Math.max(from, columns.birth[index]!);
      const death = Math.min(to, columns.death(index) ?? to);
      if (birth >= death) continue;
      matches++;
      const length = at(death) - at(birth);
      if (columns.size[index]! >= leastBytes && length >= leastLength) found.push({ index, area: columns.size[index]! * (length + 1) });
    }
    if (found.length > most) found.sort((a, b) => b.area - a.area || a.index - b.index);
    const rows = found.slice(0, most).map(({ index }) => index).sort((a, b) => a - b);
    const streams: string[] = [];
    const streamNumber = (handle: string) => (streams.includes(handle) ? streams.indexOf(handle) : streams.push(handle) - 1);
    const pick = <T>(value: (index: number) => T): T[] => rows.map(value);
    return {
      matches,
      spacing: 0,
      row: pick((index) => columns.row[index]!),
      size: pick((index) => columns.size[index]!),
      requested: pick((index) => columns.requested[index]!),
      birth: pick((index) => columns.birth[index]!),
      death: pick((index) => columns.death(index)),
      group: pick((index) => columns.groupOf(by, index)),
      stream: pick((index) => streamNumber(columns.streamOf(index))),
      streams,
    };
  }

  one(row: number): Allocation {
    const { columns } = this;
    let index = -1;
    for (let at = 0; at < this.count && index < 0; at++) if (columns.row[at] === row) index = at;
    if (index < 0) throw new Error("This file does not contain that allocation: open the recording with gpumemprof view.");
    return {
      row,
      size: columns.size[index]!,
      requested: columns.requested[index]!,
      birth: columns.birth[index]!,
      death: columns.death(index),
      birth_ns: columns.birthNs(index),
      lifetime: columns.lifetime(index),
      source: columns.source(index),
      name: columns.name?.(index) ?? null,
      tag: columns.tag?.(index) ?? null,
      label: columns.label(index),
      frames: columns.frames(columns.stack[index]!),
      forward_frames: columns.frames(columns.forwardStack[index]!),
    };
  }

  private filter(asked: Asked<"allocations">): (index: number) => boolean {
    const { columns } = this;
    const { min_size: minSize = 0, max_size: maxSize = Infinity, min_lifetime: minLife = 0, max_lifetime: maxLife = Infinity } = asked;
    const { live_at: liveAt, from = -Infinity, to = Infinity, by, group } = asked;
    const hasWords = this.wordFilter(parseWords(asked.words ?? ""));
    return (index) => {
      const size = columns.size[index]!;
      if (size < minSize || size > maxSize) return false;
      const [birth, death] = [columns.birth[index]!, columns.death(index) ?? Infinity];
      if (liveAt !== undefined && !(birth <= liveAt && liveAt < death)) return false;
      if (birth >= to || death <= from) return false;
      if (by !== undefined && group !== undefined && !columns.isInGroup(by, group, index)) return false;
      if (minLife > 0 || maxLife < Infinity) {
        const lifetime = columns.lifetime(index);
        if (lifetime < minLife || lifetime > maxLife) return false;
      }
      return hasWords(index);
    };
  }

  private wordFilter(words: Word[]): (index: number) => boolean {
    if (words.length === 0) return () => true;
    const { columns } = this;
    const known = new Map<number, number>();
    const ofStack = (stack: number): number => {
      let mask = known.get(stack);
      if (mask !== undefined) return mask;
      mask = 0;
      for (const [name, file, line] of columns.frames(stack)) {
        const [lowName, lowFile] = [name.toLowerCase(), file.toLowerCase()];
        words.forEach((word, bit) => {
          if (isInFrame(word, lowName, lowFile, line)) mask! |= 1 << bit;
        });
      }
      known.set(stack, mask);
      return mask;
    };
    const ofText = (isIn: (word: Word, text: string) => boolean, text: string) =>
      words.reduce((mask, word, bit) => (isIn(word, text.toLowerCase()) ? mask | (1 << bit) : mask), 0);
    const ofSource = columns.sources.map((source) => ofText(isInSource, source));
    const excluded = words.reduce((mask, word, bit) => (word.isExcluded ? mask | (1 << bit) : mask), 0);
    const wanted = ((1 << words.length) - 1) & ~excluded;
    return (index) => {
      let found = ofStack(columns.stack[index]!) | ofStack(columns.forwardStack[index]!);
      const source = columns.source(index);
      if (source !== null) found |= ofSource[source] ?? 0;
      const name = columns.name?.(index) ?? null;
      if (name !== null) found |= ofText(isInName, name);
      const tag = columns.tag?.(index) ?? null;
      if (tag !== null) found |= ofText(isInTag, tag);
      return (found & wanted) === wanted && (found & excluded) === 0;
    };
  }

  private picked(indexes: number[], matches: number, bytes: number): Allocations {
    const { columns } = this;
    const labels: string[] = [];
    const numbers = new Map<string, number>();
    const numberOf = (text: string) => {
      const known = numbers.get(text);
      if (known !== undefined) return known;
      numbers.set(text, labels.length);
      return labels.push(text) - 1;
    };
    const pick = <T>(value: (index: number) => T): T[] => indexes.map(value);
    const stack = (list: ArrayLike<number>) => pick((index) => (list[index]! < 0 ? null : list[index]!));
    return {
      matches,
      matching_bytes: bytes,
      row: pick((index) => columns.row[index]!),
      size: pick((index) => columns.size[index]!),
      requested: pick((index) => columns.requested[index]!),
      birth: pick((index) => columns.birth[index]!),
      death: pick((index) => columns.death(index)),
      birth_ns: pick((index) => columns.birthNs(index)),
      lifetime: pick((index) => columns.lifetime(index)),
      source: pick((index) => columns.source(index)),
      stack: stack(columns.stack),
      forward_stack: stack(columns.forwardStack),
      label: pick((index) => numberOf(columns.label(index))),
      name: pick((index) => columns.name?.(index) ?? null),
      tag: pick((index) => columns.tag?.(index) ?? null),
      labels,
    };
  }
}
