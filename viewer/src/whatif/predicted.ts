// The run as it is predicted with remedies, over the recorded one: its curve, its peak with the band, and the memory it
// is to fit into.

import type { Band, TogetherAnswer } from "../data/answers";
import { summed } from "../data/deltas";
import { fitted } from "../ui/dom";
import * as format from "../ui/format";
import { blended, type Theme } from "../ui/palette";
import type { TimelineLayer } from "../timeline/layer";
import type { Plot } from "../timeline/plot";

const FONT = "600 11px system-ui, sans-serif";
/** The limit is drawn if the plot need not become much higher for it. */
const MOST_TIMES = 1.5;

export class PredictedLayer implements TimelineLayer {
  private most: Float64Array = new Float64Array();
  private times: Float64Array = new Float64Array();
  private perPoint = 1;
  private first = 0;
  /** Of a run too long for memory: the part that is predicted. Positions, and where they are on the axis of time. */
  part: { from: number; to: number; fromNs: number | null; toNs: number | null } | null = null;
  peak: number | null = null;
  band: Band | null = null;
  /** Which bytes these are: a card holds reserved ones. */
  fitBytes: number | null = null;

  set(answer: TogetherAnswer | null): void {
    const remedy = answer?.remedy ?? null;
    this.peak = remedy?.predicted_peak_allocated_bytes ?? null;
    this.band = remedy?.predicted_peak_allocated_band ?? null;
    this.most = summed(answer?.most_bytes ?? []);
    this.times = summed(answer?.time_ns ?? []);
    this.perPoint = answer?.events_per_point ?? 1;
    this.first = answer?.first_event ?? 0;
  }

  get points(): number {
    return this.most.length;
  }
  get highest(): number {
    return this.most.reduce((high, value) => Math.max(high, value), 0);
  }

  mostBytes(): number {
    return Math.max(this.highest, this.band?.high_bytes ?? 0);
  }

  draw(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
    context.save();
    context.beginPath();
    context.rect(plot.left, 0, plot.width, plot.base);
    context.clip();
    this.drawPart(context, theme, plot);
    this.drawBand(context, theme, plot);
    this.drawCurve(context, theme, plot);
    context.restore();
    this.drawFit(context, theme, plot);
    this.drawLabel(context, theme, plot);
  }

  private drawBand(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
    if (this.band === null) return;
    const [top, base] = [plot.y(this.band.high_bytes), plot.y(this.band.low_bytes)];
    const [left, right] = this.sides(plot);
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.22;
    context.fillRect(left, top, right - left, Math.max(2, base - top));
    context.globalAlpha = 1;
  }

  /** Where what is predicted begins and ends; at least two pixels, or it would be lost in a long run. */
  private sides(plot: Plot): [number, number] {
    if (this.part === null) return [plot.left, plot.right];
    const { from, to, fromNs, toNs } = this.part;
    const left = plot.x(plot.shareOf(from, fromNs));
    return [left, Math.max(left + 2, plot.x(plot.shareOf(to, toNs)))];
  }

  /** The rest of the run is paler: nothing is said about it. */
  private drawPart(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
    if (this.part === null) return;
    const [left, right] = this.sides(plot);
    context.fillStyle = theme.surface;
    context.globalAlpha = 0.55;
    context.fillRect(plot.left, 0, Math.max(0, left - plot.left), plot.base);
    context.fillRect(right, 0, Math.max(0, plot.right - right), plot.base);
    context.globalAlpha = 1;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1;
    context.setLineDash([3, 3]);
    context.beginPath();
    for (const x of [left, right]) {
      context.moveTo(Math.round(x) + 0.5, plot.top);
      context.lineTo(Math.round(x) + 0.5, plot.base);
    }
    context.stroke();
    context.setLineDash([]);
  }

  private drawCurve(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
    const { axis } = plot.state;
    if (this.most.length === 0 || (axis === "time" && this.times.length === 0)) return;
    const start = (at: number) => plot.x(plot.shareOf(this.first + at * this.perPoint + 0.5, this.times[at] ?? null));
    const end = this.part === null ? { position: plot.state.current.events, ns: plot.state.current.duration_ns } : { position: this.part.to, ns: this.part.toNs };
    // Light below, so that the line shows on every band.
    for (const [color, width] of [[theme.surface, 4], [theme.accent, 2]] as const) {
      context.beginPath();
      for (let at = 0; at < this.most.length; at++) {
        const y = plot.y(this.most[at]!);
        context.lineTo(start(at), y);
        context.lineTo(at + 1 < this.most.length ? start(at + 1) : plot.x(plot.shareOf(Math.min(this.first + (at + 1) * this.perPoint, end.position), end.ns)), y);
      }
      context.strokeStyle = color;
      context.lineWidth = width;
      context.stroke();
    }
  }

  private drawFit(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
    if (this.fitBytes === null || this.fitBytes > MOST_TIMES * plot.mostBytes) return;
    const y = Math.round(Math.max(plot.top, plot.y(this.fitBytes))) + 0.5;
    context.strokeStyle = theme.text;
    context.lineWidth = 1.5;
    context.setLineDash([10, 4]);
    context.beginPath();
    context.moveTo(plot.left, y);
    context.lineTo(plot.right, y);
    context.stroke();
    context.setLineDash([]);
    plate(context, theme, `${plot.y(this.fitBytes) < plot.top ? "↑ " : ""}to fit: ${format.bytes(this.fitBytes)}`, plot.left + 6, y + 10, theme.text, plot.width - 12);
  }

  private drawLabel(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
    if (this.peak === null || this.band === null) return;
    const text = `predicted peak ${format.bytes(this.peak)} (${format.bytes(this.band.low_bytes)} to ${format.bytes(this.band.high_bytes)})`;
    const [left] = this.sides(plot);
    context.font = FONT;
    const x = Math.min(Math.max(left, plot.left) + 6, Math.max(plot.left + 6, plot.right - 12 - context.measureText(text).width));
    plate(context, theme, text, x, plot.y(this.band.high_bytes) - 10, theme.accent, plot.right - x - 6);
  }
}

function plate(context: CanvasRenderingContext2D, theme: Theme, text: string, x: number, y: number, color: string, most: number): void {
  context.font = FONT;
  context.textAlign = "left";
  context.textBaseline = "middle";
  const shown = fitted(context, text, most);
  context.fillStyle = blended(theme.surface, theme.panel, 0.9);
  context.fillRect(x - 4, y - 8, context.measureText(shown).width + 8, 16);
  context.fillStyle = color;
  context.fillText(shown, x, y + 0.5);
}
