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

export const RANGE_PART_VALUES = ["allocated", "freed", "survived"] as const;
export type RangePart = (typeof RANGE_PART_VALUES)[number];

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
  /** Then: the finest interval that its index knows. */
  index_events?: number;
  /** Then: the longest range that can be listed. */
  listed_events?: number;
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

/** A line whose memory grows; empty fields are null. */
export interface LeakSite {
  file: string | null;
  line: number | null;
  function: string | null;
  is_backward: boolean;
  bytes_per_step: number;
  bytes: number;
  blocks: number;
  first_step: number;
  oldest_age_steps: number;
  source: string;
  held_by: string | null;
  advice: string;
  doubt: string | null;
  steps_to_oom: number | null;
}

export interface ReportLeaks {
  verdict: string;
  lines: number;
  sites: LeakSite[];
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
  leaks: ReportLeaks | null;
  oom_reports: ReportOom[];
}

/** The parts of `gpumemprof report --json` that the page shows. */
export interface ReportData {
  devices: ReportDevice[];
}

/** What the report says first about a device, in its words; empty where it says nothing. */
export interface DeviceVerdict {
  device: string;
  failure: string;
  failure_details: string[];
  /** What to do about the failure. */
  remedy: string;
  command: string;
  peak: string;
  growth: string;
  /** The program ran without a GPU: estimated, not measured. */
  is_predicted: boolean;
}

/** The report as data and as text, and its first sentences. */
export interface Report {
  report: ReportData;
  text: string;
  verdicts: DeviceVerdict[];
}

/** Name, file, line, and 1 for the user's own code. */
export type FrameRow = [string, string, number, number];

export interface Group {
  label: string;
  is_rest: boolean;
  /** Of a long run: all memory where the timeline shows too much of it. */
  is_undivided?: boolean;
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

/** As in the output of `gpumemprof report --json`. */
export interface StepPhase {
  phase: string;
  first_event: number;
  last_event: number;
  peak_bytes: number;
  peak_event: number | null;
  live_bytes: number;
  saved_for_backward_bytes: number | null;
}

/** As in the output of `gpumemprof report --json`, and when it was. */
export interface StepRow {
  /** From 1; 0: before the first step. */
  step: number;
  first_event: number;
  last_event: number;
  peak_bytes: number;
  peak_event: number | null;
  /** The least allocated in it. */
  floor_bytes: number;
  /** After its last event. */
  live_bytes: number;
  saved_for_backward_bytes: number;
  from_ns: number | null;
  to_ns: number | null;
  phases: StepPhase[];
}

export interface GrowthFrame {
  file: string;
  line: number;
  name: string;
}

export interface GrowthLine {
  frame: GrowthFrame | null;
  is_backward: boolean;
  since_step: number;
  bytes_per_step: number;
  grown_bytes: number;
}

export interface StepGrowth {
  is_growing: boolean;
  steps: number;
  since_step: number | null;
  last_step: number;
  bytes_per_step: number;
  grown_bytes: number;
  lines: GrowthLine[];
}

/** What the leaking lines hold at the floor of each step. */
export interface LeakSeries {
  step: number[];
  /** By line, in the order of the report's sites, then by step. */
  bytes: number[][];
}

export interface StepsAnswer {
  steps: StepRow[];
  /** Steps between those that are listed. */
  left_out: number;
  run_kind: string;
  /** Null: too few steps to tell. */
  growth: StepGrowth | null;
  leaks: ReportLeaks | null;
  series: LeakSeries | null;
}

export interface Band {
  low_bytes: number;
  high_bytes: number;
}

/** As in the output of `gpumemprof advise --json`. */
export interface AdvisedRemedy {
  name: string;
  title: string;
  cost: string;
  predicted_peak_allocated_bytes: number | null;
  predicted_peak_allocated_band: Band | null;
  predicted_peak_reserved_bytes: number | null;
  predicted_peak_reserved_band: Band | null;
  at_least_peak_allocated_bytes: number | null;
  saving_bytes: number | null;
  slowdown_pct: number | null;
  slowdown_provenance: string | null;
  provenance: string;
  why: string;
  how: string;
  how_trainer: string | null;
}

export interface RemedyCode {
  name: string;
  how: string;
  how_trainer: string | null;
}

/** The cheapest remedies that fit; null where none does. */
export interface FitPlan {
  limit_bytes: number;
  is_found: boolean;
  refusal: string | null;
  remedies: string[] | null;
  predicted_peak_allocated_bytes: number | null;
  predicted_peak_allocated_band: Band | null;
  predicted_peak_reserved_bytes: number | null;
  predicted_peak_reserved_band: Band | null;
  slowdown_pct: number | null;
  code: RemedyCode[] | null;
}

export interface AdviceBaseline {
  peak_allocated_bytes: number;
  peak_reserved_bytes: number | null;
}

export interface CompletedPeak {
  peak_allocated_bytes: number;
  peak_reserved_bytes: number | null;
  how: string;
}

/** Of a run too long for memory: the part that remedies are tried on. */
export interface AdvisedExcerpt {
  device: string;
  from_event: number;
  to_event: number;
  first_step: number | null;
  last_step: number | null;
  events_of_run: number;
}

export interface AdvisedPart {
  /** Null: the whole run. */
  excerpt: AdvisedExcerpt[] | null;
}

/** The parts of `gpumemprof advise --json` that the page shows. */
export interface AdviceData {
  completeness: AdvisedPart;
  baseline: AdviceBaseline;
  completed: CompletedPeak | null;
  partial: string | null;
  remedies: AdvisedRemedy[];
  fit: FitPlan | null;
  missing: string[];
}

export interface AdviceAnswer {
  /** A sentence, if remedies cannot be tried on this recording. */
  refusal: string | null;
  advice: AdviceData | null;
  /** Of two remedies of one family, only one can be applied. */
  families: Record<string, string>;
}

export interface TogetherAnswer {
  /** A sentence, if they cannot be predicted together. */
  refusal: string | null;
  remedy: AdvisedRemedy | null;
  /** Of the run: where the first stretch begins. */
  first_event: number;
  events_per_point: number;
  /** Predicted: the most allocated in each stretch of so many recorded events. As sent: deltas. Empty: only the peak is predicted. */
  most_bytes: number[];
  /** When each stretch starts; empty: unknown. As sent: deltas. */
  time_ns: number[];
}

/** Allocations drawn as bands of their own, in order of birth. */
export interface Singles {
  /** All that are live somewhere in the range; null: of a long run, not known. */
  matches: number | null;
  /** 0: exact. Otherwise, of a long run: only what was live at two moments that are so many events apart is here, up to the last of these moments. */
  spacing: number;
  row: number[];
  size: number[];
  requested: number[];
  birth: number[];
  /** null: not before the end of the range. */
  death: (number | null)[];
  group: number[];
  /** Numbers of streams. */
  stream: number[];
  /** Their handles. */
  streams: string[];
}

export interface RangeGroup {
  label: string;
  allocated_bytes: number;
  allocated_blocks: number;
  freed_bytes: number;
  freed_blocks: number;
  survived_bytes: number;
  survived_blocks: number;
}

/** What one line allocated and another freed. */
export interface RangeMove {
  allocated_at: string;
  freed_at: string;
  bytes: number;
  blocks: number;
}

/** What happened between two moments. */
export interface Range {
  from: number;
  to: number;
  /** Allocated at its start. */
  from_bytes: number;
  /** And at its end. */
  to_bytes: number;
  peak_position: number;
  peak_bytes: number;
  /** Its label is empty. */
  all: RangeGroup;
  /** The largest first. */
  lines: RangeGroup[];
  lines_left_out: number;
  /** Empty: they are not known. */
  sources: RangeGroup[];
  /** Unknown in a standalone page. */
  moves?: RangeMove[];
  moves_left_out?: number;
}

/** Of what survived a range. */
export interface RangeKept {
  label: string;
  bytes: number;
  blocks: number;
}

/** What is known of a long range before all of it was read. */
export interface RangeSoFar {
  from: number;
  to: number;
  from_bytes: number;
  to_bytes: number;
  survived_bytes: number;
  survived_blocks: number;
  /** The largest first. */
  lines: RangeKept[];
  lines_left_out: number;
  /** Empty: they are not known. */
  sources: RangeKept[];
}

/** Instead of an answer that takes a while. */
export interface Working {
  what: string;
  done: number;
  /** 0: not known. */
  total: number;
  so_far: RangeSoFar | null;
}

export interface SimulatedRun {
  /** As in PYTORCH_CUDA_ALLOC_CONF; empty: the defaults. */
  alloc_conf: string;
  peak_reserved_bytes: number;
  ooms: number;
  /** The settings that the run had. */
  is_recorded: boolean;
}

/** Of a run too long for memory: what is simulated, around its peak. */
export interface SimulatedPart {
  from_event: number;
  to_event: number;
  first_step: number | null;
  last_step: number | null;
}

export interface SimulatedSettings {
  /** Simulated under its own settings, the run is the recorded one to the byte. */
  is_exact: boolean;
  /** Why nothing was simulated. */
  why_not: string | null;
  /** Null: the whole run. */
  part: SimulatedPart | null;
  /** The recorded settings first. */
  runs: SimulatedRun[];
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
