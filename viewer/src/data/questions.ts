// Generated from src/report/view/questions.h and answer_shapes.cpp. The test
// report.ViewerTypes checks it; with GPUMEMPROF_UPDATE_GOLDEN=1 it writes this file.

import type * as answers from "./answers";

/** Buckets in a tile of the timeline. */
export const TILE_BUCKETS = 512;
/** The most that one answer lists. */
export const MOST_BANDS = 20000;
/** What a flame graph leaves out. */
export const FLAME_LIMITS = { nodes: 4000, levels: 400, finestShare: 8000 } as const;
/** Labels of what has no stack, no line, no module, and of what backward allocated. */
export const NO_STACK = "no stack recorded";
export const NO_LINE = "no Python stack";
export const NO_MODULE = "outside any module";
export const IN_BACKWARD = "in backward of ";
/** What sources of memory are called, by the name that data has for them. */
export const SOURCE_LABELS: Readonly<Record<string, string>> = {
  parameters: "parameters",
  gradients: "gradients",
  optimizer_state: "optimizer state",
  activations: "activations",
  kv_cache: "KV cache",
  communication: "communication",
  inputs: "inputs",
  workspace: "workspace",
  temporaries: "temporaries",
  unknown: "unknown",
};

/** Every question: what it asks and what is answered. */
export interface Questions {
  meta: { asks: object; answer: answers.Meta };
  report: { asks: { file: number }; answer: answers.Report };
  groups: { asks: { file: number; device: number; by: answers.GroupBy }; answer: answers.Groups };
  tile: { asks: { file: number; device: number; by: answers.GroupBy; axis: answers.Axis; level: number; index: number }; answer: answers.TileAnswer };
  spans: { asks: { file: number; device: number; axis: answers.Axis; level: number; index: number }; answer: answers.SpanTile };
  overlays: { asks: { file: number; device: number }; answer: answers.TimelineOverlays };
  moment: { asks: { file: number; device: number; position: number }; answer: answers.Moment };
  group_bytes: { asks: { file: number; device: number; position: number; by: answers.GroupBy }; answer: answers.GroupBytes };
  flame: { asks: { file: number; device: number; position: number; by: answers.FlameBy }; answer: answers.Flame };
  segments: { asks: { file: number; device: number; position: number; by: answers.GroupBy }; answer: answers.Segments };
  allocations: { asks: { file: number; device: number; min_size?: number; max_size?: number; min_lifetime?: number; max_lifetime?: number; words?: string; live_at?: number; from?: number; to?: number; by?: answers.GroupBy; group?: number; order?: answers.Order; direction?: answers.Direction; offset?: number; limit?: number }; answer: answers.Allocations };
  allocation: { asks: { file: number; device: number; row: number }; answer: answers.Allocation };
  singles: { asks: { file: number; device: number; from: number; to: number; by: answers.GroupBy; axis: answers.Axis; least_bytes?: number; least_length?: number; most?: number }; answer: answers.Singles };
  range: { asks: { file: number; device: number; from: number; to: number }; answer: answers.Range };
  range_flame: { asks: { file: number; device: number; from: number; to: number; part: answers.RangePart; by: answers.FlameBy }; answer: answers.Flame };
  settings: { asks: { file: number; device: number }; answer: answers.SimulatedSettings };
  compare: { asks: { file: number; device: number; position: number; file2: number; device2: number; position2: number; by: answers.GroupBy }; answer: answers.Comparison };
  steps: { asks: { file: number; device: number }; answer: answers.StepsAnswer };
  advice: { asks: { file: number; device: number; fit?: number }; answer: answers.AdviceAnswer };
  together: { asks: { file: number; device: number; remedies: string }; answer: answers.TogetherAnswer };
}

/** Parameters in the order in which a question is written. */
export const PARAMETERS = {
  meta: [],
  report: ["file"],
  groups: ["file", "device", "by"],
  tile: ["file", "device", "by", "axis", "level", "index"],
  spans: ["file", "device", "axis", "level", "index"],
  overlays: ["file", "device"],
  moment: ["file", "device", "position"],
  group_bytes: ["file", "device", "position", "by"],
  flame: ["file", "device", "position", "by"],
  segments: ["file", "device", "position", "by"],
  allocations: ["file", "device", "min_size", "max_size", "min_lifetime", "max_lifetime", "words", "live_at", "from", "to", "by", "group", "order", "direction", "offset", "limit"],
  allocation: ["file", "device", "row"],
  singles: ["file", "device", "from", "to", "by", "axis", "least_bytes", "least_length", "most"],
  range: ["file", "device", "from", "to"],
  range_flame: ["file", "device", "from", "to", "part", "by"],
  settings: ["file", "device"],
  compare: ["file", "device", "position", "file2", "device2", "position2", "by"],
  steps: ["file", "device"],
  advice: ["file", "device", "fit"],
  together: ["file", "device", "remedies"],
} as const satisfies { [Name in keyof Questions]: readonly (keyof Questions[Name]["asks"])[] };
