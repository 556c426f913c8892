// Where segments and blocks are on the segment map: lines of memory, read like text.

import type { SegmentRow, Segments } from "../data/answers";
import * as format from "../ui/format";

export const LINE = 20;
export const HEADING = 26;
export const LEFT = 8;
/** From one line of a heading to the next. */
const HEADING_STEP = 16;
const GAP = 3;
const LINE_STEP = LINE + 4;

export interface Piece {
  segment: number;
  block: number;
  x: number;
  y: number;
  width: number;
  /** For a block that continues on another line: its first part. */
  isFirst: boolean;
}

/** The part of a segment on one line. */
export interface Outline {
  segment: number;
  x: number;
  y: number;
  width: number;
  /** Whether the segment begins and ends here, or continues from the line above, on the line below. */
  isStart: boolean;
  isEnd: boolean;
}

export interface SegmentLayout {
  pieces: Piece[];
  outlines: Outline[];
  headings: { text: string; y: number }[];
  height: number;
}

function poolName(segment: SegmentRow): string {
  const pool = segment.pool === null ? "" : segment.pool[0] > 0 ? `CUDA graph pool ${segment.pool[0]}, ` : `pool ${segment.pool[1]}, `;
  const kind = segment.is_small ? "small blocks (up to 1 MiB)" : "large blocks";
  const stream = segment.stream === "0x0" ? "default stream" : `stream ${segment.stream}`;
  return `${pool}${kind}, ${stream}`;
}

const total = (map: Segments, segments: number[]) => segments.reduce((sum, index) => sum + map.segments[index]!.size, 0);

/** Bytes are converted to pixels at one scale, so that everything fits the screen at zoom 1. */
export function layOutSegments(map: Segments, width: number, height: number, zoom: number, wrap: (heading: string) => string[]): SegmentLayout {
  const pools = new Map<string, number[]>();
  map.segments.forEach((segment, index) => {
    const name = poolName(segment);
    if (!pools.has(name)) pools.set(name, []);
    pools.get(name)!.push(index);
  });
  const firstBlock: number[] = [];
  let next = 0;
  for (const segment of map.segments) {
    firstBlock.push(next);
    next += segment.blocks;
  }
  const room = Math.max(4, Math.floor((height - pools.size * HEADING) / LINE_STEP) - pools.size);
  const pixels = (zoom * (width - LEFT - 1) * room * 0.92) / Math.max(1, map.reserved_bytes);
  const layout: SegmentLayout = { pieces: [], outlines: [], headings: [], height: 0 };
  let y = 4;
  for (const [name, segments] of [...pools].sort(([, a], [, b]) => total(map, b) - total(map, a))) {
    wrap(`${name}: ${format.bytes(total(map, segments))} in ${format.counted(segments.length, "segment")}`).forEach((text, at) => {
      if (at > 0) y += HEADING_STEP;
      layout.headings.push({ text, y });
    });
    y += HEADING;
    let x = LEFT;
    for (const index of segments) {
      const wanted = Math.max(2, map.segments[index]!.size * pixels);
      if (x > LEFT && x + Math.min(wanted, width - LEFT - 1) > width - 1) [x, y] = [LEFT, y + LINE_STEP];
      [x, y] = placeSegment(map, layout, index, firstBlock[index]!, pixels, x, y, width);
      x += GAP;
    }
    y += LINE + 10;
  }
  layout.height = y;
  return layout;
}

/** A segment longer than a line continues on the next, unlike a word. */
function placeSegment(map: Segments, layout: SegmentLayout, index: number, firstBlock: number, pixels: number, x: number, y: number, width: number): [number, number] {
  const segment = map.segments[index]!;
  let start = x;
  let isStart = true;
  const close = (isEnd: boolean) => {
    layout.outlines.push({ segment: index, x: start, y, width: Math.max(1, x - start), isStart, isEnd });
    isStart = false;
  };
  for (let block = firstBlock; block < firstBlock + segment.blocks; block++) {
    let isFirst = true;
    let rest = Math.max(segment.blocks === 1 ? 2 : 0, map.size[block]! * pixels);
    for (;;) {
      const part = Math.min(rest, width - 1 - x);
      layout.pieces.push({ segment: index, block, x, y, width: part, isFirst });
      isFirst = false;
      x += part;
      rest -= part;
      if (rest <= 0.01) break;
      close(false);
      [x, y] = [LEFT, y + LINE_STEP];
      start = x;
    }
  }
  close(true);
  return [x, y];
}
