// Single allocations as bands of the timeline: each that is visible by itself, all others as one
// band on top that says how many there are.

import type { Allocations } from "../data/answers";
import { type Asked, questionText } from "../data/source";
import * as format from "../ui/format";
import { groupColor, hashed, type Theme } from "../ui/palette";
import type { State } from "../page/state";
import type { Column } from "./columns";
import type { Plot } from "./plot";

const LEAST_PIXELS = 0.15;
const SETTLE_MS = 120;

export interface AllocationBand {
  label: string;
  row: number;
  color: string;
  size: number;
  /** Columns [first, past). */
  first: number;
  past: number;
}

export class AllocationBands {
  bands: AllocationBand[] = [];
  /** Stands for all others, on top. */
  rest = { count: 0, mostBytes: 0 };
  private key = "";
  private waiting = 0;
  private answer: Allocations | null = null;

  constructor(private readonly state: State, private readonly arrived: () => void) {}

  /** What is drawn, in words: nothing is omitted silently. */
  get summary(): string {
    if (this.answer === null) return "Loading the visible allocations…";
    const all = this.answer.matches;
    const drawn = format.counted(this.bands.length, "allocation");
    if (this.rest.count === 0) return `${drawn} visible, each drawn as a band; click one to see its stack.`;
    return `${format.counted(all, "allocation")} visible: ${format.count(this.bands.length)} drawn as separate bands, the other ${format.count(this.rest.count)} (up to ${format.bytes(this.rest.mostBytes)} in total) as one band on top. Zoom in to see more of them separately.`;
  }

  update(columns: Column[], plot: Plot, theme: Theme, isComplete: boolean): void {
    const [first, last] = [columns[0], columns[columns.length - 1]];
    if (first === undefined || last === undefined) return;
    const asked = { ...this.state.deviceName, from: first.position, to: last.position + 1 };
    const question = questionText("bands", asked);
    if (question !== this.key && isComplete) {
      this.key = question;
      // An answer may be long: none is requested while the range moves.
      window.clearTimeout(this.waiting);
      this.waiting = window.setTimeout(() => this.ask(asked, question), this.answer === null ? 0 : SETTLE_MS);
    }
    this.layOut(columns, plot, theme);
  }

  private ask(asked: Asked<"bands">, question: string): void {
    void this.state.source.ask("bands", asked).then((answer) => {
      if (this.key !== question) return;
      this.answer = answer;
      this.arrived();
    });
  }

  private layOut(columns: Column[], plot: Plot, theme: Theme): void {
    this.bands = [];
    const { answer } = this;
    if (answer === null) return;
    const known = new Float64Array(columns.length);
    for (let index = 0; index < answer.row.length; index++) {
      const size = answer.size[index]!;
      if (plot.height(size) < LEAST_PIXELS) continue;
      const first = firstAtOrAfter(columns, answer.birth[index]!);
      const past = firstAtOrAfter(columns, answer.death[index] ?? Infinity);
      if (first >= past) continue;
      const label = answer.labels[answer.label[index]!]!;
      this.bands.push({ label, row: answer.row[index]!, color: groupColor(theme, hashed(label) % 15, false), size, first, past });
      for (let at = first; at < past; at++) known[at]! += size;
    }
    this.rest = {
      count: answer.matches - this.bands.length,
      mostBytes: columns.reduce((most, column, at) => Math.max(most, column.max - known[at]!), 0),
    };
  }
}

function firstAtOrAfter(columns: Column[], position: number): number {
  let low = 0;
  let high = columns.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (columns[middle]!.position < position) low = middle + 1;
    else high = middle;
  }
  return low;
}
