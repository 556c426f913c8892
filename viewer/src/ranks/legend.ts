// What the colours and symbols mean, and how coarse the cells are.

import { el } from "../ui/dom";
import { bytes, count } from "../ui/format";
import { chosenTheme } from "../ui/palette";
import { rampOf } from "./heatmap";
import type { Matrix, Shown } from "./matrix";
import { type Job, nearestWords } from "./report";
import { STEPS } from "./scale";

const WIDTH = 180;
const HEIGHT = 10;

function strip(shown: Shown): HTMLCanvasElement {
  const canvas = el("canvas", { width: WIDTH, height: HEIGHT, role: "img", "aria-label": "Scale of colours" });
  const context = canvas.getContext("2d")!;
  const table = rampOf(shown, chosenTheme());
  for (let x = 0; x < WIDTH; x++) {
    const at = Math.round((x / (WIDTH - 1)) * (STEPS - 1)) * 3;
    context.fillStyle = `rgb(${table[at]},${table[at + 1]},${table[at + 2]})`;
    context.fillRect(x, 0, 1, HEIGHT);
  }
  return canvas;
}

/** The ends of the scale, in words. */
function ends(job: Job, matrix: Matrix, shown: Shown): [string, string] {
  if (shown === "imbalance") {
    const most = Math.max(1, matrix.largestOf("imbalance"));
    return [`−${bytes(most)}`, `+${bytes(most)} from the group's median`];
  }
  const totals = new Set(job.ranks.total_bytes);
  if (totals.has(null)) return ["0", `${bytes(matrix.largestOf(shown))}, the largest (${totals.size === 1 ? "no rank knows" : "not every rank knows"} its card)`];
  return ["0", totals.size === 1 ? `${bytes([...totals][0]!)}, the whole card` : "the whole card"];
}

/** How steps and figures were put together. */
export function coarseness(job: Job): string {
  const { first_steps, step_count, unit_bytes } = job.cells;
  const words: string[] = [];
  if (first_steps.length < step_count) {
    words.push(`${count(step_count)} steps in ${count(first_steps.length)} columns: each shows the largest of up to ${count(Math.ceil(step_count / first_steps.length))} steps.`);
  }
  if (unit_bytes > 1) words.push(`Figures of cells are rounded to ${bytes(unit_bytes)}; those of whole runs are exact.`);
  return words.join(" ");
}

export function makeLegend(job: Job, matrix: Matrix, shown: Shown): HTMLElement {
  const [low, high] = ends(job, matrix, shown);
  const symbols: string[] = job.marks.nearest === null ? [] : [`● ${nearestWords(job)}`];
  if (job.marks.outliers.length > 0) symbols.push("▲ outlier");
  if (job.marks.failed_first !== null) symbols.push("✕ failed");
  else if (job.marks.silent_first !== null) symbols.push("✕ fell silent");
  if (job.marks.leaking.length > 0) symbols.push("↗ leaks");
  symbols.push("striped: not known");
  return el(
    "div",
    { class: "legend" },
    el("span", { class: "ramp" }, low, strip(shown), high),
    el("span", { class: "muted" }, symbols.join("  ·  ")),
    el("span", { class: "muted", "data-testid": "coarseness" }, coarseness(job)),
  );
}
