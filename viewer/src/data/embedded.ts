// The standalone page: answers packed into it when it was written, found by the text of their
// question. For a device whose whole history is in the page every moment is known (history.ts); for
// larger ones only a number of moments.

import { AllocationRows } from "../history/allocation_rows";
import { History } from "../history/history";
import type { Allocations, DeviceMeta, Embedded, FrameRow, GroupBytes, HistoryAnswer, KnownMoments, Meta, Moment, Singles, TileAnswer, TogetherAnswer } from "./answers";
import { summed } from "./deltas";
import { TILE_BUCKETS } from "./questions";
import { type Answer, type Asked, type Question, type QuestionName, questionText, type Source } from "./source";

type Section = Record<string, unknown>;
interface DeviceName {
  file: number;
  device: number;
}

/** The sections of answers about single moments. */
const MOMENTS = ["moments-0", "moments-1"];

async function unpack(text: string): Promise<Section> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as Section;
}

/** The moments a cursor can go to when the history is not in the page: one for each bucket of a level. */
interface Known {
  level: number;
  position: Float64Array;
  allocated: Float64Array;
  reserved: Float64Array;
  time: Float64Array;
}

/** Null if the page contains no recording. */
export async function openEmbedded(): Promise<EmbeddedSource | null> {
  const packed = new Map<string, string>();
  for (const element of document.querySelectorAll<HTMLScriptElement>("script[data-section]")) {
    packed.set(element.dataset["section"]!, element.textContent!);
    element.remove();
  }
  const first = packed.get("first");
  if (first === undefined) return null;
  const source = new EmbeddedSource(await unpack(first), packed);
  await source.readKnown();
  return source;
}

export class EmbeddedSource implements Source {
  readonly embedded: Embedded;
  private readonly unpacked = new Map<string, Promise<Section>>();
  private readonly histories = new Map<string, Promise<History>>();
  private readonly tables = new Map<string, Promise<AllocationRows>>();
  private readonly known = new Map<string, Known>();
  private readonly meta: Meta;

  constructor(private readonly first: Section, private readonly packed: Map<string, string>) {
    this.embedded = first["embedded"] as Embedded;
    this.meta = first["meta"] as Meta;
  }

  /** Cursors move immediately, so the moments they can move to are read before anything is drawn. */
  async readKnown(): Promise<void> {
    for (const [question, answer] of Object.entries(await this.section("known"))) {
      const columns = answer as KnownMoments;
      this.known.set(question.slice("known?".length), {
        level: columns.level,
        position: summed(columns.position),
        allocated: summed(columns.allocated),
        reserved: summed(columns.reserved),
        time: summed(columns.time_ns),
      });
    }
  }

  isWhole(file: number, device: number): boolean {
    return !this.known.has(keyOf({ file, device }));
  }

  spanLevels(file: number, device: number): number {
    return this.first[`span_levels?${keyOf({ file, device })}`] as number;
  }

  async ask<Name extends QuestionName>(name: Name, asked: Asked<Name>): Promise<Answer<Name>> {
    const text = questionText(name, asked);
    if (text in this.first) return this.first[text] as Answer<Name>;
    return (await this.answer({ name, asked } as Question, text)) as Answer<Name>;
  }

  private async answer(question: Question, text: string): Promise<unknown> {
    const { name, asked } = question;
    // A comparison is of two devices, and stored whether or not their histories are.
    if (name === "meta" || name === "report" || name === "compare") return this.stored(MOMENTS, text);
    if (name === "steps" || name === "advice") return this.stored([name], text);
    if (name === "together") return this.storedTogether(asked);
    if (this.isWhole(asked.file, asked.device)) {
      if (name === "spans") return this.stored([historyName(asked)], text);
      return (await this.history(asked)).answer(question) ?? this.stored(MOMENTS, text);
    }
    // Of a long run, the buckets know less about their moments than an answer does.
    const isLong = this.deviceMeta(asked).is_long === true;
    switch (name) {
      case "allocations":
        return (await this.table(asked)).query(asked);
      case "allocation":
        return (await this.table(asked)).one(asked.row);
      case "singles":
        return this.storedSingles(asked);
      case "spans":
        return this.stored([`spans-${asked.level}`], text);
      case "tile":
        return this.storedTile(asked);
      case "moment":
        return (isLong ? await this.found(MOMENTS, text) : undefined) ?? (await this.bucketMoment(asked)) ?? this.stored(MOMENTS, text);
      case "group_bytes":
        return (isLong ? await this.found(MOMENTS, text) : undefined) ?? (await this.bucketGroups(asked)) ?? this.stored(MOMENTS, text);
      default:
        return this.stored(MOMENTS, text);
    }
  }

  /** A set of remedies, whichever was switched on first. When the points of a curve are is stored once for all. */
  private async storedTogether(asked: Asked<"together">): Promise<TogetherAnswer> {
    const remedies = asked.remedies.split("+").sort().join("+");
    const answer = (await this.stored(["advice"], questionText("together", { ...asked, remedies }))) as TogetherAnswer;
    const times = (await this.section("advice"))[`together_times?${keyOf(asked)}&points=${answer.most_bytes.length}`] as number[] | undefined;
    return { ...answer, time_ns: times ?? [] };
  }

  /** Of a long run the finest tiles are only those around some moments: elsewhere the coarser one is repeated. */
  private async storedTile(asked: Asked<"tile">): Promise<TileAnswer> {
    for (let above = 0; above <= asked.level; above++) {
      const address = { ...asked, level: asked.level - above, index: asked.index >> above };
      const section = await this.section(`level-${address.level}-${asked.by}`);
      const tile = section[questionText("tile", address)] as TileAnswer | undefined;
      if (tile !== undefined) return above === 0 ? tile : partOf(tile, asked.index & (2 ** above - 1), 2 ** above);
    }
    throw new Error("This file does not contain that: open the recording with gpumemprof view.");
  }

  /** Of the largest allocations, which are all that the page has. Only their sources are known as groups. */
  private async storedSingles(asked: Asked<"singles">): Promise<Singles> {
    const { file, device, by } = asked;
    const table = await this.table(asked);
    const { groups } = await this.ask("groups", { file, device, by });
    const { sources } = this.deviceMeta(asked);
    const answer = table.singles({ ...asked, axis: "event", least_length: 0 });
    const places = sources.map((source) => groups.findIndex(({ label }) => label === source));
    const ofRow = new Map(answer.row.map((row, index) => [row, index]));
    for (let index = 0; by === "source" && index < table.count; index++) {
      const at = ofRow.get(table.columns.row[index]!);
      const place = places[table.columns.source(index) ?? -1];
      if (at !== undefined && place !== undefined && place >= 0) answer.group[at] = place;
    }
    return { ...answer, matches: null };
  }

  private async found(names: string[], question: string): Promise<unknown> {
    for (const name of names) {
      const section = await this.section(name);
      if (question in section) return section[question];
    }
    return undefined;
  }

  private async stored(names: string[], question: string): Promise<unknown> {
    const answer = await this.found(names, question);
    if (answer !== undefined) return answer;
    throw new Error("This file does not contain that: open the recording with gpumemprof view.");
  }

  // The cursor can go to the fullest moment of each of up to 32,768 buckets. Their answers would be as long as the rest
  // of the file and say nothing that is not in it: the totals are columns, and the groups are in the tiles.

  private bucketOf({ file, device, position }: Asked<"moment">): { known: Known; bucket: number } | null {
    const known = this.known.get(keyOf({ file, device }));
    if (known === undefined) return null;
    const bucket = nearest(known.position, position);
    return known.position[bucket] === position ? { known, bucket } : null;
  }

  private async bucketMoment(asked: Asked<"moment">): Promise<Moment | null> {
    const found = this.bucketOf(asked);
    if (found === null) return null;
    const { known, bucket } = found;
    const isTimed = known.time.length === known.position.length && asked.position > 0;
    return {
      position: asked.position,
      time_ns: isTimed ? known.time[bucket]! : null,
      allocated_bytes: known.allocated[bucket]!,
      reserved_bytes: known.reserved[bucket] ?? null,
    };
  }

  private async bucketGroups({ by, ...asked }: Asked<"group_bytes">): Promise<GroupBytes | null> {
    const found = this.bucketOf(asked);
    if (found === null) return null;
    const { known, bucket } = found;
    const { file, device } = asked;
    const tile = await this.ask("tile", { file, device, by, axis: "event", level: known.level, index: Math.floor(bucket / TILE_BUCKETS) });
    return { groups: tile.groups.map((differences) => summed(differences)[bucket % TILE_BUCKETS]!) };
  }

  nearestMoment(file: number, device: number, position: number): number {
    const known = this.known.get(keyOf({ file, device }));
    if (known === undefined) return position;
    const fullest = known.position[nearest(known.position, position)]!;
    const state = this.nearestState(file, device, position);
    return Math.abs(state - position) <= Math.abs(fullest - position) ? state : fullest;
  }

  nearestState(file: number, device: number, position: number): number {
    const moments = this.first[`moments?${keyOf({ file, device })}`] as number[] | undefined;
    if (moments === undefined || moments.length === 0) return position;
    return moments[nearest(moments, position)]!;
  }

  comparable(file: number, device: number): number[] {
    return this.first[`key_moments?${keyOf({ file, device })}`] as number[];
  }

  private section(name: string): Promise<Section> {
    let section = this.unpacked.get(name);
    if (section === undefined) {
      const text = this.packed.get(name);
      section = text === undefined ? Promise.resolve({}) : unpack(text);
      this.packed.delete(name);
      this.unpacked.set(name, section);
    }
    return section;
  }

  private history(asked: DeviceName): Promise<History> {
    const name = historyName(asked);
    let history = this.histories.get(name);
    if (history === undefined) {
      history = this.section(name).then((section) => new History(section["history"] as HistoryAnswer, this.deviceMeta(asked)));
      this.histories.set(name, history);
    }
    return history;
  }

  /** The largest allocations, if not all are in the page. */
  private table(asked: DeviceName): Promise<AllocationRows> {
    const key = keyOf(asked);
    let table = this.tables.get(key);
    if (table === undefined) {
      table = this.section("allocations").then((section) => {
        const all = section[`allocations?${key}`] as Allocations | undefined;
        if (all === undefined) throw new Error("This file contains no allocations: open the recording with gpumemprof view.");
        return rowsOf(all, section[`stacks?${key}`] as Record<string, FrameRow[]>, this.deviceMeta(asked).sources);
      });
      this.tables.set(key, table);
    }
    return table;
  }

  private deviceMeta({ file, device }: DeviceName): DeviceMeta {
    return this.meta.files[file]!.devices[device]!;
  }
}

/** How sections and what they hold besides answers are named. */
function keyOf({ file, device }: DeviceName): string {
  return `file=${file}&device=${device}`;
}
function historyName({ file, device }: DeviceName): string {
  return `history-${file}-${device}`;
}

/** The index of the value nearest to the wanted one; values never decrease. */
function nearest(values: ArrayLike<number>, wanted: number): number {
  let low = 0;
  let high = values.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - values[low - 1]! <= values[low]! - wanted ? low - 1 : low;
}

/** Part `part` of `parts` of a tile, stretched to the length of a tile. */
function partOf(tile: TileAnswer, part: number, parts: number): TileAnswer {
  const stretched = (differences: number[]): number[] => {
    const values = summed(differences);
    let before = 0;
    return differences.map((_, at) => {
      const value = values[Math.floor((part * values.length + at) / parts)]!;
      const difference = value - before;
      before = value;
      return difference;
    });
  };
  return {
    min: stretched(tile.min),
    max: stretched(tile.max),
    position: stretched(tile.position),
    reserved: stretched(tile.reserved),
    groups: tile.groups.map(stretched),
  };
}

function rowsOf(all: Allocations, stacks: Record<string, FrameRow[]>, sources: string[]): AllocationRows {
  const stack = (list: (number | null)[]) => list.map((id) => id ?? -1);
  return new AllocationRows({
    row: all.row,
    size: all.size,
    requested: all.requested,
    birth: all.birth,
    death: (index) => all.death[index]!,
    birthNs: (index) => all.birth_ns[index]!,
    lifetime: (index) => all.lifetime[index]!,
    source: (index) => all.source[index]!,
    name: (index) => all.name[index]!,
    tag: (index) => all.tag[index]!,
    stack: stack(all.stack),
    forwardStack: stack(all.forward_stack),
    frames: (id) => (id < 0 ? [] : stacks[String(id)] ?? []),
    label: (index) => all.labels[all.label[index]!]!,
    sources,
    isInGroup: () => true,
    groupOf: () => 255,
    streamOf: () => "unknown",
    timeAt: (position) => position,
    positions: Infinity,
  });
}

