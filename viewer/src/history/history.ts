// A device's whole history in the page, which answers every question about any moment.
//
// These answers cannot be stored: a cursor can go to any of hundreds of thousands of events, a
// timeline can be zoomed to any of them, and a search is free text. So the page computes them from
// the columns of the history, which are small. A test compares every answer with the server's, over
// several recordings (tests/viewer/standalone.test.mjs).

import type { Allocation, DeviceMeta, FrameRow, HistoryAnswer, Moment, TileAnswer } from "../data/answers";
import { summed } from "../data/deltas";
import { IN_BACKWARD, NO_STACK, TILE_BUCKETS } from "../data/questions";
import type { Asked, Question } from "../data/source";
import { AllocationRows } from "./allocation_rows";
import { Changes, GroupSums } from "./changes";
import { flameAt, segmentsAt } from "./moment";
import { rangeFlame, rangeOf } from "./ranges";

type Differences = number[];

/** Columns of allocations, unpacked. Deaths are positions; Infinity: never. */
export interface HistoryRows {
  address: Float64Array;
  size: Float64Array;
  requested: Float64Array;
  birth: Float64Array;
  death: Float64Array;
  reusable: Float64Array;
  stack: Float64Array;
  forwardStack: Float64Array;
  isPendingAtStart: Set<number>;
}

const forever = (position: number) => (position === 0 ? Infinity : position);

export class History {
  readonly rows: HistoryRows;
  readonly times: Float64Array | null;
  readonly table: AllocationRows;
  private readonly allocated: Changes;
  private readonly reserved: Changes;
  private readonly callers: Float64Array;
  private readonly stackFrames: Float64Array;
  private readonly knownFrames = new Map<number, FrameRow[]>();
  private readonly sums = new Map<string, GroupSums>();

  constructor(readonly columns: HistoryAnswer, readonly device: DeviceMeta) {
    const deaths = (column: Differences) => summed(column).map(forever);
    this.rows = {
      address: summed(columns.address),
      size: summed(columns.size),
      requested: summed(columns.requested),
      birth: summed(columns.birth),
      death: deaths(columns.death),
      reusable: deaths(columns.reusable),
      stack: summed(columns.stack),
      forwardStack: summed(columns.forward_stack),
      isPendingAtStart: new Set(columns.pending_at_start),
    };
    this.times = columns.time_ns === undefined ? null : summed(columns.time_ns);
    this.callers = summed(columns.stack_caller);
    this.stackFrames = summed(columns.stack_frame);
    this.allocated = new Changes(this.rows.birth, this.rows.death, this.rows.size, this.rows.isPendingAtStart, device.events);
    const { segments } = columns;
    this.reserved = new Changes(summed(segments.birth), deaths(segments.death), summed(segments.size), new Set(), device.events);
    this.table = this.makeTable();
  }

  isAllocatedAt(row: number, position: number): boolean {
    return this.rows.birth[row]! <= position && position < this.rows.death[row]! && !(position === 0 && this.rows.isPendingAtStart.has(row));
  }

  private makeTable(): AllocationRows {
    const { columns, rows, times } = this;
    const source = columns.source === undefined ? null : summed(columns.source);
    const last = this.device.events - 1;
    const streams = summed(columns.stream);
    const groups = new Map(Object.entries(columns.groupings).map(([by, { of_row }]) => [by, summed(of_row)]));
    return new AllocationRows({
      row: rows.size.map((_, index) => index),
      size: rows.size,
      requested: rows.requested,
      birth: rows.birth,
      death: (index) => (rows.death[index] === Infinity ? null : rows.death[index]!),
      birthNs: (index) => (times === null || rows.birth[index] === 0 ? null : times[rows.birth[index]! - 1]!),
      lifetime: (index) => {
        if (last < 0) return 0;
        const from = rows.birth[index] === 0 ? 0 : Math.min(rows.birth[index]! - 1, last);
        const to = Math.max(from, Math.min(rows.death[index]! - 1, last));
        return times === null ? to - from : times[to]! - times[from]!;
      },
      source: (index) => (source === null ? null : source[index]!),
      name: textsOf(columns.name, columns.names),
      tag: textsOf(columns.tag, columns.tags),
      stack: rows.stack,
      forwardStack: rows.forwardStack,
      frames: (stack) => this.framesOf(stack),
      label: (index) => this.labelOf(index),
      sources: this.device.sources,
      isInGroup: (by, group, index) => groups.get(by)?.[index] === group,
      groupOf: (by, index) => {
        const of = groups.get(by);
        if (of === undefined) throw new Error("the sources of this recording are not known");
        return of[index]!;
      },
      streamOf: (index) => columns.streams[streams[index]!] ?? "0x0",
      timeAt: (position) => (times === null ? position : position === 0 ? times[0]! : times[Math.min(position, times.length) - 1]!),
      positions: this.device.events + 1,
    });
  }

  labelOf(row: number): string {
    const forward = this.rows.forwardStack[row]!;
    if (forward >= 0) return IN_BACKWARD + this.columns.labels[forward]!;
    const stack = this.rows.stack[row]!;
    return stack < 0 ? NO_STACK : this.columns.labels[stack]!;
  }

  private framesOf(stack: number): FrameRow[] {
    if (stack < 0) return [];
    let frames = this.knownFrames.get(stack);
    if (frames === undefined) {
      frames = [];
      for (let at = stack; at >= 0 && frames.length < 1000; at = this.callers[at]!) {
        const [name, , line, isOwn, , file] = this.columns.frames[this.stackFrames[at]!]!;
        frames.push([name, file, line, isOwn]);
      }
      this.knownFrames.set(stack, frames);
    }
    return frames;
  }

  /** Undefined: not a question about a moment. */
  answer({ name, asked }: Question): unknown {
    switch (name) {
      case "tile":
        return this.tile(asked);
      case "moment":
        return this.moment(asked.position);
      case "group_bytes":
        return { groups: [...this.groupSums(asked.by).at(asked.position)] };
      case "flame":
        return flameAt(this, asked.position, asked.by);
      case "segments":
        return segmentsAt(this, asked.position, asked.by);
      case "allocations":
        return this.table.query(asked);
      case "singles":
        return this.table.singles(asked);
      case "range":
        return rangeOf(this, asked);
      case "range_flame":
        return rangeFlame(this, asked);
      case "allocation":
        return this.allocation(asked.row);
      default:
        return undefined;
    }
  }

  allocatedAt(position: number): number {
    return this.allocated.at(position);
  }

  /** The moment of most memory from one position to another. */
  mostIn(from: number, to: number): { max: number; position: number } {
    return this.allocated.range(from, to + 1);
  }

  private moment(position: number): Moment {
    return {
      position,
      time_ns: position === 0 || this.times === null ? null : this.times[position - 1]!,
      allocated_bytes: this.allocated.at(position),
      reserved_bytes: this.device.has_pool ? this.reserved.at(position) : null,
    };
  }

  private allocation(row: number): Allocation {
    const found = this.table.one(row);
    const { columns, rows, times } = this;
    const stream = summed(columns.stream)[row]!;
    return {
      ...found,
      address: `0x${rows.address[row]!.toString(16)}`,
      reusable: rows.reusable[row] === Infinity ? null : rows.reusable[row]!,
      death_ns: found.death === null || times === null ? null : times[found.death - 1]!,
      stream: columns.streams[stream] ?? null,
      is_source_measured: columns.is_measured === undefined ? null : summed(columns.is_measured)[row] === 1,
      module: this.moduleOf(row),
    };
  }

  /** The instance it belongs to, if the recording has instances. */
  private moduleOf(row: number): string | null {
    const { name, names, of_row } = this.columns.flame_module;
    return textsOf(name, names)?.(summed(of_row)[row]!) ?? null;
  }

  private groupSums(by: string): GroupSums {
    let sums = this.sums.get(by);
    if (sums === undefined) {
      const grouping = this.columns.groupings[by];
      if (grouping === undefined) throw new Error("the sources of this recording are not known");
      sums = new GroupSums(this.allocated, this.rows, summed(grouping.of_row), grouping.count, grouping.rounding);
      this.sums.set(by, sums);
    }
    return sums;
  }

  private tile({ by, axis, level, index }: Asked<"tile">): TileAnswer {
    const sums = this.groupSums(by);
    const count = TILE_BUCKETS * 2 ** level;
    const positions = this.device.events + 1;
    const isTime = axis === "time" && this.times !== null;
    const length = isTime ? this.times![this.times!.length - 1]! + 1 : 0;
    const edge = (number: number) => lowerBound(this.times!, Math.floor((number * length) / count));
    const answer: TileAnswer = { min: [], max: [], position: [], reserved: [], groups: Array.from({ length: sums.count }, () => []) };
    const before = { min: 0, max: 0, position: 0, reserved: 0, groups: new Float64Array(sums.count) };
    const hasPool = this.columns.segments.size.length > 0;
    for (let number = index * TILE_BUCKETS; number < (index + 1) * TILE_BUCKETS; number++) {
      const from = isTime ? edge(number) : Math.floor((number * positions) / count);
      const to = isTime ? edge(number + 1) + 1 : Math.max(Math.floor(((number + 1) * positions) / count), from + 1);
      const range = this.allocated.range(from, to);
      answer.min.push(range.min - before.min);
      answer.max.push(range.max - before.max);
      answer.position.push(range.position - before.position);
      const groups = sums.at(range.position);
      answer.groups.forEach((list, group) => list.push(groups[group]! - before.groups[group]!));
      Object.assign(before, { min: range.min, max: range.max, position: range.position, groups });
      if (!hasPool) continue;
      const reserved = this.reserved.range(from, to).max;
      answer.reserved.push(reserved - before.reserved);
      before.reserved = reserved;
    }
    return answer;
  }
}

/** What the numbers of a column refer to; null: there is no such column. */
function textsOf(column: Differences | undefined, texts: string[] | undefined): ((index: number) => string | null) | null {
  if (column === undefined || texts === undefined) return null;
  const numbers = summed(column);
  return (index) => texts[numbers[index]!] ?? null;
}

function lowerBound(values: Float64Array, wanted: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}
