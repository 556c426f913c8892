// Steps that look the same become one row.

import type { StepRow } from "../data/answers";
import * as format from "../ui/format";

export interface StepRun {
  first: StepRow;
  last: StepRow;
  steps: StepRow[];
}

/** What a row says about a step, all but its number and its time: two steps that say the same are folded. */
function saysOf(step: StepRow): string {
  const phases = step.phases.map(({ phase, peak_bytes, live_bytes }) => `${phase} ${format.bytes(peak_bytes)} ${format.bytes(live_bytes)}`);
  return [step.peak_bytes, step.floor_bytes, step.live_bytes, step.saved_for_backward_bytes].map(format.bytes).concat(phases).join("|");
}

export function folded(steps: StepRow[]): StepRun[] {
  const runs: StepRun[] = [];
  let says = "";
  for (const step of steps) {
    const now = saysOf(step);
    const last = runs[runs.length - 1];
    // What came before the first step is not a step; steps that are not listed lie between others.
    if (last !== undefined && now === says && last.first.step !== 0 && step.step === last.last.step + 1) {
      last.steps.push(step);
      last.last = step;
    } else runs.push({ first: step, last: step, steps: [step] });
    says = now;
  }
  return runs;
}
