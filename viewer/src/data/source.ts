// What the page reads: questions and answers, the same from a server and from the page itself.

import type { Completeness } from "../page/completeness";

export interface DeviceMeta {
  name: string;
  events: number;
  allocations: number;
  duration_ns: number | null;
  deepest_level: number;
  has_history: boolean;
  has_pool: boolean;
  exact_from_event: number | null;
  peak_position: number;
  peak_bytes: number;
  peak_reserved_bytes: number | null;
  group_bys: string[];
  /** How the flame graph can be split: "stack", "module", and "tag" if anything was tagged. */
  flame_bys: string[];
  /** False: modules are distinguished only by the line of their forward(). */
  has_module_instances: boolean;
  sources: string[];
}

export interface FileMeta {
  name: string;
  path: string;
  kind: string;
  cut: string | null;
  completeness?: Completeness;
  devices: DeviceMeta[];
}

export interface Meta {
  version: string;
  files: FileMeta[];
}

/** Name, file, line, and whether it is the user's own code. */
export type FrameRow = [string, string, number, number];

export interface Group {
  label: string;
  is_rest: boolean;
  frames?: FrameRow[];
}

export interface Groups {
  by: string;
  groups: Group[];
}

/** As sent: deltas from bucket to bucket. */
export interface TileAnswer {
  min: number[];
  max: number[];
  position: number[];
  reserved: number[];
  groups: number[][];
}

export interface Span {
  name: string;
  from: number;
  to: number;
  from_ns: number | null;
  to_ns: number | null;
  lane: number;
  kind: "step" | "phase" | "evaluation" | "annotation";
  /** If several narrower than a pixel are merged into one: how many, and the last. */
  count?: number;
  last_name?: string;
}

export interface SpanTile {
  spans: Span[];
  left_out: number;
}

export interface OverlayOom {
  position: number;
  time_ns: number | null;
  wanted_bytes: number;
  allocated_bytes: number;
  reserved_bytes: number;
  label: string;
}

export interface TimelineOverlays {
  lanes: number;
  spans: number;
  spans_too_deep: number;
  ooms: OverlayOom[];
  ooms_left_out: number;
  card_bytes: number | null;
  limit_bytes: number | null;
  is_limit_inferred: boolean;
}

export interface Moment {
  position: number;
  time_ns: number | null;
  action: string | null;
  size_bytes: number | null;
  allocated_bytes: number;
  reserved_bytes: number | null;
}

/** What each group holds at a moment. */
export interface Held {
  groups: number[];
}

export interface Flame {
  position: number;
  allocated_bytes: number;
  blocks: number;
  nodes_left_out: number;
  /** Name, file, line, label; for a module instance or a tag only the name, with line 0; null: none was recorded. */
  frames: ([string, string, number, string] | null)[];
  parent: number[];
  frame: number[];
  bytes: number[];
  self_bytes: number[];
  node_blocks: number[];
}

export interface SegmentRow {
  address: string;
  size: number;
  free: number;
  stream: string;
  pool: [number, number] | null;
  is_small: boolean;
  is_expandable: boolean;
  pin: number | null;
  blocks: number;
}

export interface Segments {
  position: number;
  reserved_bytes: number;
  allocated_bytes: number;
  waiting_bytes: number;
  free_bytes: number;
  segments: SegmentRow[];
  size: number[];
  /** -1: free */
  row: number[];
  /** -1 - group: waiting for a stream */
  group: number[];
  label: number[];
  labels: string[];
}

export interface Allocations {
  matches: number;
  matching_bytes: number;
  row: number[];
  size: number[];
  requested: number[];
  birth: number[];
  death: (number | null)[];
  birth_ns: (number | null)[];
  lifetime: number[];
  source: (number | null)[];
  stack: (number | null)[];
  forward_stack: (number | null)[];
  label: number[];
  labels: string[];
  /** Of tensors, if any has one. */
  name?: (string | null)[];
  tag?: (string | null)[];
}

export interface Allocation {
  row: number;
  address?: string;
  size: number;
  requested: number;
  birth: number;
  death: number | null;
  reusable?: number | null;
  birth_ns: number | null;
  death_ns?: number | null;
  lifetime: number;
  stream?: string | null;
  source: number | null;
  is_source_measured?: boolean | null;
  name?: string | null;
  tag?: string | null;
  module?: string | null;
  label: string;
  frames: FrameRow[];
  forward_frames: FrameRow[];
}

export interface ComparedGroup {
  label: string;
  first_bytes: number;
  first_blocks: number;
  second_bytes: number;
  second_blocks: number;
  frames?: FrameRow[];
}

export interface Comparison {
  groups: ComparedGroup[];
  groups_left_out: number;
  first_bytes: number;
  second_bytes: number;
}

export interface Report {
  report: ReportData;
  text: string;
}

/** The parts of `gpumemprof report --json` that the page shows. */
export interface ReportData {
  input: { kind: string; path: string; events: number; exact_from_event: number | null };
  devices: ReportDevice[];
}

export interface ReportStack {
  stack: { name: string; file: string; line: number }[];
  bytes: number;
  blocks: number;
}

export interface ReportDevice {
  device: string;
  events: number;
  peak: { allocated_bytes: number | null; reserved_bytes: number | null; event_index: number | null };
  peak_reserved_bytes: number | null;
  end: { allocated_bytes: number; reserved_bytes: number };
  counters: Record<string, number | null>;
  live_at_peak: ReportStack[] | null;
  at: {
    free: Record<string, number | unknown>;
    pins: {
      lines: { segments: number; free_bytes: number; pin_bytes: number; frame: { name: string; file: string; line: number } | null }[];
    };
    live?: ReportStack[];
  };
  oom_reports: { event_index: number | null; wanted_bytes: number; reserved_bytes: number; largest_free_bytes: number; cause: string }[];
  sources?: unknown;
}

/** Where answers come from. */
export interface Source {
  /** What is missing because the page is standalone; null if a server answers everything. */
  readonly embedded: { deepest_level: number; left_out: string[] } | null;
  ask<T>(question: string): Promise<T>;
  /** Whether every event of a device is known, not only a selection of moments. */
  isWhole(file: number, device: number): boolean;
  /** The deepest known level of spans; null: as deep as the timeline. */
  spanLevels(file: number, device: number): number | null;
  /** The nearest moment that the cursor can go to. */
  nearestMoment(file: number, device: number, position: number): number;
  /** The nearest moment whose flame graph and segments are known. */
  nearestState(file: number, device: number, position: number): number;
  /** Moments that may be compared; null: all. */
  comparable(file: number, device: number): number[] | null;
}

const REMEMBERED = 400;
// Long answers that are rarely requested again.
const FORGOTTEN = /^bands\?/;

/** Caches answers, so that going back costs nothing. */
export class CachedSource implements Source {
  private readonly answers = new Map<string, Promise<unknown>>();
  /** Called with the error when a question gets no answer. */
  onFailure: ((error: Error) => void) | null = null;
  constructor(private readonly source: Source) {}

  get embedded() {
    return this.source.embedded;
  }
  isWhole(file: number, device: number): boolean {
    return this.source.isWhole(file, device);
  }
  spanLevels(file: number, device: number): number | null {
    return this.source.spanLevels(file, device);
  }
  nearestMoment(file: number, device: number, position: number): number {
    return this.source.nearestMoment(file, device, position);
  }
  nearestState(file: number, device: number, position: number): number {
    return this.source.nearestState(file, device, position);
  }
  comparable(file: number, device: number): number[] | null {
    return this.source.comparable(file, device);
  }
  ask<T>(question: string): Promise<T> {
    if (FORGOTTEN.test(question)) return this.source.ask<T>(question);
    let answer = this.answers.get(question);
    if (answer === undefined) {
      answer = this.source.ask<T>(question);
      answer.catch((error: Error) => {
        this.answers.delete(question);
        if (error instanceof ServerGone) this.onFailure?.(error);
      });
    } else {
      this.answers.delete(question);
    }
    this.answers.set(question, answer);
    if (this.answers.size > REMEMBERED) this.answers.delete(this.answers.keys().next().value!);
    return answer as Promise<T>;
  }
}

/** The server no longer answers. */
export class ServerGone extends Error {}

/**
 * The token from the address, kept only for this tab and this server and removed from the address, where it would stay
 * in the history, in bookmarks and on every shared screen.
 */
function takeToken(): string {
  const key = "gpumemprof-token";
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  if (given === null) return sessionStorage.getItem(key) ?? "";
  sessionStorage.setItem(key, given);
  address.searchParams.delete("token");
  history.replaceState(history.state, "", address);
  return given;
}

/** gpumemprof view, on this machine or at the other end of an ssh tunnel. */
export class ServerSource implements Source {
  readonly embedded = null;
  private readonly token = takeToken();

  async ask<T>(question: string): Promise<T> {
    const joint = question.includes("?") ? "&" : "?";
    let response: Response;
    try {
      response = await fetch(`/api/${question}${joint}token=${encodeURIComponent(this.token)}`);
    } catch {
      throw new ServerGone("gpumemprof view no longer answers: start it again and open the URL it prints.");
    }
    if (response.ok) return (await response.json()) as T;
    if (response.headers.get("content-type")?.startsWith("application/json")) {
      throw new Error(((await response.json()) as { error: string }).error);
    }
    throw new Error(await response.text());
  }
  isWhole(): boolean {
    return true;
  }
  spanLevels(): null {
    return null;
  }
  nearestMoment(_file: number, _device: number, position: number): number {
    return position;
  }
  nearestState(_file: number, _device: number, position: number): number {
    return position;
  }
  comparable(): null {
    return null;
  }
}
