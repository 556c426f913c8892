// The heat map: a canvas with a row for each rank or folded group, and a column for each step, or for a few steps.

import { el, fitted, Surface } from "../ui/dom";
import { bytes, count, percent, signedBytes } from "../ui/format";
import { chosenTheme, striped, type Theme } from "../ui/palette";
import { hideTooltip, showTooltip } from "../ui/tooltip";
import type { Matrix, Shown } from "./matrix";
import { type Job, nearestWords } from "./report";
import { labelsWithRoom, type Row } from "./rows";
import { DIFFERENCE_DARK, DIFFERENCE_LIGHT, ramp, SHARE_DARK, SHARE_LIGHT, STEPS } from "./scale";

const AXIS = 22;
const TALLEST_ROW = 22;
/** On a tall screen rows may be taller. */
const ROWS_OF_TALL_SCREEN = 40;
const LOWEST_ROW = 7;
const LABEL_HEIGHT = 11;
const METRIC_WORDS: Record<Shown, string> = {
  peak: "peak",
  floor: "floor",
  reserved: "reserved",
  outside: "outside the pool",
  imbalance: "peak over the group's median",
};

export interface Chosen {
  onRow(row: Row): void;
}

export class HeatMap {
  readonly element = el("div", { class: "scroll heatmap" });
  private readonly spacer = el("div", { class: "heatmap-rows" });
  private readonly surface: Surface;
  private rows: Row[] = [];
  private shown: Shown = "peak";
  private readonly marks: Map<number, string>;
  private at = { row: -1, column: 0 };

  constructor(private readonly job: Job, private readonly matrix: Matrix, private readonly chosen: Chosen) {
    this.marks = marksOf(job);
    this.element.append(this.spacer);
    this.surface = new Surface(this.spacer, "Heat map: ranks as rows, steps as columns. Arrow keys move, Enter opens.", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(this.element);
    this.element.addEventListener("scroll", () => this.draw());
    const { canvas } = this.surface;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", () => hideTooltip());
    canvas.addEventListener("click", (event) => {
      const row = this.rows[this.rowAt(this.surface.at(event).y)];
      if (row !== undefined) this.chosen.onRow(row);
    });
    canvas.addEventListener("keydown", (event) => this.press(event));
    canvas.addEventListener("blur", () => hideTooltip());
  }

  show(rows: Row[], shown: Shown): void {
    this.rows = rows;
    this.shown = shown;
    this.at.row = Math.min(this.at.row, rows.length - 1);
    this.draw();
  }

  private get gutter(): number {
    return Math.min(230, Math.max(110, this.element.clientWidth * 0.24));
  }

  private get rowHeight(): number {
    const room = this.element.clientHeight - AXIS - 4;
    const tallest = Math.max(TALLEST_ROW, Math.floor(room / ROWS_OF_TALL_SCREEN));
    return Math.max(LOWEST_ROW, Math.min(tallest, Math.floor(room / Math.max(1, this.rows.length))));
  }

  private rowAt(y: number): number {
    return y < AXIS ? -1 : Math.floor((y - AXIS + this.element.scrollTop) / this.rowHeight);
  }

  private get plotWidth(): number {
    return Math.max(1, this.surface.width - this.gutter - 4);
  }

  /** The color of a figure, as an index of the ramp. */
  private colorIndex(value: number, row: Row): number {
    if (this.shown === "imbalance") {
      const share = value / Math.max(1, this.matrix.largestOf("imbalance"));
      return Math.round(((share + 1) / 2) * (STEPS - 1));
    }
    const whole = scaleEnd(this.job, this.matrix, this.shown, row.places[0]!);
    return Math.round(Math.min(1, value / Math.max(1, whole)) * (STEPS - 1));
  }

  private draw(): void {
    const { rowHeight, element } = this;
    this.spacer.style.height = `${this.rows.length * rowHeight + AXIS + 2}px`;
    const context = this.surface.begin(element.clientHeight - 2);
    const theme = chosenTheme();
    const first = Math.max(0, Math.floor(element.scrollTop / rowHeight));
    const visible = Math.min(this.rows.length - first, Math.ceil((this.surface.height - AXIS) / rowHeight) + 1);
    if (visible <= 0 || this.matrix.columns === 0) return this.drawEmpty(context, theme);
    const top = AXIS + first * rowHeight - element.scrollTop;
    context.save();
    context.beginPath();
    context.rect(0, AXIS, this.surface.width, this.surface.height - AXIS);
    context.clip();
    this.drawCells(context, theme, first, visible, top);
    for (let row = first; row < first + visible; row++) this.drawMarks(context, theme, row, top + (row - first) * rowHeight);
    this.drawLabels(context, theme, first, visible, top);
    context.restore();
    this.drawAxis(context, theme);
    this.surface.canvas.dataset["complete"] = "true";
  }

  private drawEmpty(context: CanvasRenderingContext2D, theme: Theme): void {
    context.fillStyle = theme.muted;
    context.font = "13px system-ui";
    context.fillText("No rank recorded a step.", 12, 40);
    this.surface.canvas.dataset["complete"] = "true";
  }

  private drawCells(context: CanvasRenderingContext2D, theme: Theme, first: number, visible: number, top: number): void {
    const { matrix, gutter, plotWidth, rowHeight } = this;
    const width = Math.max(1, Math.min(matrix.columns, Math.floor(plotWidth)));
    const image = new ImageData(width, visible);
    const table = rampOf(this.shown, theme);
    for (let row = 0; row < visible; row++) {
      const { places } = this.rows[first + row]!;
      for (let x = 0; x < width; x++) {
        const from = Math.floor((x * matrix.columns) / width);
        const to = Math.max(from + 1, Math.floor(((x + 1) * matrix.columns) / width));
        const value = matrix.most(this.shown, places, from, to);
        if (Number.isNaN(value)) continue;
        const color = this.colorIndex(value, this.rows[first + row]!) * 3;
        image.data.set([table[color]!, table[color + 1]!, table[color + 2]!, 255], (row * width + x) * 4);
      }
    }
    // What is not known lets the stripes through.
    context.fillStyle = striped(context, theme.surface, theme.line, 6);
    context.fillRect(gutter, top, plotWidth, visible * rowHeight);
    const small = document.createElement("canvas");
    small.width = width;
    small.height = visible;
    small.getContext("2d")!.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, gutter, top, plotWidth, visible * rowHeight);
    if (rowHeight < 10) return;
    context.fillStyle = theme.surface;
    for (let row = 1; row <= visible; row++) context.fillRect(gutter, top + row * rowHeight - 1, plotWidth, 1);
  }

  private drawMarks(context: CanvasRenderingContext2D, theme: Theme, index: number, y: number): void {
    const row = this.rows[index]!;
    if (index === this.at.row) {
      context.strokeStyle = theme.accent;
      context.lineWidth = 2;
      context.strokeRect(1, y + 1, this.surface.width - 6, Math.max(4, this.rowHeight - 2));
    }
    if (row.place === null) return;
    const { marks } = this.job;
    const middle = y + this.rowHeight / 2;
    for (const mark of marks.outliers) {
      if (mark.place === row.place && mark.step !== null) this.symbol(context, theme, "▲", mark.step, middle);
    }
    for (const mark of [marks.failed_first, marks.silent_first, ...marks.also_failed]) {
      if (mark !== null && mark.place === row.place && mark.step !== null) this.symbol(context, theme, "✕", mark.step, middle);
    }
  }

  /** A symbol in the column of a step, with a rim that shows on any colour. */
  private symbol(context: CanvasRenderingContext2D, theme: Theme, symbol: string, step: number, y: number): void {
    const column = this.columnOf(step);
    if (column < 0) return;
    const x = this.gutter + ((column + 0.5) / this.matrix.columns) * this.plotWidth;
    context.font = "bold 12px system-ui";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.strokeStyle = theme.isDark ? "#000000" : "#ffffff";
    context.strokeText(symbol, x, y);
    context.fillStyle = theme.isDark ? "#ff8a78" : "#c0291b";
    context.fillText(symbol, x, y);
  }

  private columnOf(step: number): number {
    const { first_steps, last_steps } = this.job.cells;
    return last_steps.findIndex((last, column) => step <= last && step >= first_steps[column]!);
  }

  private drawLabels(context: CanvasRenderingContext2D, theme: Theme, first: number, visible: number, top: number): void {
    const { rowHeight, gutter } = this;
    context.font = `${rowHeight >= 14 ? 12 : 10}px system-ui`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    const all = Array.from({ length: visible }, (_, at) => {
      const row = this.rows[first + at]!;
      // The first one is not cut by the axis.
      const y = Math.max(AXIS + LABEL_HEIGHT / 2, top + at * rowHeight + rowHeight / 2);
      return { row, y, symbols: row.place === null ? "" : this.marks.get(row.place) ?? "" };
    });
    for (const { row, y, symbols } of rowHeight >= LABEL_HEIGHT ? all : labelsWithRoom(all, LABEL_HEIGHT)) {
      const fold = row.place !== null ? "" : this.isUnfolded(this.rows.indexOf(row)) ? "▾ " : "▸ ";
      const indent = 6 + 12 * row.depth;
      context.fillStyle = symbols === "" || symbols === "●" ? (row.place === null || symbols ? theme.text : theme.muted) : theme.danger;
      const size = row.place === null ? ` (${count(row.places.length)})` : "";
      context.fillText(fitted(context, `${symbols ? `${symbols} ` : ""}${fold}${row.label}${size}`, gutter - indent - 6), indent, y);
    }
  }

  private isUnfolded(index: number): boolean {
    const [row, next] = [this.rows[index]!, this.rows[index + 1]];
    return next !== undefined && next.depth > row.depth && next.key === row.children[0]?.key;
  }

  private drawAxis(context: CanvasRenderingContext2D, theme: Theme): void {
    const { gutter, plotWidth } = this;
    const { first_steps } = this.job.cells;
    context.fillStyle = theme.muted;
    context.font = "11px system-ui";
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillText("step", gutter - 8, AXIS / 2);
    context.textAlign = "center";
    const every = Math.max(1, Math.ceil(first_steps.length / Math.max(1, Math.floor(plotWidth / 64))));
    for (let column = 0; column < first_steps.length; column += every) {
      const x = gutter + ((column + 0.5) / first_steps.length) * plotWidth;
      if (x < this.surface.width - 14) context.fillText(count(first_steps[column]!), x, AXIS / 2);
    }
  }

  private hover(event: MouseEvent): void {
    const { x, y } = this.surface.at(event);
    const row = this.rows[this.rowAt(y)];
    this.surface.canvas.style.cursor = row === undefined ? "default" : "pointer";
    if (row === undefined) return hideTooltip();
    const column = Math.floor(((x - this.gutter) / this.plotWidth) * this.matrix.columns);
    showTooltip(event, this.describe(row, column >= 0 && column < this.matrix.columns ? column : null));
  }

  describe(row: Row, column: number | null): string[] {
    return row.place === null ? this.describeGroup(row, column) : this.describeRank(row.place, column);
  }

  private stepsText(column: number): string {
    const { first_steps, last_steps } = this.job.cells;
    const [from, to] = [first_steps[column]!, last_steps[column]!];
    return from === to ? `step ${count(from)}` : `steps ${count(from)} to ${count(to)}: the largest of them`;
  }

  private figure(shown: Shown, value: number): string {
    if (Number.isNaN(value)) return `${METRIC_WORDS[shown]}: not known`;
    const unit = this.job.cells.unit_bytes;
    const about = unit > 1 ? `about ` : "";
    return `${METRIC_WORDS[shown]}: ${about}${shown === "imbalance" ? signedBytes(value) : bytes(value)}`;
  }

  private describeRank(place: number, column: number | null): string[] {
    const { ranks } = this.job;
    const lines = [ranks.name[place]!, `${ranks.host[place] ?? "host not known"} · ${ranks.device[place]}`];
    if (column !== null) {
      lines.push(this.stepsText(column));
      for (const shown of ["peak", "floor", "reserved", "outside", "imbalance"] as Shown[]) {
        const value = this.matrix.at(shown, place, column);
        if (shown === "imbalance" && Number.isNaN(value)) continue;
        const total = ranks.total_bytes[place];
        const share = shown === "peak" && total != null && !Number.isNaN(value) ? ` (${percent(value, total)} of ${bytes(total)})` : "";
        lines.push(this.figure(shown, value) + share);
      }
    } else {
      const exact = (value: number | null) => (value === null ? "not known" : bytes(value));
      lines.push(`peak of the run: ${exact(ranks.peak_bytes[place]!)}${ranks.peak_step[place] === null ? "" : ` at step ${count(ranks.peak_step[place]!)}`}`);
      lines.push(`reserved: ${exact(ranks.reserved_bytes[place]!)}`, `outside the pool: ${exact(ranks.outside_bytes[place]!)}`, `headroom: ${exact(ranks.headroom_bytes[place]!)}`);
    }
    const retries = ranks.retries[place];
    lines.push(`retries in the whole run: ${retries == null ? "not known" : count(retries)}`);
    const words = this.markWords(place);
    if (words !== "") lines.push(words);
    lines.push(ranks.recording[place] === null ? "Only its summary is here." : "Click to open its recording.");
    return lines;
  }

  private markWords(place: number): string {
    const { marks } = this.job;
    const words: string[] = [];
    if (marks.nearest === place) words.push(nearestWords(this.job));
    for (const mark of marks.outliers) if (mark.place === place) words.push("an outlier in its group");
    if (marks.failed_first?.place === place) words.push("failed first");
    if (marks.silent_first?.place === place) words.push("fell silent first: it may have been killed");
    if (marks.also_failed.some((mark) => mark.place === place)) words.push("failed too");
    if (marks.followed.includes(place)) words.push("ended because another rank was gone");
    if (marks.leaking.includes(place)) words.push("leaks");
    return words.join(", ");
  }

  private describeGroup(row: Row, column: number | null): string[] {
    const lines = [`${row.label}: ${count(row.places.length)} ranks`];
    if (column !== null) {
      lines.push(this.stepsText(column), "The largest of these ranks:");
      for (const shown of ["peak", "floor", "reserved", "outside", "imbalance"] as Shown[]) {
        const value = this.matrix.most(shown, row.places, column, column + 1);
        if (shown === "imbalance" && Number.isNaN(value)) continue;
        lines.push(this.figure(shown, value));
      }
    }
    lines.push("Click to fold or unfold.");
    return lines;
  }

  private press(event: KeyboardEvent): void {
    const moves: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (move !== undefined) {
      this.at.row = Math.min(this.rows.length - 1, Math.max(0, this.at.row + move[0]));
      this.at.column = Math.min(this.matrix.columns - 1, Math.max(0, this.at.column + move[1]));
      this.revealRow();
    } else if ((event.key === "Enter" || event.key === " ") && this.rows[this.at.row] !== undefined) {
      this.chosen.onRow(this.rows[this.at.row]!);
    } else return;
    event.preventDefault();
  }

  private revealRow(): void {
    const { rowHeight, element, at } = this;
    const y = at.row * rowHeight;
    if (y < element.scrollTop) element.scrollTop = y;
    const bottom = y + rowHeight + AXIS + 4;
    if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight;
    this.draw();
    const box = this.surface.canvas.getBoundingClientRect();
    const x = box.left + this.gutter + ((at.column + 0.5) / this.matrix.columns) * this.plotWidth;
    const row = this.rows[at.row]!;
    showTooltip(new MouseEvent("mousemove", { clientX: x, clientY: box.top + AXIS + y - element.scrollTop + rowHeight }), this.describe(row, at.column));
  }
}

/** What a full scale stands for: the card of a rank; where no card is known, the largest figure. */
export function scaleEnd(job: Job, matrix: Matrix, shown: Shown, place: number): number {
  return job.ranks.total_bytes[place] ?? matrix.largestOf(shown);
}

export function rampOf(shown: Shown, theme: Theme): Uint8ClampedArray {
  if (shown === "imbalance") return ramp(theme.isDark ? DIFFERENCE_DARK : DIFFERENCE_LIGHT);
  return ramp(theme.isDark ? SHARE_DARK : SHARE_LIGHT);
}

/** The ranks to look at, the most important first, with their symbols. */
export function marksOf(job: Job): Map<number, string> {
  const { marks } = job;
  const found = new Map<number, string>();
  const add = (place: number, symbol: string) => {
    const before = found.get(place) ?? "";
    if (!before.includes(symbol)) found.set(place, before + symbol);
  };
  if (marks.failed_first !== null) add(marks.failed_first.place, "✕");
  if (marks.silent_first !== null) add(marks.silent_first.place, "✕");
  for (const mark of marks.also_failed) add(mark.place, "✕");
  for (const mark of marks.outliers) add(mark.place, "▲");
  for (const place of marks.leaking) add(place, "↗");
  if (marks.nearest !== null) add(marks.nearest, "●");
  return found;
}
