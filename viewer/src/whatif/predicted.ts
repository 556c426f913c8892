// The run as it is predicted with remedies, over the recorded one: its curve, its peak with the band, and the memory it
// is to fit into.

import type { Band, TogetherAnswer } from "../data/answers";
import { summed } from "../data/deltas";
import { fitted } from "../ui/dom";
import * as format from "../ui/format";
import { blended, type Theme } from "../ui/palette";
import type { TimelineLayer } from "../timeline/layer";
import type { Plot } from "../timeline/plot";

/** The limit is drawn if the plot need not become much higher for it. */
const MOST_TIMES = 1.5;

export class PredictedLayer implements TimelineLayer {
  private most: Float64Array = new Float64Array();
  private times: Float64Array = new Float64Array();
  private perPoint = 1;
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
    this.drawBand(context, theme, plot);
    this.drawCurve(context, theme, plot);
    context.restore();
    this.drawFit(context, theme, plot);
    this.drawLabel(context, theme, plot);
  }

  private drawBand(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
    if (this.band === null) return;
    const [top, base] = [plot.y(this.band.high_bytes), plot.y(this.band.low_bytes)];
    context.fillStyle = theme.accent;
    context.globalAlpha = 0.22;
    context.fillRect(plot.left, top, plot.width, Math.max(2, base - top));
    context.globalAlpha = 1;
  }

  private drawCurve(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
    const { axis } = plot.state;
    if (this.most.length === 0 || (axis === "time" && this.times.length === 0)) return;
    const start = (at: number) => plot.x(plot.shareOf(at * this.perPoint + 0.5, this.times[at] ?? null));
    // Light below, so that the line shows on every band.
    for (const [color, width] of [[theme.surface, 4], [theme.accent, 2]] as const) {
      context.beginPath();
      for (let at = 0; at < this.most.length; at++) {
        const y = plot.y(this.most[at]!);
        context.lineTo(start(at), y);
        context.lineTo(at + 1 < this.most.length ? start(at + 1) : plot.x(plot.shareOf(Math.min((at + 1) * this.perPoint, plot.state.current.events), plot.state.current.duration_ns)), y);
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
    plate(context, theme, text, plot.left + 6, plot.y(this.band.high_bytes) - 10, theme.accent, plot.width - 12);
  }
}

function plate(context: CanvasRenderingContext2D, theme: Theme, text: string, x: number, y: number, color: string, most: number): void {
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  const shown = fitted(context, text, most);
  context.fillStyle = blended(theme.surface, theme.panel, 0.9);
  context.fillRect(x - 4, y - 8, context.measureText(shown).width + 8, 16);
  context.fillStyle = color;
  context.fillText(shown, x, y + 0.5);
}
