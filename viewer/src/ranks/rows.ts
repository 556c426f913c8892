// The rows of the heat map: places of the mesh, folded, and the ranks in those that are unfolded.

import type { Job } from "./report";

export interface Row {
  /** Names it in the address of the page. */
  key: string;
  label: string;
  depth: number;
  /** The ranks it stands for; of a rank, itself. */
  places: number[];
  children: Row[];
  /** The rank, if it is one. */
  place: number | null;
}

/** As many rows fit a screen: what is unfolded at first. */
const FIRST_ROWS = 72;
/** A group with more ranks is divided into ranges of them. */
const MOST_UNDIVIDED = 512;
const MOST_RANGES = 64;
/** Of a folded row, so many of its marked ranks are shown below it. */
const MOST_MARKED = 3;

function rankRow(job: Job, place: number, depth: number): Row {
  return { key: `r${place}`, label: job.ranks.name[place]!, depth, places: [place], children: [], place };
}

function ranksOf(job: Job, places: number[], depth: number, key: string): Row[] {
  if (places.length <= MOST_UNDIVIDED) return places.map((place) => rankRow(job, place, depth));
  const size = 2 ** Math.ceil(Math.log2(places.length / MOST_RANGES));
  const rows: Row[] = [];
  for (let start = 0; start < places.length; start += size) {
    const part = places.slice(start, start + size);
    const name = (place: number) => job.ranks.rank[place] ?? job.ranks.name[place]!;
    rows.push({
      key: `${key}+${start}`,
      label: `ranks ${name(part[0]!)} to ${name(part[part.length - 1]!)}`,
      depth,
      places: part,
      children: part.map((place) => rankRow(job, place, depth + 1)),
      place: null,
    });
  }
  return rows;
}

/** The tree: a level for each dimension that keeps groups apart, then the ranks. */
export function makeRows(job: Job): Row[] {
  const members: number[][] = job.groups.map(() => []);
  job.ranks.group.forEach((group, place) => members[group]!.push(place));
  if (job.groups.length === 1) return ranksOf(job, members[0]!, 0, "g0");
  const top: Row[] = [];
  const nodes = new Map<string, Row>();
  job.groups.forEach((group, index) => {
    const [only] = members[index]!.length === 1 ? members[index]! : [];
    const levels = Math.max(1, job.dimensions.length);
    let siblings = top;
    for (let level = 1; level <= levels; level++) {
      const isGroup = level === levels;
      // There is nothing to fold in a group of one.
      if (isGroup && only !== undefined) {
        siblings.push(rankRow(job, only, level - 1));
        return;
      }
      const key = isGroup ? `g${index}` : `d${group.coordinates.slice(0, level).join(".")}`;
      let node = nodes.get(key);
      if (node === undefined) {
        const label = isGroup || job.dimensions.length === 0 ? group.name : job.dimensions.slice(0, level).map((name, at) => `${name} ${group.coordinates[at]}`).join(" · ");
        node = { key, label, depth: level - 1, places: [], children: isGroup ? ranksOf(job, members[index]!, level, key) : [], place: null };
        nodes.set(key, node);
        siblings.push(node);
      }
      node.places.push(...members[index]!);
      siblings = node.children;
    }
  });
  return top;
}

/** What is unfolded at first: whole levels, while all rows fit a screen. */
export function firstUnfolded(rows: Row[]): Set<string> {
  const unfolded = new Set<string>();
  let level = rows;
  let shown = rows.length;
  for (;;) {
    const next = level.flatMap((row) => row.children);
    if (next.length === 0 || shown + next.length > FIRST_ROWS) return unfolded;
    for (const row of level) if (row.children.length > 0) unfolded.add(row.key);
    shown += next.length;
    level = next;
  }
}

/** The rows to draw. Marked ranks are shown even where their group is folded. */
export function visibleRows(rows: Row[], unfolded: ReadonlySet<string>, marked: readonly number[], order: (a: Row, b: Row) => number): Row[] {
  const shown: Row[] = [];
  const add = (some: Row[]): void => {
    for (const row of [...some].sort(order)) {
      shown.push(row);
      if (unfolded.has(row.key)) add(row.children);
      else if (row.place === null) shown.push(...markedIn(row, marked));
    }
  };
  add(rows);
  return shown;
}

/** The name of a row, in the middle of it. */
export interface Label {
  row: Row;
  y: number;
  symbols: string;
}

/**
 * The labels that have room where rows are lower than text: outermost headings first, then marked ranks, groups, and the rest.
 * A marked rank without room leaves its symbols beside the label that took its place.
 */
export function labelsWithRoom(labels: Label[], height: number): Label[] {
  const shown: Label[] = [];
  const importance = ({ row, symbols }: Label) => (row.place === null && row.depth === 0 ? 0 : symbols !== "" ? 1 : row.place === null ? 2 : 3);
  for (const label of [...labels].sort((a, b) => importance(a) - importance(b))) {
    const taken = shown.find((other) => Math.abs(other.y - label.y) < height);
    if (taken === undefined) shown.push({ ...label });
    else for (const symbol of label.symbols) if (!taken.symbols.includes(symbol)) taken.symbols += symbol;
  }
  return shown;
}

function markedIn(row: Row, marked: readonly number[]): Row[] {
  const inside = new Set(row.places);
  const found: Row[] = [];
  const places = marked.filter((place) => inside.has(place)).slice(0, MOST_MARKED);
  const collect = (one: Row): void => {
    if (one.place !== null && places.includes(one.place)) found.push({ ...one, depth: row.depth + 1 });
    else one.children.forEach(collect);
  };
  if (places.length > 0) collect(row);
  return found;
}
