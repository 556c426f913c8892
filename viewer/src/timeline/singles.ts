// Every allocation as a band over its lifetime, stacked in order of birth, so that the top is the allocated total.
//
// The server picks those that can be seen at this zoom. What is too small or too short for a band of its own is combined
// by group on top: in every column the bands and the combined rest add up to what is allocated there.

import type { Groups, Singles as SinglesAnswer } from "../data/answers";
import { type Asked, questionText } from "../data/source";
import * as format from "../ui/format";
import { ageColor, ageClass, groupColor, shaded, type Theme } from "../ui/palette";
import type { State } from "../page/state";
import type { Column } from "./columns";
import type { Plot } from "./plot";

const LEAST_HEIGHT = 0.75;
const LEAST_WIDTH = 1.5;
/** Fewer than a screen has pixels, many more than an eye can tell apart. */
const MOST = 6000;
const SETTLE_MS = 20;

export interface SingleBand {
  row: number;
  size: number;
  /** At most its size. */
  requested: number;
  birth: number;
  death: number | null;
  group: number;
  stream: number;
  color: string;
  /** Columns [first, past). */
  first: number;
  past: number;
}

/** What is combined: one band for each group. */
export interface RestBand {
  group: number;
  label: string;
  color: string;
  /** For each column. */
  bytes: Float64Array;
}

export class Singles {
  bands: SingleBand[] = [];
  rest: RestBand[] = [];
  /** Whether what is drawn was picked for exactly what is visible. */
  isComplete = false;
  private key = "";
  private waiting = 0;
  private answer: SinglesAnswer | null = null;
  private problem = "";
  private restMost = 0;

  constructor(private readonly state: State, private readonly arrived: () => void) {}

  /** What is drawn, in words: nothing is omitted silently. */
  get summary(): string {
    if (this.problem !== "") return this.problem;
    const { answer } = this;
    if (answer === null) return "Loading the visible allocations…";
    const drawn = format.counted(this.bands.length, "allocation");
    const combined = `${format.bytes(this.restMost)} at most`;
    if (answer.spacing > 0) {
      return `${drawn} drawn as separate bands: of a range this long, those that were live at two moments ${format.count(answer.spacing)} events apart. All others are combined by colour on top (${combined}). Zoom in to see every allocation.`;
    }
    if (answer.matches === null) return `${drawn} drawn as separate bands: the largest, which this file has. All others are combined by colour on top (${combined}).`;
    const more = answer.matches - this.bands.length;
    if (more <= 0) return `${drawn} visible, each drawn as a band; click one to see its stack.`;
    return `${format.counted(answer.matches, "allocation")} visible: ${format.count(this.bands.length)} drawn as separate bands, the other ${format.count(more)} too small or too short for one, combined by colour on top (${combined}). Zoom in to see them.`;
  }

  /** The streams of what is drawn. */
  get streams(): string[] {
    return this.answer?.streams ?? [];
  }

  /** How many allocations are visible; null: not known. */
  get matches(): number | null {
    return this.answer?.matches ?? null;
  }

  update(columns: Column[], plot: Plot, theme: Theme, groups: Groups | null, isComplete: boolean): void {
    const [first, last] = [columns[0], columns[columns.length - 1]];
    if (first === undefined || last === undefined || groups === null) return;
    const { state } = this;
    const length = state.axis === "time" ? state.current.duration_ns! + 1 : state.positions;
    const asked: Asked<"singles"> = {
      ...state.deviceName,
      from: first.position,
      to: last.position + 1,
      by: state.knownBy,
      axis: state.axis,
      least_bytes: Math.floor(LEAST_HEIGHT / plot.height(1)),
      least_length: Math.floor(((state.to - state.from) * length * LEAST_WIDTH) / plot.width),
      most: MOST,
    };
    const question = questionText("singles", asked);
    if (question !== this.key && isComplete) {
      this.key = question;
      this.isComplete = false;
      // None is requested while the range moves.
      window.clearTimeout(this.waiting);
      this.waiting = window.setTimeout(() => this.ask(asked, question), this.answer === null ? 0 : SETTLE_MS);
    }
    this.layOut(columns, plot, theme, groups);
  }

  private ask(asked: Asked<"singles">, question: string): void {
    const show = (answer: SinglesAnswer | null, problem: string) => {
      if (this.key !== question) return;
      [this.answer, this.problem, this.isComplete] = [answer, problem, true];
      this.arrived();
    };
    this.state.source.ask("singles", asked).then(
      (answer) => show(answer, ""),
      (error: Error) => show(null, error.message),
    );
  }

  private layOut(columns: Column[], plot: Plot, theme: Theme, { groups, by }: Groups): void {
    this.bands = [];
    const rounding = by === "source" ? groups.findIndex(({ label }) => label === "rounding") : -1;
    const undivided = groups.findIndex((group) => group.is_undivided === true);
    const left = groups.map((_, group) => {
      const held = new Float64Array(columns.length);
      for (let at = 0; at < held.length; at++) held[at] = columns[at]!.tile.groups[group]?.[columns[at]!.bucket] ?? 0;
      return held;
    });
    const { answer, state } = this;
    if (answer !== null) this.place(answer, columns, plot, theme, groups.map(({ is_rest }) => is_rest));
    for (const band of this.bands) {
      const requested = rounding < 0 ? band.size : band.requested;
      take(left, band.group, undivided, band, requested);
      if (rounding >= 0) take(left, rounding, undivided, band, band.size - requested);
    }
    const isGrouped = state.colour === state.knownBy;
    this.rest = [];
    this.restMost = 0;
    const total = new Float64Array(columns.length);
    groups.forEach((group, number) => {
      const bytes = left[number]!;
      if (!bytes.some((value) => value > 0)) return;
      bytes.forEach((value, at) => (total[at]! += value));
      this.rest.push({ group: number, label: group.label, color: groupColor(theme, number, group.is_rest || !isGrouped), bytes });
    });
    for (const bytes of total) this.restMost = Math.max(this.restMost, bytes);
  }

  private place(answer: SinglesAnswer, columns: Column[], plot: Plot, theme: Theme, isRest: boolean[]): void {
    const { state } = this;
    const positions = new Float64Array(columns.length);
    for (let at = 0; at < positions.length; at++) positions[at] = columns[at]!.position;
    for (let index = 0; index < answer.row.length; index++) {
      const size = answer.size[index]!;
      if (plot.height(size) < LEAST_HEIGHT / 2) continue;
      const [birth, death] = [answer.birth[index]!, answer.death[index] ?? null];
      const first = firstAtOrAfter(positions, birth);
      const past = firstAtOrAfter(positions, death ?? Infinity);
      if (first >= past) continue;
      const group = answer.group[index]!;
      const stream = answer.stream[index]!;
      const plain =
        state.colour === "age"
          ? ageColor(theme, ageClass(birth, state.cursor))
          : state.colour === "stream"
            ? groupColor(theme, stream, false)
            : groupColor(theme, group, isRest[group] ?? true);
      const requested = Math.min(size, answer.requested[index]!);
      this.bands.push({ row: answer.row[index]!, size, requested, birth, death, group, stream, color: shaded(plain, answer.row[index]! % 3), first, past });
    }
  }
}

/** Takes a band's bytes out of what its group holds; of a long run, out of what is not divided. */
function take(left: Float64Array[], group: number, undivided: number, { first, past }: SingleBand, bytes: number): void {
  const [own, other] = [left[group], left[undivided]];
  for (let at = first; at < past; at++) {
    const here = own === undefined ? 0 : Math.min(own[at]!, bytes);
    if (own !== undefined) own[at]! -= here;
    let more = bytes - here;
    if (more === 0) continue;
    if (other !== undefined) {
      const there = Math.min(other[at]!, more);
      other[at]! -= there;
      more -= there;
    }
    // A page that does not know its group: the total stays right, a colour of the rest may not.
    for (let number = left.length - 1; number >= 0 && more > 0; number--) {
      const there = Math.min(left[number]![at]!, more);
      left[number]![at]! -= there;
      more -= there;
    }
  }
}

function firstAtOrAfter(positions: Float64Array, position: number): number {
  let low = 0;
  let high = positions.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (positions[middle]! < position) low = middle + 1;
    else high = middle;
  }
  return low;
}
