// What each column of pixels shows: the range from the least to the most bytes live within it.

import type { Bucket, Tile } from "./tiles";
import type { Plot } from "./plot";

export interface Column {
  from: number;
  to: number;
  /** Where the moment with the most allocated bytes is. */
  tile: Tile;
  bucket: number;
  position: number;
  min: number;
  max: number;
  /** undefined: the device has no pool. */
  reserved: number | undefined;
}

function columnOf({ from, to, tile, bucket }: Bucket): Column {
  return { from, to, tile, bucket, position: tile.position[bucket]!, min: tile.min[bucket]!, max: tile.max[bucket]!, reserved: tile.reserved[bucket] };
}

/** Merges another column's range; of two equal maxima the earlier one is kept. */
function join(column: Column, other: Column): void {
  column.min = Math.min(column.min, other.min);
  if (other.reserved !== undefined) column.reserved = Math.max(column.reserved ?? 0, other.reserved);
  if (other.max < column.max || (other.max === column.max && other.position >= column.position)) return;
  [column.tile, column.bucket, column.position, column.max] = [other.tile, other.bucket, other.position, other.max];
}

/**
 * Buckets wider than a pixel stay as they are. Narrower ones become columns of a pixel, each with
 * the range of its neighbours too: otherwise steps of about a pixel's width would sometimes fall
 * into a pixel and sometimes between two, and draw waves that do not exist.
 */
export function columnsOf(buckets: Bucket[], plot: Plot): Column[] {
  const columns: Column[] = [];
  let pixels: Column[] = [];
  const flush = () => {
    for (const column of widened(pixels)) columns.push(column);
    pixels = [];
  };
  for (const bucket of buckets) {
    const [x0, x1] = [plot.x(bucket.from), plot.x(bucket.to)];
    if (x1 - x0 >= 1) {
      flush();
      columns.push(columnOf(bucket));
      continue;
    }
    const one = columnOf(bucket);
    for (let pixel = Math.floor(x0); pixel < x1; pixel++) {
      const last = pixels[pixels.length - 1];
      const [from, to] = [plot.share(pixel), plot.share(pixel + 1)];
      if (last !== undefined && last.from >= from - 1e-12 * (to - from)) join(last, one);
      else pixels.push({ ...one, from, to });
    }
  }
  flush();
  return columns;
}

function widened(pixels: Column[]): Column[] {
  return pixels.map((pixel, at) => {
    const column = { ...pixel };
    for (const beside of [pixels[at - 1], pixels[at + 1]]) if (beside !== undefined) join(column, beside);
    return column;
  });
}
