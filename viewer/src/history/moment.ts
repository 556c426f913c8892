// What is live at a moment of a history in the page: as a flame graph, as a segment map.

import type { Flame, FlameBy, FlameColumns, GroupBy, SegmentRow, Segments } from "../data/answers";
import { summed } from "../data/deltas";
import { FLAME_LIMITS } from "../data/questions";
import type { History } from "./history";

function treeOf({ columns }: History, by: FlameBy): FlameColumns {
  if (by === "module") return columns.flame_module;
  if (by !== "tag") return columns.flame_stack;
  if (columns.flame_tag === undefined) throw new Error("nothing of this recording was tagged");
  return columns.flame_tag;
}

/** Each thing that nodes refer to, listed once, as a server returns them. */
class FlameFrames {
  readonly list: Flame["frames"] = [];
  private readonly numbers = new Map<string, number>();
  private readonly frame: Float64Array;
  private readonly name: Float64Array | null;

  constructor(private readonly tree: FlameColumns, private readonly known: History["columns"]["frames"]) {
    this.frame = summed(tree.frame);
    this.name = tree.name === undefined ? null : summed(tree.name);
  }

  numberOf(node: number): number {
    const [frame, name] = [this.frame[node]!, this.name?.[node] ?? -1];
    const key = `${frame} ${name}`;
    let number = this.numbers.get(key);
    if (number === undefined) {
      number = this.list.push(this.row(frame, name)) - 1;
      this.numbers.set(key, number);
    }
    return number;
  }

  private row(frame: number, name: number): Flame["frames"][number] {
    const text = this.tree.names?.[name];
    if (text !== undefined) return [text, text, 0, text];
    const known = this.known[frame];
    return known === undefined ? null : [known[0], known[1], known[2], known[4]];
  }
}

export function flameAt(history: History, position: number, by: FlameBy): Flame {
  return flameOf(history, position, by, (row) => history.isAllocatedAt(row, position));
}

/** Of any allocations. */
export function flameOf(history: History, position: number, by: FlameBy, isIn: (row: number) => boolean): Flame {
  const tree = treeOf(history, by);
  const [parent, nodeOf] = [summed(tree.parent), summed(tree.of_row)];
  const frames = new FlameFrames(tree, history.columns.frames);
  const bytes = new Float64Array(parent.length);
  const blocks = new Float64Array(parent.length);
  let [allocated, count] = [0, 0];
  for (let row = 0; row < nodeOf.length; row++) {
    if (!isIn(row)) continue;
    bytes[nodeOf[row]!]! += history.rows.size[row]!;
    blocks[nodeOf[row]!]!++;
    allocated += history.rows.size[row]!;
    count++;
  }
  const self = bytes.slice();
  // Children come after their parents, so one backward pass sums everything.
  for (let node = parent.length - 1; node >= 0; node--) {
    if (parent[node]! < 0) continue;
    bytes[parent[node]!]! += bytes[node]!;
    blocks[parent[node]!]! += blocks[node]!;
  }
  const order: number[] = [];
  for (let node = 0; node < parent.length; node++) if (blocks[node]! > 0) order.push(node);
  order.sort((a, b) => bytes[b]! - bytes[a]! || a - b);
  const flame: Flame = {
    position, allocated_bytes: allocated, blocks: count, nodes_left_out: 0, frames: frames.list, parent: [], frame: [], bytes: [], self_bytes: [], node_blocks: [],
  };
  const least = Math.floor(allocated / FLAME_LIMITS.finestShare);
  const kept = new Int32Array(parent.length).fill(-1);
  const depth = new Int32Array(parent.length);
  for (const node of order) {
    const above = parent[node]!;
    if (above >= 0) depth[node] = depth[above]! + 1;
    if (bytes[node]! < least || depth[node]! >= FLAME_LIMITS.levels || flame.parent.length >= FLAME_LIMITS.nodes || (above >= 0 && kept[above]! < 0)) {
      flame.nodes_left_out++;
      continue;
    }
    kept[node] = flame.parent.length;
    flame.parent.push(above < 0 ? -1 : kept[above]!);
    flame.frame.push(frames.numberOf(node));
    flame.bytes.push(bytes[node]!);
    flame.self_bytes.push(self[node]!);
    flame.node_blocks.push(blocks[node]!);
  }
  return flame;
}

/** Reserved pieces at a moment in address order; adjacent mapped pieces are merged. */
function piecesAt(history: History, position: number): (SegmentRow & { start: number })[] {
  const { segments, streams } = history.columns;
  const column = (name: "address" | "size" | "birth" | "death" | "stream" | "is_small" | "is_expandable" | "pool") => summed(segments[name]);
  const [address, size, birth, death] = [column("address"), column("size"), column("birth"), column("death")];
  const [stream, small, expandable, pool] = [column("stream"), column("is_small"), column("is_expandable"), column("pool")];
  const there: number[] = [];
  for (let row = 0; row < size.length; row++) {
    if (birth[row]! <= position && (death[row] === 0 || position < death[row]!)) there.push(row);
  }
  there.sort((a, b) => address[a]! - address[b]!);
  const joined: (SegmentRow & { start: number })[] = [];
  for (const row of there) {
    const last = joined[joined.length - 1];
    if (last !== undefined && expandable[row] === 1 && last.is_expandable && last.start + last.size === address[row]) {
      last.size += size[row]!;
      continue;
    }
    joined.push({
      start: address[row]!,
      address: `0x${address[row]!.toString(16)}`,
      size: size[row]!,
      free: 0,
      stream: streams[stream[row]!] ?? "0x0",
      pool: segments.pools[pool[row]!] ?? null,
      is_small: small[row] === 1,
      is_expandable: expandable[row] === 1,
      pin: null,
      blocks: 0,
    });
  }
  return joined;
}

export function segmentsAt(history: History, position: number, by: GroupBy): Segments {
  const { rows } = history;
  const grouping = history.columns.groupings[by];
  const groupOf = grouping === undefined ? null : summed(grouping.of_row);
  const used: number[] = [];
  for (let row = 0; row < rows.size.length; row++) {
    if (rows.birth[row]! <= position && position < rows.reusable[row]!) used.push(row);
  }
  used.sort((a, b) => rows.address[a]! - rows.address[b]!);
  const pieces = piecesAt(history, position);
  const map: Segments = {
    position, reserved_bytes: 0, allocated_bytes: 0, waiting_bytes: 0, free_bytes: 0, segments: pieces, size: [], row: [], group: [], label: [], labels: [],
  };
  const labels = new Map<string, number>();
  const add = (size: number, row: number, group: number, label: number) => {
    map.size.push(size);
    map.row.push(row);
    map.group.push(group);
    map.label.push(label);
  };
  let next = 0;
  for (const piece of pieces) {
    const end = piece.start + piece.size;
    const first = map.size.length;
    let at = piece.start;
    const addFree = (to: number) => {
      if (to <= at) return;
      add(to - at, -1, 0, -1);
      piece.free += to - at;
    };
    while (next < used.length && rows.address[used[next]!]! < piece.start) next++;
    for (; next < used.length && rows.address[used[next]!]! < end; next++) {
      const row = used[next]!;
      addFree(rows.address[row]!);
      const isWaiting = !history.isAllocatedAt(row, position);
      const text = history.labelOf(row);
      if (!labels.has(text)) labels.set(text, map.labels.push(text) - 1);
      const group = groupOf?.[row] ?? 0;
      add(rows.size[row]!, row, isWaiting ? -1 - group : group, labels.get(text)!);
      if (isWaiting) map.waiting_bytes += rows.size[row]!;
      else map.allocated_bytes += rows.size[row]!;
      if (piece.pin === null || rows.birth[row]! < rows.birth[piece.pin]!) piece.pin = row;
      at = rows.address[row]! + rows.size[row]!;
    }
    addFree(end);
    if (piece.free === 0) piece.pin = null;
    piece.blocks = map.size.length - first;
    map.reserved_bytes += piece.size;
    map.free_bytes += piece.free;
  }
  return map;
}
