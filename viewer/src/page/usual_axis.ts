// The axis a run is first shown on: time, unless the program paused so long that its steps would have no room.

import type { Axis, Meta } from "../data/answers";
import { summed } from "../data/deltas";
import type { Source } from "../data/source";

const MOST_IDLE = 0.5;

/** The share of the run's time in which nothing was allocated or freed, to one part in 512. */
export async function idleShare(source: Source, meta: Meta): Promise<number> {
  const file = meta.files.findIndex(({ devices }) => devices.length > 0);
  const device = meta.files[file]?.devices[0];
  if (device === undefined || device.duration_ns === null || !device.has_history) return 0;
  const tile = await source.ask("tile", { file, device: 0, by: device.group_bys[0]!, axis: "time", level: 0, index: 0 });
  const position = summed(tile.position);
  let idle = 0;
  for (let at = 1; at < position.length; at++) if (position[at] === position[at - 1]) idle++;
  return position.length < 2 ? 0 : idle / (position.length - 1);
}

export async function usualAxis(source: Source, meta: Meta): Promise<Axis> {
  const share = await idleShare(source, meta).catch(() => 0);
  // Of a prediction there is only the order of events.
  const isPredicted = meta.files.find(({ devices }) => devices.length > 0)?.kind === "predicted";
  return isPredicted || share > MOST_IDLE ? "event" : "time";
}
