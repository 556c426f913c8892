// Two flame graphs as one: every call with what it holds in the first and in the second.

import type { Flame } from "../data/answers";
import { frameKey } from "./shapes";

export interface Merged {
  /** As a graph: its bytes are those of both together, so that a box is as wide as what is in it. */
  flame: Flame;
  first: number[];
  second: number[];
  firstBlocks: number[];
  secondBlocks: number[];
}

export function merged(first: Flame, second: Flame): Merged {
  const frames: Flame["frames"] = [];
  const frameNumbers = new Map<string, number>();
  const nodes = new Map<string, number>();
  const parent: number[] = [];
  const frame: number[] = [];
  const sides = [0, 1].map(() => ({ bytes: [] as number[], self: [] as number[], blocks: [] as number[] }));
  [first, second].forEach((flame, side) => {
    const place: number[] = [];
    flame.parent.forEach((above, node) => {
      const known = flame.frames[flame.frame[node]!] ?? null;
      // A call that no stack is known of is another thing than a call without a name.
      const name = known === null ? "none" : `call ${frameKey(known)}`;
      let number = frameNumbers.get(name);
      if (number === undefined) frameNumbers.set(name, (number = frames.push(known) - 1));
      const mother = above < 0 ? -1 : place[above]!;
      const key = `${mother} ${number}`;
      let mine = nodes.get(key);
      if (mine === undefined) {
        nodes.set(key, (mine = parent.push(mother) - 1));
        frame.push(number);
        for (const { bytes, self, blocks } of sides) for (const list of [bytes, self, blocks]) list.push(0);
      }
      place.push(mine);
      sides[side]!.bytes[mine]! += flame.bytes[node]!;
      sides[side]!.self[mine]! += flame.self_bytes[node]!;
      sides[side]!.blocks[mine]! += flame.node_blocks[node]!;
    });
  });
  const [a, b] = [sides[0]!, sides[1]!];
  const both = (list: "bytes" | "self" | "blocks", node: number) => a[list][node]! + b[list][node]!;
  const order = parent.map((_, node) => node).sort((x, y) => both("bytes", y) - both("bytes", x) || x - y);
  const place = new Map(order.map((node, at) => [node, at]));
  return {
    flame: {
      position: second.position,
      allocated_bytes: first.allocated_bytes + second.allocated_bytes,
      blocks: first.blocks + second.blocks,
      nodes_left_out: first.nodes_left_out + second.nodes_left_out,
      frames,
      parent: order.map((node) => (parent[node]! < 0 ? -1 : place.get(parent[node]!)!)),
      frame: order.map((node) => frame[node]!),
      bytes: order.map((node) => both("bytes", node)),
      self_bytes: order.map((node) => both("self", node)),
      node_blocks: order.map((node) => both("blocks", node)),
    },
    first: order.map((node) => a.bytes[node]!),
    second: order.map((node) => b.bytes[node]!),
    firstBlocks: order.map((node) => a.blocks[node]!),
    secondBlocks: order.map((node) => b.blocks[node]!),
  };
}
