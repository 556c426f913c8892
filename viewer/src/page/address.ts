// The part of the address after "#": everything needed to restore what is shown.

import { AXIS_VALUES, DIRECTION_VALUES, GROUP_BY_VALUES, RANGE_PART_VALUES } from "../data/answers";
import { FLAME_SHAPES, MOST_SEARCHED, ORDERS, SCOPES, VIEWS, type PickedRange, type Side, type State } from "./state";

/** Of what is visible: what an address can tell apart. */
const LEAST_WIDTH = 1e-11;
/** No machine has more. */
const MOST_FIT_GIB = 2 ** 20;

function choice<T extends string>(values: readonly T[], given: string | null, fallback: T): T {
  return values.find((value) => value === given) ?? fallback;
}

/** Values that make no sense are ignored. */
export function readAddress(state: State, hash: string): void {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name: string): number | null => {
    const value = Number(given.get(name) ?? NaN);
    return Number.isFinite(value) ? value : null;
  };
  const { meta } = state;
  const [file, device] = [number("file") ?? 0, number("device") ?? 0];
  const isThere = meta.files[file]?.devices[device] !== undefined;
  const first = meta.files.findIndex((any) => any.devices.length > 0);
  [state.file, state.device] = isThere ? [file, device] : [first, 0];
  // A range without an axis is one of time, whatever this run is usually shown on.
  state.axis = choice(AXIS_VALUES, given.get("axis"), given.has("from") ? "time" : state.usualAxis);
  state.by = choice([...GROUP_BY_VALUES, "allocation"], given.get("by"), state.current.group_bys[0]!);
  state.colour = choice([...GROUP_BY_VALUES, "stream", "age"], given.get("colour"), state.current.group_bys[0]!);
  state.startDevice();
  state.view = choice(VIEWS, given.get("view"), "timeline");
  const [from, to] = [number("from"), number("to")];
  if (from !== null && to !== null && from >= 0 && to <= 1 && to - from >= LEAST_WIDTH) [state.from, state.to] = [from, to];
  const at = number("at");
  if (at !== null) state.cursor = state.source.nearestMoment(state.file, state.device, Math.min(Math.max(0, Math.round(at)), state.current.events));
  const row = number("allocation");
  if (row !== null && Number.isSafeInteger(row) && row >= 0 && (state.current.is_long === true || row < state.current.allocations)) state.selected = row;
  const group = number("group");
  if (group !== null && Number.isInteger(group) && group >= 0 && group < 16) state.highlighted = group;
  state.search = (given.get("search") ?? "").slice(0, MOST_SEARCHED);
  state.flameBy = choice(state.current.flame_bys, given.get("flame"), "stack");
  state.scope = choice(SCOPES, given.get("scope"), "all");
  state.order = choice(ORDERS, given.get("sort"), "size");
  state.direction = choice(DIRECTION_VALUES, given.get("direction"), "down");
  state.first = readSide(state, given.get("a"));
  state.second = readSide(state, given.get("b"));
  state.compareBy = GROUP_BY_VALUES.find((by) => by === given.get("compare")) ?? null;
  state.focus = given.get("focus");
  state.picked = readRange(state, given.get("range"));
  state.flameOf = state.picked === null ? "live" : choice(["live", ...RANGE_PART_VALUES], given.get("of"), "live");
  state.flameShape = choice(FLAME_SHAPES, given.get("shape"), "calls");
  state.around = given.get("around");
  state.isDifferenceFlame = given.get("as") === "flame";
  state.hasSegmentHistory = given.get("history") === "on";
  state.hasSettings = given.get("settings") === "on";
  state.openSteps = (given.get("open") ?? "").split(",").filter((step) => /^\d{1,9}$/.test(step)).map(Number);
  state.segmentZoom = Math.min(Math.max(number("zoom") ?? 1, 1), 64);
  state.remedies = (given.get("with") ?? "").split(" ").filter((name) => /^[\w.]+$/.test(name));
  const fit = number("fit");
  state.fitBytes = fit !== null && fit > 0 && fit <= MOST_FIT_GIB ? Math.max(1, Math.round(fit * 2 ** 30)) : null;
}

/** "file.device.position", of a range "file.device.from-position" */
function readSide(state: State, text: string | null): Side | null {
  const match = /^(\d+)\.(\d+)\.(?:(\d+)-)?(\d+)$/.exec(text ?? "");
  if (match === null) return null;
  const [file, device, position] = [match[1], match[2], match[4]].map(Number) as [number, number, number];
  const found = state.meta.files[file]?.devices[device];
  if (found === undefined || position > found.events) return null;
  if (match[3] === undefined) return { file, device, position };
  const from = Number(match[3]);
  return from > position ? null : { file, device, position, from };
}

/** "from-to" */
function readRange(state: State, text: string | null): PickedRange | null {
  const match = /^(\d+)-(\d+)$/.exec(text ?? "");
  if (match === null) return null;
  const [from, to] = match.slice(1).map(Number) as [number, number];
  return from < to && to <= state.current.events ? { from, to } : null;
}

export function writeAddress(state: State): string {
  const words = new URLSearchParams({ view: state.view });
  const set = (name: string, value: string | number | null, usual: string | number | null) => {
    if (value !== null && value !== usual) words.set(name, String(value));
  };
  const side = (given: Side | null) => (given === null ? null : `${given.file}.${given.device}.${given.from === undefined ? "" : `${given.from}-`}${given.position}`);
  set("file", state.file, 0);
  set("device", state.device, 0);
  if (state.axis !== "time" || state.usualAxis !== "time") words.set("axis", state.axis);
  set("by", state.by, state.current.group_bys[0]!);
  set("flame", state.flameBy, "stack");
  if (state.from > 0 || state.to < 1) {
    words.set("from", state.from.toPrecision(12));
    words.set("to", state.to.toPrecision(12));
  }
  words.set("at", String(state.cursor));
  set("allocation", state.selected, null);
  set("group", state.highlighted, null);
  set("search", state.search, "");
  set("scope", state.scope, "all");
  set("sort", state.order, "size");
  set("direction", state.direction, "down");
  set("a", side(state.first), null);
  set("b", side(state.second), null);
  set("compare", state.compareBy, null);
  set("focus", state.focus, null);
  if (state.remedies.length > 0) words.set("with", state.remedies.join(" "));
  set("fit", state.fitBytes === null ? null : state.fitBytes / 2 ** 30, null);
  set("colour", state.colour, state.current.group_bys[0]!);
  if (state.picked !== null) words.set("range", `${state.picked.from}-${state.picked.to}`);
  set("of", state.flameOf, "live");
  set("shape", state.flameShape, "calls");
  set("around", state.around, null);
  if (state.isDifferenceFlame) words.set("as", "flame");
  if (state.hasSegmentHistory) words.set("history", "on");
  if (state.hasSettings) words.set("settings", "on");
  if (state.openSteps.length > 0) words.set("open", state.openSteps.join(","));
  if (state.segmentZoom > 1) words.set("zoom", state.segmentZoom.toPrecision(4));
  return `#${words.toString()}`;
}
