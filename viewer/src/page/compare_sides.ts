// Sides of a comparison that are more than a moment: ranges, and steps by number.

import type { ComparedGroup, Comparison, GroupBy, RangeGroup } from "../data/answers";
import type { Waiting } from "../data/source";
import { lastStep, stepNumbered } from "../data/steps";
import { el } from "../ui/dom";
import * as format from "../ui/format";
import type { Side, State } from "./state";

/** By what the changes of ranges are known. */
export const RANGE_BYS: GroupBy[] = ["line", "source"];

/** What two ranges allocated, group by group; the largest difference first. */
export async function compareRanges(state: State, first: Side, second: Side, by: GroupBy, waiting: Waiting): Promise<Comparison> {
  const ask = ({ file, device, from, position }: Side) => state.source.ask("range", { file, device, from: from!, to: position }, waiting);
  const [a, b] = await Promise.all([ask(first), ask(second)]);
  const groups = new Map<string, ComparedGroup>();
  const add = (list: RangeGroup[], side: "first" | "second") => {
    for (const { label, allocated_bytes: bytes, allocated_blocks: blocks } of list) {
      let group = groups.get(label);
      if (group === undefined) groups.set(label, (group = { label, first_bytes: 0, first_blocks: 0, second_bytes: 0, second_blocks: 0 }));
      group[`${side}_bytes`] += bytes;
      group[`${side}_blocks`] += blocks;
    }
  };
  add(by === "source" ? a.sources : a.lines, "first");
  add(by === "source" ? b.sources : b.lines, "second");
  const change = (group: ComparedGroup) => Math.abs(group.second_bytes - group.first_bytes);
  return {
    groups: [...groups.values()].filter((group) => group.first_bytes + group.second_bytes > 0).sort((x, y) => change(y) - change(x) || y.second_bytes - x.second_bytes),
    groups_left_out: by === "source" ? 0 : a.lines_left_out + b.lines_left_out,
    first_bytes: a.all.allocated_bytes,
    second_bytes: b.all.allocated_bytes,
  };
}

/** A range in words. */
export function rangeLabel({ from, position }: { from: number; position: number }): string {
  return `allocated from event ${format.count(from)} to ${format.count(position - 1)}`;
}

/** "Step [3] with step [30]": the peaks of two steps. */
export class StepChooser {
  readonly element = el("form", { class: "steps", hidden: true, "aria-label": "Compare two steps" });
  private readonly inputs = ["first step", "second step"].map((label) => el("input", { type: "number", min: 1, "aria-label": label, inputmode: "numeric" })) as [HTMLInputElement, HTMLInputElement];
  private readonly problem = el("span", { class: "muted", role: "status" });
  private key = "";

  constructor(private readonly state: State, private readonly choose: (first: Side, second: Side) => void) {
    this.element.append("Step ", this.inputs[0], " with step ", this.inputs[1], el("button", { type: "submit" }, "Compare steps"), this.problem);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
  }

  async show(): Promise<void> {
    const { state } = this;
    if (this.key === state.deviceKey) return;
    this.key = state.deviceKey;
    const last = await lastStep(state, state.deviceName).catch(() => 0);
    this.element.hidden = last < 2;
    for (const input of this.inputs) input.max = String(last);
    this.element.title = `There are ${format.counted(last, "step")}.`;
  }

  private async submit(): Promise<void> {
    const { state } = this;
    this.problem.textContent = "";
    try {
      const [first, second] = await Promise.all(this.inputs.map((input) => this.peakOf(Number(input.value))));
      this.choose({ ...state.deviceName, position: first! }, { ...state.deviceName, position: second! });
    } catch (error) {
      this.problem.textContent = (error as Error).message;
    }
  }

  private async peakOf(number: number): Promise<number> {
    const { state } = this;
    const step = await stepNumbered(state, state.deviceName, number);
    if (step === null) throw new Error(`There is no step ${number}, or this file does not know it alone.`);
    const range = await state.source.ask("range", { ...state.deviceName, from: step.from, to: step.to });
    return state.source.nearestState(state.file, state.device, range.peak_position);
  }
}
