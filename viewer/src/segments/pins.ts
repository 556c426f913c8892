// What keeps reserved memory from being returned at a moment: which line pins which segments, and what empty_cache would
// return.

import type { SegmentRow, Segments } from "../data/answers";

export interface Pin {
  /** The row of the allocation that pins. */
  row: number;
  label: string;
  /** Of the segments that it, and others of its line, pin. */
  segments: number;
  free: number;
}

/** torch.cuda.empty_cache() returns segments in which nothing is used; exact, except for parts of expandable segments. */
export function returnedByEmptyCache({ segments }: Segments): number {
  return segments.reduce((sum, { free, size }) => sum + (free === size ? size : 0), 0);
}

/** The segment with the most free memory that something pins. */
export function largestPinned({ segments }: Segments): SegmentRow | null {
  return segments.reduce<SegmentRow | null>((most, segment) => (segment.pin !== null && segment.free > (most?.free ?? 0) ? segment : most), null);
}

/** The label of each allocation of the map. */
function labelsOf(map: Segments): Map<number, string> {
  const labels = new Map<number, string>();
  map.row.forEach((row, block) => row >= 0 && labels.set(row, map.labels[map.label[block]!]!));
  return labels;
}

/** By line, the one that pins most first. */
export function pinsOf(map: Segments): Pin[] {
  const labels = labelsOf(map);
  const pins = new Map<string, Pin & { most: number }>();
  for (const { pin, free } of map.segments) {
    if (pin === null) continue;
    // The user's line, whatever it called.
    const label = (labels.get(pin) ?? "").split(" → ")[0]!;
    const known = pins.get(label);
    if (known === undefined) {
      pins.set(label, { row: pin, label, segments: 1, free, most: free });
      continue;
    }
    known.segments++;
    known.free += free;
    if (free > known.most) [known.most, known.row] = [free, pin];
  }
  return [...pins.values()].sort((a, b) => b.free - a.free || (a.label < b.label ? -1 : 1));
}
