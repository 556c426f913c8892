// A flame graph as a tree: parents and children, where boxes are, how a box is named in the address.

import type { Flame } from "../data/answers";

export const ROW = 20;

export interface Box {
  node: number;
  x: number;
  y: number;
  width: number;
}

export class FlameTree {
  readonly children: number[][];
  readonly roots: number[] = [];
  readonly depth: number[] = [];

  constructor(readonly flame: Flame) {
    this.children = flame.parent.map(() => []);
    flame.parent.forEach((parent, node) => {
      if (parent < 0) this.roots.push(node);
      else this.children[parent]!.push(node);
      this.depth.push(parent < 0 ? 0 : this.depth[parent]! + 1);
    });
  }

  siblings(node: number): number[] {
    const parent = this.flame.parent[node]!;
    return parent < 0 ? this.roots : this.children[parent]!;
  }

  /** Frames shared by everything say nothing: start where the paths diverge. */
  get trunk(): number | null {
    const only = this.roots[0];
    if (this.roots.length !== 1 || only === undefined) return null;
    let node = only;
    while (this.children[node]!.length === 1 && this.flame.bytes[this.children[node]![0]!]! >= 0.999 * this.flame.bytes[node]!) {
      node = this.children[node]![0]!;
    }
    return this.depth[node]! > 3 ? node : null;
  }

  private wayTo(node: number): number[] {
    const way: number[] = [];
    for (let at = node; at >= 0; at = this.flame.parent[at]!) way.push(at);
    return way.reverse();
  }

  /** "0.2.1": the first root's third child's second child. */
  pathOf(node: number | null): string {
    return node === null ? "" : this.wayTo(node).map((at) => this.siblings(at).indexOf(at)).join(".");
  }

  nodeAt(path: string): number | null {
    let among = this.roots;
    let node: number | null = null;
    for (const part of path === "" ? [] : path.split(".")) {
      const next = among[Number(part)];
      if (next === undefined) return null;
      node = next;
      among = this.children[next]!;
    }
    return node;
  }

  /** The same calls in the graph of another moment; null if they hold nothing then. */
  counterpart(other: FlameTree, node: number): number | null {
    const name = (tree: FlameTree, at: number) => JSON.stringify(tree.flame.frames[tree.flame.frame[at]!] ?? null);
    let among = this.roots;
    let found: number | null = null;
    for (const at of other.wayTo(node)) {
      const next = among.find((mine) => name(this, mine) === name(other, at));
      if (next === undefined) return null;
      found = next;
      among = this.children[next]!;
    }
    return found;
  }

  /** Boxes for everything below the focus, and for the last few calls on the path to it. */
  layOut(focus: number | null, width: number): Box[] {
    const { flame } = this;
    const boxes: Box[] = [];
    let y = 0;
    let start = this.roots;
    let whole = flame.allocated_bytes;
    if (focus !== null) {
      for (const node of this.wayTo(focus).slice(-4)) {
        boxes.push({ node, x: 0, y, width });
        y += ROW;
      }
      start = this.children[focus]!;
      whole = flame.bytes[focus]!;
    }
    const place = (nodes: number[], x: number, top: number): void => {
      let left = x;
      for (const node of nodes) {
        const boxWidth = (flame.bytes[node]! / Math.max(1, whole)) * width;
        if (boxWidth < 0.4) break;
        boxes.push({ node, x: left, y: top, width: boxWidth });
        place(this.children[node]!, left, top + ROW);
        left += boxWidth;
      }
    };
    place(start, 0, y);
    return boxes;
  }
}
