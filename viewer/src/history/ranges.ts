// What happened between two moments of a history in the page, as a server answers it. Where memory was freed is not in
// the page.

import type { Flame, Range, RangeGroup, RangePart } from "../data/answers";
import type { Asked } from "../data/source";
import type { History } from "./history";
import { flameOf } from "./moment";

const MOST_ROWS = 200;

const group = (label: string): RangeGroup => ({
  label, allocated_bytes: 0, allocated_blocks: 0, freed_bytes: 0, freed_blocks: 0, survived_bytes: 0, survived_blocks: 0,
});

/** Which parts of a range an allocation belongs to. */
function partsOf({ rows }: History, row: number, from: number, to: number): Record<RangePart, boolean> {
  const allocated = rows.birth[row]! > from && rows.birth[row]! <= to;
  const isLive = rows.birth[row]! <= from && rows.death[row]! > from && !(from === 0 && rows.isPendingAtStart.has(row));
  const freed = (allocated || isLive) && rows.death[row]! <= to;
  return { allocated, freed, survived: allocated && !freed };
}

function add(figures: RangeGroup, parts: Record<RangePart, boolean>, bytes: number): void {
  for (const part of ["allocated", "freed", "survived"] as const) {
    if (!parts[part]) continue;
    figures[`${part}_bytes`] += bytes;
    figures[`${part}_blocks`]++;
  }
}

export function rangeOf(history: History, { from, to }: Asked<"range">): Range {
  const all = group("");
  const lines = new Map<string, RangeGroup>();
  const sources = new Map<number, RangeGroup>();
  const known = <Key>(groups: Map<Key, RangeGroup>, key: Key, label: string) => {
    let found = groups.get(key);
    if (found === undefined) groups.set(key, (found = group(label)));
    return found;
  };
  for (let row = 0; row < history.rows.size.length; row++) {
    const parts = partsOf(history, row, from, to);
    if (!parts.allocated && !parts.freed) continue;
    const bytes = history.rows.size[row]!;
    const label = history.labelOf(row);
    const source = history.table.columns.source(row);
    add(all, parts, bytes);
    add(known(lines, label, label), parts, bytes);
    if (source !== null) add(known(sources, source, history.device.sources[source] ?? "unknown"), parts, bytes);
  }
  const moved = (line: RangeGroup) => line.allocated_bytes + line.freed_bytes;
  const order = [...lines.values()].sort((a, b) => moved(b) - moved(a) || (a.label < b.label ? -1 : 1));
  const most = history.mostIn(from, to);
  return {
    from,
    to,
    from_bytes: history.allocatedAt(from),
    to_bytes: history.allocatedAt(to),
    peak_position: most.position,
    peak_bytes: most.max,
    all,
    lines: order.slice(0, MOST_ROWS),
    lines_left_out: Math.max(0, order.length - MOST_ROWS),
    sources: [...sources].sort(([a], [b]) => a - b).map(([, figures]) => figures),
  };
}

export function rangeFlame(history: History, { from, to, part, by }: Asked<"range_flame">): Flame {
  return flameOf(history, to, by, (row) => partsOf(history, row, from, to)[part]);
}
