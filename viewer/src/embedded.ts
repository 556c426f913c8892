// The page standing alone: answers packed into it when it was written.

import type { Allocation, Allocations, FrameRow, Source } from "./data";

type Section = Record<string, unknown>;

async function unpack(text: string): Promise<Section> {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as Section;
}

/** Nothing where the page has no recording in it. */
export async function openEmbedded(): Promise<EmbeddedSource | null> {
  const packed = new Map<string, string>();
  for (const element of document.querySelectorAll<HTMLScriptElement>("script[data-section]")) {
    packed.set(element.dataset["section"]!, element.textContent!);
    element.remove();
  }
  const first = packed.get("first");
  if (first === undefined) return null;
  return new EmbeddedSource(await unpack(first), packed);
}

interface Matching {
  words: string[];
  minSize: number;
  maxSize: number;
  minLifetime: number;
  maxLifetime: number;
  liveAt: number | null;
  from: number | null;
  to: number | null;
}

export class EmbeddedSource implements Source {
  readonly embedded: { deepest_level: number; left_out: string[] };
  private readonly unpacked = new Map<string, Promise<Section>>();

  constructor(private readonly first: Section, private readonly packed: Map<string, string>) {
    this.embedded = first["embedded"] as EmbeddedSource["embedded"];
  }

  async ask<T>(question: string): Promise<T> {
    if (question in this.first) return this.first[question] as T;
    const [kind, rest = ""] = question.split("?", 2);
    const given = new URLSearchParams(rest);
    if (kind === "allocations") return (await this.allocations(given)) as T;
    if (kind === "allocation") return (await this.allocation(given)) as T;
    if (kind === "bands") return (await this.bands(given)) as T;
    const names = kind === "tile" ? [`level-${given.get("level")}`] : ["moments-0", "moments-1"];
    for (const name of names) {
      const section = await this.section(name);
      if (question in section) return section[question] as T;
    }
    throw new Error("This file does not hold that: open the recording with gpumemprof view.");
  }

  nearestMoment(file: number, device: number, position: number): number {
    const moments = this.first[`moments?file=${file}&device=${device}`] as number[];
    let best = moments[0] ?? position;
    for (const moment of moments) {
      if (Math.abs(moment - position) < Math.abs(best - position)) best = moment;
    }
    return best;
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

  private async rows(given: URLSearchParams): Promise<{ all: Allocations; stacks: Record<string, FrameRow[]> }> {
    const section = await this.section("allocations");
    const device = `file=${given.get("file")}&device=${given.get("device")}`;
    const all = section[`allocations?${device}`] as Allocations | undefined;
    if (all === undefined) throw new Error("This file holds no allocations: open the recording with gpumemprof view.");
    return { all, stacks: section[`stacks?${device}`] as Record<string, FrameRow[]> };
  }

  private async allocations(given: URLSearchParams): Promise<Allocations> {
    const { all, stacks } = await this.rows(given);
    const number = (name: string, fallback: number) => (given.has(name) ? Number(given.get(name)) : fallback);
    const maybe = (name: string) => (given.has(name) ? Number(given.get(name)) : null);
    const matching: Matching = {
      words: (given.get("words") ?? "").toLowerCase().split(/\s+/).filter((word) => word !== ""),
      minSize: number("min_size", 0),
      maxSize: number("max_size", Infinity),
      minLifetime: number("min_lifetime", 0),
      maxLifetime: number("max_lifetime", Infinity),
      liveAt: maybe("live_at"),
      from: maybe("from"),
      to: maybe("to"),
    };
    const texts = new Map<number | null, string>([[null, ""]]);
    for (const [stack, frames] of Object.entries(stacks)) {
      texts.set(Number(stack), frames.map(([name, file]) => `${name}\n${file}`).join("\n").toLowerCase());
    }
    const found: number[] = [];
    for (let index = 0; index < all.row.length; index++) {
      if (matches(all, index, matching, texts)) found.push(index);
    }
    const keys: Record<string, (index: number) => number> = {
      size: (index) => all.size[index]!,
      birth: (index) => all.birth[index]!,
      lifetime: (index) => all.lifetime[index]!,
      rounding: (index) => all.size[index]! - all.requested[index]!,
    };
    const key = keys[given.get("order") ?? "size"] ?? keys["size"]!;
    const sign = given.get("direction") === "up" ? 1 : -1;
    found.sort((a, b) => sign * (key(a) - key(b)) || a - b);
    const offset = number("offset", 0);
    const page = picked(all, found.slice(offset, offset + number("limit", 100)));
    page.matches = found.length;
    page.matching_bytes = found.reduce((sum, index) => sum + all.size[index]!, 0);
    return page;
  }

  private async bands(given: URLSearchParams): Promise<Allocations> {
    const { all } = await this.rows(given);
    const [from, to] = [Number(given.get("from")), Number(given.get("to"))];
    const area = (index: number) =>
      all.size[index]! * (Math.min(to, all.death[index] ?? to) - Math.max(from, all.birth[index]!));
    const alive = all.row.map((_, index) => index).filter((index) => area(index) > 0);
    alive.sort((a, b) => area(b) - area(a));
    return picked(all, alive.slice(0, Number(given.get("most"))).sort((a, b) => all.row[a]! - all.row[b]!));
  }

  private async allocation(given: URLSearchParams): Promise<Allocation> {
    const { all, stacks } = await this.rows(given);
    const index = all.row.indexOf(Number(given.get("row")));
    if (index < 0) throw new Error("This file does not hold that allocation: open the recording with gpumemprof view.");
    const frames = (stack: number | null) => (stack === null ? [] : stacks[String(stack)] ?? []);
    return {
      row: all.row[index]!,
      size: all.size[index]!,
      requested: all.requested[index]!,
      birth: all.birth[index]!,
      death: all.death[index]!,
      birth_ns: all.birth_ns[index]!,
      lifetime: all.lifetime[index]!,
      source: all.source[index]!,
      label: all.labels[all.label[index]!]!,
      frames: frames(all.stack[index]!),
      forward_frames: frames(all.forward_stack[index]!),
    };
  }
}

function matches(all: Allocations, index: number, wanted: Matching, texts: Map<number | null, string>): boolean {
  const size = all.size[index]!;
  const lifetime = all.lifetime[index]!;
  const [birth, death] = [all.birth[index]!, all.death[index] ?? Infinity];
  if (size < wanted.minSize || size > wanted.maxSize) return false;
  if (lifetime < wanted.minLifetime || lifetime > wanted.maxLifetime) return false;
  if (wanted.liveAt !== null && !(birth <= wanted.liveAt && wanted.liveAt < death)) return false;
  if (wanted.to !== null && birth >= wanted.to) return false;
  if (wanted.from !== null && death <= wanted.from) return false;
  const text = (texts.get(all.stack[index]!) ?? "") + "\n" + (texts.get(all.forward_stack[index]!) ?? "");
  return wanted.words.every((word) => text.includes(word));
}

function picked(all: Allocations, indexes: number[]): Allocations {
  const pick = <T>(column: T[]): T[] => indexes.map((index) => column[index]!);
  return {
    matches: indexes.length,
    matching_bytes: 0,
    row: pick(all.row),
    size: pick(all.size),
    requested: pick(all.requested),
    birth: pick(all.birth),
    death: pick(all.death),
    birth_ns: pick(all.birth_ns),
    lifetime: pick(all.lifetime),
    source: pick(all.source),
    stack: pick(all.stack),
    forward_stack: pick(all.forward_stack),
    label: pick(all.label),
    labels: all.labels,
  };
}
