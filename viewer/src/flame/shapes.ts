// Other shapes of a flame graph: turned around, so that what allocated comes first and its callers follow; and around one
// call, with everything that leads to it above and everything it leads to below.

import type { Flame, FlameFrame } from "../data/answers";
import { type Box, FlameTree, ROW } from "./layout";

/** How a call is named in the address, and matched between graphs. */
export function frameKey(frame: FlameFrame): string {
  return frame === null ? "" : `${frame[1]}:${frame[2]} ${frame[0]}`;
}

/** Nodes of a new graph, created as paths are added. */
class Builder {
  readonly parent: number[] = [];
  readonly frame: number[] = [];
  readonly bytes: number[] = [];
  readonly self: number[] = [];
  readonly blocks: number[] = [];
  private readonly known = new Map<string, number>();

  node(parent: number, frame: number): number {
    const key = `${parent} ${frame}`;
    let node = this.known.get(key);
    if (node === undefined) {
      node = this.parent.push(parent) - 1;
      this.known.set(key, node);
      this.frame.push(frame);
      this.bytes.push(0);
      this.self.push(0);
      this.blocks.push(0);
    }
    return node;
  }

  add(node: number, bytes: number, blocks: number): void {
    this.bytes[node]! += bytes;
    this.blocks[node]! += blocks;
  }

  /** Parents before children, siblings by bytes. */
  made(of: Flame, allocated: number, blocks: number): Flame {
    const order = this.parent.map((_, node) => node).sort((a, b) => this.bytes[b]! - this.bytes[a]! || a - b);
    const place = new Map(order.map((node, at) => [node, at]));
    const pick = (list: number[]) => order.map((node) => list[node]!);
    return {
      ...of,
      allocated_bytes: allocated,
      blocks,
      parent: pick(this.parent).map((parent) => (parent < 0 ? -1 : place.get(parent)!)),
      frame: pick(this.frame),
      bytes: pick(this.bytes),
      self_bytes: pick(this.self),
      node_blocks: pick(this.blocks),
    };
  }
}

/** Blocks that a node allocated itself, or whose own node was too small to be listed. */
function ownOf(flame: Flame): { bytes: number[]; blocks: number[] } {
  const [bytes, blocks] = [flame.bytes.slice(), flame.node_blocks.slice()];
  flame.parent.forEach((parent, node) => {
    if (parent < 0) return;
    bytes[parent]! -= flame.bytes[node]!;
    blocks[parent]! -= flame.node_blocks[node]!;
  });
  return { bytes, blocks };
}

/** What allocated comes first, below it its callers. A frame of its own is what backward allocated: it stays so. */
export function inverted(flame: Flame): Flame {
  const builder = new Builder();
  const own = ownOf(flame);
  flame.parent.forEach((_, leaf) => {
    const [bytes, blocks] = [own.bytes[leaf]!, own.blocks[leaf]!];
    if (bytes <= 0) return;
    let above = -1;
    for (let node = leaf; node >= 0; node = flame.parent[node]!) {
      above = builder.node(above, flame.frame[node]!);
      builder.add(above, bytes, blocks);
    }
    builder.self[above]! += bytes;
  });
  return builder.made(flame, flame.allocated_bytes, flame.blocks);
}

export interface Sandwich {
  flame: Flame;
  /** Whether a node is a caller, above the call in the middle. */
  isCaller: boolean[];
}

/** Around all calls with this key; null: there are none. A call within itself counts once, at the outermost. */
export function sandwich(flame: Flame, key: string): Sandwich | null {
  const isWanted = flame.frame.map((frame) => frameKey(flame.frames[frame] ?? null) === key);
  const middles = isWanted.flatMap((wanted, node) => (wanted && !hasAbove(flame, isWanted, node) ? [node] : []));
  if (middles.length === 0) return null;
  const builder = new Builder();
  const root = builder.node(-1, flame.frame[middles[0]!]!);
  const [bytes, blocks] = [sum(middles, flame.bytes), sum(middles, flame.node_blocks)];
  builder.add(root, bytes, blocks);
  // Callees: nodes come after their parents.
  const place = new Map(middles.map((node) => [node, root]));
  flame.parent.forEach((parent, node) => {
    const above = place.get(parent);
    if (above === undefined || place.has(node)) return;
    const mine = builder.node(above, flame.frame[node]!);
    place.set(node, mine);
    builder.add(mine, flame.bytes[node]!, flame.node_blocks[node]!);
    builder.self[mine]! += flame.self_bytes[node]!;
  });
  for (const node of middles) builder.self[root]! += flame.self_bytes[node]!;
  const callees = builder.parent.length;
  for (const middle of middles) {
    let below = root;
    for (let node = flame.parent[middle]!; node >= 0; node = flame.parent[node]!) {
      // Another number than a callee's: the same call may be on both sides.
      below = builder.node(below, below === root ? -2 - flame.frame[node]! : flame.frame[node]!);
      builder.add(below, flame.bytes[middle]!, flame.node_blocks[middle]!);
    }
  }
  builder.frame.forEach((frame, node) => frame < 0 && (builder.frame[node] = -2 - frame));
  const isCallee = builder.parent.map((_, node) => node < callees);
  const order = builder.parent.map((_, node) => node).sort((a, b) => builder.bytes[b]! - builder.bytes[a]! || a - b);
  return { flame: builder.made(flame, bytes, blocks), isCaller: order.map((node) => !isCallee[node]!) };
}

function hasAbove(flame: Flame, isWanted: boolean[], node: number): boolean {
  for (let at = flame.parent[node]!; at >= 0; at = flame.parent[at]!) if (isWanted[at]) return true;
  return false;
}

const sum = (nodes: number[], values: number[]) => nodes.reduce((total, node) => total + values[node]!, 0);

/** Callers above the call, callees below. */
export class SandwichTree extends FlameTree {
  constructor(private readonly parts: Sandwich) {
    super(parts.flame);
  }

  override get trunk(): number | null {
    return null;
  }

  override layOut(_focus: number | null, width: number): Box[] {
    const { flame, isCaller } = this.parts;
    const deepest = this.depth.reduce((most, depth, node) => (isCaller[node] ? Math.max(most, depth) : most), 0);
    const middle = deepest * ROW;
    const boxes: Box[] = [];
    const place = (nodes: number[], x: number, up: boolean): void => {
      let left = x;
      for (const node of nodes) {
        const boxWidth = (flame.bytes[node]! / Math.max(1, flame.allocated_bytes)) * width;
        if (boxWidth < 0.4) continue;
        boxes.push({ node, x: left, y: middle + (up ? -1 : 1) * this.depth[node]! * ROW, width: boxWidth });
        place(this.children[node]!.filter((child) => (isCaller[child] ?? false) === up), left, up);
        left += boxWidth;
      }
    };
    const root = this.roots[0]!;
    boxes.push({ node: root, x: 0, y: middle, width });
    place(this.children[root]!.filter((node) => !isCaller[node]), 0, false);
    place(this.children[root]!.filter((node) => isCaller[node]), 0, true);
    return boxes;
  }
}
