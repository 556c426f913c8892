// The standalone page: answers packed into it when it was written. For a device whose whole history
// is in the page every moment is known; for larger ones only a number of moments.

import type { Allocations, FrameRow, Held, Meta, Moment, Source, TileAnswer } from "./source";
import { History, type HistoryAnswer } from "../history/history";
import { AllocationRows } from "../history/allocation_rows";
import { summed, TILE_BUCKETS } from "./deltas";

type Section = Record<string, unknown>;

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
  readonly embedded: { deepest_level: number; left_out: string[] };
  private readonly unpacked = new Map<string, Promise<Section>>();
  private readonly histories = new Map<string, Promise<History>>();
  private readonly tables = new Map<string, Promise<AllocationRows>>();
  private readonly known = new Map<string, Known>();
  private readonly meta: Meta;

  constructor(private readonly first: Section, private readonly packed: Map<string, string>) {
    this.embedded = first["embedded"] as EmbeddedSource["embedded"];
    this.meta = first["meta"] as Meta;
  }

  /** Cursors move immediately, so the moments they can move to are read before anything is drawn. */
  async readKnown(): Promise<void> {
    for (const [question, answer] of Object.entries(await this.section("known"))) {
      const columns = answer as Record<"position" | "allocated" | "reserved" | "time_ns", number[]> & { level: number };
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
    return this.hasHistory(`file=${file}&device=${device}`);
  }

  spanLevels(file: number, device: number): number {
    return this.first[`span_levels?file=${file}&device=${device}`] as number;
  }

  private hasHistory(device: string): boolean {
    return !this.known.has(device);
  }

  async ask<T>(question: string): Promise<T> {
    if (question in this.first) return this.first[question] as T;
    const [kind, rest = ""] = question.split("?", 2) as [string, string?];
    const given = new URLSearchParams(rest);
    const device = `file=${given.get("file")}&device=${given.get("device")}`;
    if (kind !== "compare" && kind !== "report" && this.hasHistory(device)) {
      if (kind === "spans") return this.stored<T>([this.historyName(given)], question);
      const answer = (await this.history(given)).ask(kind, given);
      if (answer !== undefined) return answer as T;
    }
    if (kind === "allocations") return (await this.table(device)).query(given) as T;
    if (kind === "allocation") return (await this.table(device)).one(Number(given.get("row"))) as T;
    if (kind === "bands") return (await this.table(device)).bands(Number(given.get("from")), Number(given.get("to")), Number(given.get("most"))) as T;
    if (kind === "spans") return this.stored<T>([`spans-${given.get("level")}`], question);
    if (kind === "tile") return this.stored<T>([`level-${given.get("level")}-${given.get("by")}`], question);
    try {
      return await this.stored<T>(["moments-0", "moments-1"], question);
    } catch (error) {
      const answer = await this.fromBuckets(kind, given, device);
      if (answer === null) throw error;
      return answer as T;
    }
  }

  private async stored<T>(names: string[], question: string): Promise<T> {
    for (const name of names) {
      const section = await this.section(name);
      if (question in section) return section[question] as T;
    }
    throw new Error("This file does not contain that: open the recording with gpumemprof view.");
  }

  /** The values at a bucket's peak are in its tile. */
  private async fromBuckets(kind: string, given: URLSearchParams, device: string): Promise<Moment | Held | null> {
    const known = this.known.get(device);
    const position = Number(given.get("position"));
    if (known === undefined || (kind !== "moment" && kind !== "held")) return null;
    const bucket = nearest(known.position, position);
    if (known.position[bucket] !== position) return null;
    if (kind === "moment") {
      const isTimed = known.time.length === known.position.length && position > 0;
      return {
        position,
        time_ns: isTimed ? known.time[bucket]! : null,
        action: null,
        size_bytes: null,
        allocated_bytes: known.allocated[bucket]!,
        reserved_bytes: known.reserved[bucket] ?? null,
      };
    }
    const tile = await this.ask<TileAnswer>(`tile?${device}&by=${given.get("by")}&axis=event&level=${known.level}&index=${Math.floor(bucket / TILE_BUCKETS)}`);
    return { groups: tile.groups.map((differences) => summed(differences)[bucket % TILE_BUCKETS]!) };
  }

  nearestMoment(file: number, device: number, position: number): number {
    const known = this.known.get(`file=${file}&device=${device}`);
    if (known === undefined) return position;
    const fullest = known.position[nearest(known.position, position)]!;
    const state = this.nearestState(file, device, position);
    return Math.abs(state - position) <= Math.abs(fullest - position) ? state : fullest;
  }

  nearestState(file: number, device: number, position: number): number {
    const moments = this.first[`moments?file=${file}&device=${device}`] as number[] | undefined;
    if (moments === undefined || moments.length === 0) return position;
    return moments[nearest(moments, position)]!;
  }

  comparable(file: number, device: number): number[] {
    return this.first[`key_moments?file=${file}&device=${device}`] as number[];
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

  private historyName(given: URLSearchParams): string {
    return `history-${given.get("file")}-${given.get("device")}`;
  }

  private history(given: URLSearchParams): Promise<History> {
    const name = this.historyName(given);
    let history = this.histories.get(name);
    if (history === undefined) {
      const device = this.meta.files[Number(given.get("file"))]!.devices[Number(given.get("device"))]!;
      history = this.section(name).then((section) => new History(section["history"] as HistoryAnswer, device));
      this.histories.set(name, history);
    }
    return history;
  }

  /** The largest allocations, if not all are in the page. */
  private table(device: string): Promise<AllocationRows> {
    let table = this.tables.get(device);
    if (table === undefined) {
      table = this.section("allocations").then((section) => {
        const all = section[`allocations?${device}`] as Allocations | undefined;
        if (all === undefined) throw new Error("This file contains no allocations: open the recording with gpumemprof view.");
        return rowsOf(all, section[`stacks?${device}`] as Record<string, FrameRow[]>, this.sourcesOf(device));
      });
      this.tables.set(device, table);
    }
    return table;
  }

  private sourcesOf(device: string): string[] {
    const given = new URLSearchParams(device);
    return this.meta.files[Number(given.get("file"))]!.devices[Number(given.get("device"))]!.sources;
  }
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
    name: all.name === undefined ? null : (index) => all.name![index]!,
    tag: all.tag === undefined ? null : (index) => all.tag![index]!,
    stack: stack(all.stack),
    forwardStack: stack(all.forward_stack),
    frames: (id) => (id < 0 ? [] : stacks[String(id)] ?? []),
    label: (index) => all.labels[all.label[index]!]!,
    sources,
    isInGroup: () => true,
  });
}

