// Steps: a table of steps and phases, equal ones folded, and what grows from step to step.

import type { StepGrowth, StepPhase, StepRow, StepsAnswer } from "../data/answers";
import { el, replace } from "../ui/dom";
import * as format from "../ui/format";
import type { State } from "../page/state";
import { folded, type StepRun } from "./fold";
import { growthSection } from "./growth";

const COLUMNS = ["step", "peak", "floor", "at end", "kept for backward", "time", "growth"];
const FIRST_AFTER_WARM_UP = 3;

export class StepsView {
  readonly element = el("section", { class: "view steps", "aria-label": "Steps" });
  private asked = "";
  /** Shows or hides what is in a row, by its first step. */
  private readonly folds = new Map<number, (isOpen: boolean) => void>();

  constructor(private readonly state: State) {
    state.listen((change) => {
      if (state.view === "steps" && (change === "device" || change === "grown")) this.show();
      if (change === "steps") this.fold();
    });
  }

  private fold(): void {
    for (const [step, show] of this.folds) show(this.state.openSteps.includes(step));
  }

  show(): void {
    const { deviceKey, deviceName, source } = this.state;
    this.asked = deviceKey;
    void source.ask("steps", deviceName).then(
      (answer) => {
        if (this.asked === deviceKey) this.draw(answer);
      },
      (error: Error) => replace(this.element, el("p", { class: "empty" }, error.message)),
    );
  }

  private draw(answer: StepsAnswer): void {
    const runs = folded(answer.steps);
    const hasSteps = answer.steps.some(({ step }) => step > 0);
    const body = el("tbody");
    this.folds.clear();
    let before: StepRow | null = null;
    for (const run of runs) {
      body.append(...this.rowsOf(run, before, answer.growth, hasSteps));
      before = run.last;
    }
    replace(
      this.element,
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Steps and growth" },
        growthSection(answer),
        el("h2", {}, hasSteps ? "Steps" : answer.run_kind === "inference" ? "Inference has no training steps" : "No training step was recognized"),
        hasSteps ? el("p", { class: "muted" }, "Click a step to zoom to it. Steps that look the same are one row.") : null,
        answer.steps.length === 0
          ? null
          : el("table", { class: "steps-table", "data-testid": "steps" }, el("thead", {}, el("tr", {}, ...COLUMNS.map((name, at) => el("th", { class: at === 0 ? "" : "number", scope: "col" }, name)))), body),
        answer.left_out > 0 ? el("p", { class: "muted", "data-testid": "steps-left-out" }, `${format.counted(answer.left_out, "more step")} between the first and the last are not listed, as in gpumemprof report --json.`) : null,
      ),
    );
    this.fold();
  }

  /** A row for steps that look the same; below it, if it is open, their phases and each of them. */
  private rowsOf(run: StepRun, before: StepRow | null, growth: StepGrowth | null, hasSteps: boolean): HTMLElement[] {
    const { first, last, steps } = run;
    const name = first.step === 0 ? (hasSteps ? "before step 1" : "the whole run") : first === last ? `step ${format.count(first.step)}` : `steps ${format.count(first.step)} to ${format.count(last.step)}`;
    const timeOf = (step: StepRow) => (this.state.hasTime ? stepTime(step) : null);
    const times = steps.map(timeOf).filter((time) => time !== null);
    const mean = times.length === 0 ? null : times.reduce((sum, time) => sum + time, 0) / times.length;
    const details = [
      ...(steps.length > 1 ? steps.map((step) => this.row(`step ${format.count(step.step)}`, step, step, timeOf(step), "", "single")) : []),
      ...first.phases.map((phase) => this.phaseRow(phase)),
    ];
    const head = this.row(name, first, last, mean, growthOf(first, before, growth), steps.length > 1 ? "folded" : "");
    head.dataset["count"] = String(steps.length);
    if (details.length > 0) {
      const toggle = el("button", { type: "button", class: "toggle", "aria-label": `Phases of ${name}`, onclick: () => this.turn(first.step) });
      this.folds.set(first.step, (isOpen) => {
        toggle.setAttribute("aria-expanded", String(isOpen));
        toggle.textContent = isOpen ? "▾" : "▸";
        for (const row of details) row.hidden = !isOpen;
      });
      head.firstElementChild!.prepend(toggle);
    }
    return [head, ...details];
  }

  private turn(step: number): void {
    const { openSteps } = this.state;
    this.state.set({ openSteps: openSteps.includes(step) ? openSteps.filter((other) => other !== step) : [...openSteps, step] }, "steps");
  }

  private row(name: string, first: StepRow, last: StepRow, time: number | null, growth: string, kind: string): HTMLElement {
    const figure = (bytes: number) => el("td", { class: "number" }, format.bytes(bytes));
    const isMean = first !== last && time !== null;
    return el(
      "tr",
      { class: kind, "data-step": first.step, "data-peak": first.peak_bytes, "data-floor": first.floor_bytes, "data-live": first.live_bytes, "data-kept": first.saved_for_backward_bytes, "data-grows": growth === "" ? "" : "yes" },
      el("th", { scope: "row" }, el("button", { type: "button", class: "link", title: "Zoom to it", onclick: () => this.zoomTo(first, last) }, name)),
      figure(first.peak_bytes),
      figure(first.floor_bytes),
      figure(first.live_bytes),
      figure(first.saved_for_backward_bytes),
      el("td", { class: "number" }, time === null ? "unknown" : `${isMean ? "⌀ " : ""}${format.duration(time)}`),
      el("td", { class: growth === "" ? "number muted" : "number more" }, growth === "" ? "" : `▲ ${growth}`),
    );
  }

  private phaseRow(phase: StepPhase): HTMLElement {
    const kept = phase.saved_for_backward_bytes;
    return el(
      "tr",
      { class: "phase", "data-phase": phase.phase, "data-peak": phase.peak_bytes },
      el("th", { scope: "row" }, phase.phase.replaceAll("_", " ")),
      el("td", { class: "number" }, format.bytes(phase.peak_bytes)),
      el("td", { class: "number muted" }, ""),
      el("td", { class: "number" }, format.bytes(phase.live_bytes)),
      el("td", { class: "number" }, kept === null ? "" : format.bytes(kept)),
      el("td", { class: "number" }, ""),
      el("td", { class: "number" }, ""),
    );
  }

  private zoomTo(first: StepRow, last: StepRow): void {
    const { state } = this;
    const isTimed = state.axis === "time" && first.from_ns !== null && last.to_ns !== null;
    const whole = isTimed ? state.current.duration_ns! + 1 : state.positions;
    const [from, to] = isTimed ? [first.from_ns!, last.to_ns!] : [first.first_event + 1, last.last_event + 2];
    if (state.axis === "time" && !isTimed) state.setAxis("event");
    if (first.peak_event !== null) state.setCursor(first.peak_event + 1);
    state.setRange(from / whole, to / whole);
    state.set({ view: "timeline" }, "view");
  }
}

function stepTime({ from_ns, to_ns }: StepRow): number | null {
  return from_ns === null || to_ns === null ? null : to_ns - from_ns;
}

/** How much higher a step's floor is than that of the step before, where the run's memory grows. */
function growthOf(step: StepRow, before: StepRow | null, growth: StepGrowth | null): string {
  if (growth === null || !growth.is_growing || before === null || before.step === 0) return "";
  // The first two warm up: parameters, gradients and optimizer state appear in them.
  if (step.step < Math.max(growth.since_step ?? Infinity, FIRST_AFTER_WARM_UP)) return "";
  const grown = step.floor_bytes - before.floor_bytes;
  return grown > 0 ? format.bytes(grown) : "";
}
