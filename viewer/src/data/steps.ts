// Steps by number and by moment, from the spans above the timeline: the same for a server and a standalone page.

import type { State } from "../page/state";
import type { Span } from "./answers";
import { TILE_BUCKETS } from "./questions";

export interface Step {
  name: string;
  number: number;
  from: number;
  to: number;
}

interface DeviceName {
  file: number;
  device: number;
}

function deviceOf(state: State, { file, device }: DeviceName) {
  return state.meta.files[file]!.devices[device]!;
}

/** The finest level, at which no step that has an event is merged with others. */
function levelOf(state: State, name: DeviceName): number {
  const positions = deviceOf(state, name).events + 1;
  const finest = Math.max(0, Math.ceil(Math.log2(positions / TILE_BUCKETS)));
  return Math.min(finest, deviceOf(state, name).deepest_level, state.source.spanLevels(name.file, name.device) ?? finest);
}

async function stepsIn(state: State, name: DeviceName, level: number, index: number): Promise<Span[]> {
  const { file, device } = name;
  const { spans } = await state.source.ask("spans", { file, device, axis: "event", level, index });
  return spans.filter(({ kind }) => kind === "step");
}

const numberOf = (name: string) => Number(/^step (\d+)$/.exec(name)?.[1] ?? NaN);

function made(span: Span): Step | null {
  return (span.count ?? 1) > 1 ? null : { name: span.name, number: numberOf(span.name), from: span.from, to: span.to };
}

/** The step in which the event before a position lies; null: none, or it is not known here. */
export async function stepAt(state: State, name: DeviceName, position: number): Promise<Step | null> {
  const level = levelOf(state, name);
  const positions = deviceOf(state, name).events + 1;
  const index = Math.min(2 ** level - 1, Math.floor((position * 2 ** level) / positions));
  const span = (await stepsIn(state, name, level, index)).find(({ from, to }) => from < position && position <= to);
  return span === undefined ? null : made(span);
}

/** The step with a number; null: there is none. Tiles are in order of time, as steps are. */
export async function stepNumbered(state: State, name: DeviceName, number: number): Promise<Step | null> {
  const level = levelOf(state, name);
  let [low, high] = [0, 2 ** level - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    // A tile without steps lies before the first, behind the last, or in a long one between two: look to the right.
    let at = middle;
    let steps = await stepsIn(state, name, level, at);
    while (steps.length === 0 && at < high) steps = await stepsIn(state, name, level, ++at);
    const [first, last] = [steps[0], steps[steps.length - 1]];
    if (first === undefined || last === undefined || numberOf(first.name) > number) {
      high = middle - 1;
      continue;
    }
    if (numberOf(last.last_name ?? last.name) < number) {
      low = at + 1;
      continue;
    }
    const span = steps.find((one) => numberOf(one.name) <= number && number <= numberOf(one.last_name ?? one.name));
    return span === undefined ? null : made(span);
  }
  return null;
}

/** The number of the last step; 0: there are none. */
export async function lastStep(state: State, name: DeviceName): Promise<number> {
  const steps = await stepsIn(state, name, 0, 0);
  const last = steps[steps.length - 1];
  return last === undefined ? 0 : numberOf(last.last_name ?? last.name) || 0;
}
