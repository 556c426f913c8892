// Answers that take a while: how far they are, in words.

import type { Working } from "../data/answers";
import * as format from "./format";

export function workingText({ what, done, total }: Working): string {
  const said = what === "" ? "Working" : what[0]!.toUpperCase() + what.slice(1);
  return total === 0 ? `${said}…` : `${said}: ${format.count(done)} of ${format.count(total)}…`;
}

/** "steps 4–7 (events 1,000 to 1,999 of 100,000)", of a part of a run. */
export function partText({ from_event: from, to_event: to, first_step: first, last_step: last }: { from_event: number; to_event: number; first_step: number | null; last_step: number | null }, events: number): string {
  const range = `events ${format.count(from)} to ${format.count(to - 1)} of ${format.count(events)}`;
  if (first === null || last === null) return range;
  return `${first === last ? `step ${format.count(first)}` : `steps ${format.count(first)}–${format.count(last)}`} (${range})`;
}
