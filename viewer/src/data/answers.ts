// Generated from src/report/view/questions.h and answer_shapes.cpp. The test
// report.ViewerTypes checks it; with GPUMEMPROF_UPDATE_GOLDEN=1 it writes this file.

export const GROUP_BY_VALUES = ["source", "module", "line", "stack", "size"] as const;
export type GroupBy = (typeof GROUP_BY_VALUES)[number];

export const FLAME_BY_VALUES = ["stack", "module", "tag"] as const;
export type FlameBy = (typeof FLAME_BY_VALUES)[number];

export const AXIS_VALUES = ["event", "time"] as const;
export type Axis = (typeof AXIS_VALUES)[number];

export const ORDER_VALUES = ["size", "rounding", "birth", "lifetime"] as const;
export type Order = (typeof ORDER_VALUES)[number];

export const DIRECTION_VALUES = ["down", "up"] as const;
export type Direction = (typeof DIRECTION_VALUES)[number];

/** What the page must know about a device before it can ask for anything. */
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
  /** The most informative first. */
  group_bys: GroupBy[];
  /** By tag only if anything was tagged. */
  flame_bys: FlameBy[];
  /** False: modules are distinguished only by the line of their forward(). */
  has_module_instances: boolean;
  /** What the numbers of sources stand for; empty: none is known. */
  sources: string[];
  /** Too long for memory: only what is live at a moment or in a short range can be listed. */
  is_long?: boolean;
}

/** As in the output of `gpumemprof report --json`, among much else. */
export interface Completeness {
  /** Sentences; empty if nothing is known to be missing. */
  what_is_missing?: string[];
}

export interface FileMeta {
  name: string;
  path: string;
  kind: string;
  cut: string | null;
  completeness: Completeness;
  devices: DeviceMeta[];
}

export interface Meta {
  version: string;
  files: FileMeta[];
}

export interface ReportFrame {
  name: string;
  file: string;
  line: number;
}

export interface ReportStack {
  stack: ReportFrame[];
  bytes: number;
  blocks: number;
}

export interface ReportPeak {
  allocated_bytes: number | null;
  reserved_bytes: number | null;
  event_index: number | null;
}

export interface ReportTotals {
  allocated_bytes: number;
  reserved_bytes: number;
}

export interface ReportPin {
  segments: number;
  free_bytes: number;
  pin_bytes: number;
  frame: ReportFrame | null;
}

export interface ReportPins {
  lines: ReportPin[];
}

export interface ReportMoment {
  free: Record<string, unknown>;
  pins: ReportPins;
  live?: ReportStack[];
}

export interface ReportOom {
  event_index: number | null;
  wanted_bytes: number;
  reserved_bytes: number;
  largest_free_bytes: number;
  cause: string;
}

export interface ReportDevice {
  device: string;
  events: number;
  peak: ReportPeak;
  peak_reserved_bytes: number | null;
  end: ReportTotals;
  counters: Record<string, number | null>;
  live_at_peak: ReportStack[] | null;
  at: ReportMoment;
  oom_reports: ReportOom[];
}

/** The parts of `gpumemprof report --json` that the page shows. */
export interface ReportData {
  devices: ReportDevice[];
}

/** The report as data and as text. */
export interface Report {
  report: ReportData;
  text: string;
}

/** Name, file, line, and 1 for the user's own code. */
export type FrameRow = [string, string, number, number];

export interface Group {
  label: string;
  is_rest: boolean;
  /** By stack. */
  frames?: FrameRow[];
}

export interface Groups {
  by: GroupBy;
  groups: Group[];
}

/** As sent: deltas from bucket to bucket. */
export interface TileAnswer {
  min: number[];
  max: number[];
  position: number[];
  /** Empty: the device has no pool. */
  reserved: number[];
  groups: number[][];
}

export type SpanKind = "step" | "phase" | "evaluation" | "annotation";

export interface Span {
  name: string;
  from: number;
  to: number;
  from_ns: number | null;
  to_ns: number | null;
  lane: number;
  kind: SpanKind;
  /** If several narrower than a pixel are merged into one: how many. */
  count?: number;
  /** The last of them. */
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
  allocated_bytes: number;
  reserved_bytes: number | null;
}

/** What each group holds at a moment. */
export interface GroupBytes {
  groups: number[];
}

/** Name, file, line, label; a module instance or a tag has only the name, and line 0; null: none was recorded. */
export type FlameFrame = [string, string, number, string] | null;

export interface Flame {
  position: number;
  allocated_bytes: number;
  blocks: number;
  nodes_left_out: number;
  frames: FlameFrame[];
  /** -1: none. */
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

/** Blocks tile their segments, so their sizes give their places. */
export interface Segments {
  position: number;
  reserved_bytes: number;
  allocated_bytes: number;
  waiting_bytes: number;
  free_bytes: number;
  segments: SegmentRow[];
  size: number[];
  /** -1: free. */
  row: number[];
  /** -1 - group: waiting for a stream. */
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
  /** Of a long run: freed later than was read, or never; its lifetime is longer. */
  goes_on?: boolean[];
  birth_ns: (number | null)[];
  lifetime: number[];
  source: (number | null)[];
  stack: (number | null)[];
  forward_stack: (number | null)[];
  label: number[];
  /** Of tensors. */
  name: (string | null)[];
  tag: (string | null)[];
  labels: string[];
}

export interface Allocation {
  row: number;
  /** Unknown in a page that holds only part of the history, as are other optional ones. */
  address?: string;
  size: number;
  requested: number;
  birth: number;
  death: number | null;
  /** As in a list. */
  goes_on?: boolean;
  reusable?: number | null;
  birth_ns: number | null;
  death_ns?: number | null;
  lifetime: number;
  stream?: string | null;
  source: number | null;
  is_source_measured?: boolean | null;
  name: string | null;
  tag: string | null;
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
  /** By stack. */
  frames?: FrameRow[];
}

export interface Comparison {
  groups: ComparedGroup[];
  groups_left_out: number;
  first_bytes: number;
  second_bytes: number;
}

/** What a standalone page says about itself. */
export interface Embedded {
  deepest_level: number;
  /** Sentences. */
  left_out: string[];
}

/** The moments that a standalone page without the whole history knows: one for each bucket of a level. As sent: deltas. */
export interface KnownMoments {
  level: number;
  position: number[];
  allocated: number[];
  reserved: number[];
  time_ns: number[];
}

/** The tree of a whole run's flame graphs, and the node of each allocation. */
export interface FlameColumns {
  parent: number[];
  frame: number[];
  /** For module instances and tags, as indices into `names`. */
  name?: number[];
  names?: string[];
  of_row: number[];
}

export interface SegmentColumns {
  address: number[];
  size: number[];
  birth: number[];
  death: number[];
  stream: number[];
  is_small: number[];
  is_expandable: number[];
  pool: number[];
  pools: ([number, number] | null)[];
}

export interface GroupingColumns {
  count: number;
  /** The group of bytes beyond what was requested; -1: none. */
  rounding: number;
  of_row: number[];
}

/** A device's whole history. As sent: deltas from row to row. */
export interface HistoryAnswer {
  address: number[];
  size: number[];
  requested: number[];
  birth: number[];
  death: number[];
  reusable: number[];
  stack: number[];
  forward_stack: number[];
  stream: number[];
  streams: string[];
  source?: number[];
  is_measured?: number[];
  name?: number[];
  names?: string[];
  tag?: number[];
  tags?: string[];
  /** Rows, not deltas. */
  pending_at_start: number[];
  /** Of events. */
  time_ns?: number[];
  segments: SegmentColumns;
  groupings: Record<string, GroupingColumns>;
  flame_stack: FlameColumns;
  flame_module: FlameColumns;
  /** If anything was tagged. */
  flame_tag?: FlameColumns;
  labels: string[];
  stack_caller: number[];
  stack_frame: number[];
  /** Name, file, line, own, label, file as stacks show it. */
  frames: [string, string, number, number, string, string][];
}
