// The stack of bands that makes up the timeline, with their labels.

import type { Group } from "../data/answers";
import { fitted } from "../ui/dom";
import * as format from "../ui/format";
import { groupFill, inkOn, type Theme } from "../ui/palette";
import type { Column } from "./columns";
import type { Plot } from "./plot";

export interface Band {
  label: string;
  color: string;
  group: Group;
  number: number;
  bytes(column: Column): number;
}

type Edges = (readonly [number, number])[];

const edgesOf = (plot: Plot, columns: Column[]): Edges => columns.map((column) => [plot.x(column.from), plot.x(column.to)] as const);

/** The outline of a band over columns [first, first + length). */
function trace(context: CanvasRenderingContext2D, plot: Plot, edges: Edges, first: number, base: Float64Array, top: Float64Array): void {
  context.beginPath();
  for (let at = 0; at < top.length; at++) {
    const y = plot.y(top[at]!);
    context.lineTo(edges[first + at]![0], y);
    context.lineTo(edges[first + at]![1], y);
  }
  for (let at = top.length - 1; at >= 0; at--) {
    const y = plot.y(base[at]!);
    context.lineTo(edges[first + at]![1], y);
    context.lineTo(edges[first + at]![0], y);
  }
  context.closePath();
}

export function drawBands(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, columns: Column[], bands: Band[]): void {
  if (columns.length === 0) return;
  const edges = edgesOf(plot, columns);
  const base = new Float64Array(columns.length);
  const labels: (() => void)[] = [];
  bands.forEach((band, index) => {
    const top = new Float64Array(columns.length);
    let hasAny = false;
    for (let at = 0; at < columns.length; at++) {
      const bytes = band.bytes(columns[at]!);
      top[at] = base[at]! + bytes;
      if (bytes > 0) hasAny = true;
    }
    if (!hasAny) return;
    context.globalAlpha = plot.state.highlighted !== null && plot.state.highlighted !== index ? 0.25 : 1;
    context.fillStyle = groupFill(context, theme, band.number, band.group.is_rest);
    trace(context, plot, edges, 0, base, top);
    context.fill();
    if (!plot.isSmall) {
      const text = band.group.is_rest ? band.label : `${band.number + 1}  ${format.shortestPlace(band.label)}`;
      labels.push(bandLabel(context, plot, text, band.color, edges, 0, Float64Array.from(base), top));
    }
    base.set(top);
  });
  context.globalAlpha = 1;
  drawRanges(context, theme, plot, columns, edges);
  for (const label of labels) label();
}

/** Where memory went up and down within a pixel, the part above its minimum is paler. */
function drawRanges(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, columns: Column[], edges: Edges): void {
  if (plot.isSmall) return;
  context.fillStyle = theme.surface;
  context.globalAlpha = theme.isDark ? 0.4 : 0.45;
  context.beginPath();
  columns.forEach((column, at) => {
    const height = plot.height(column.max - column.min);
    if (height < 0.5) return;
    context.rect(edges[at]![0], plot.y(column.max), edges[at]![1] - edges[at]![0], height);
  });
  context.fill();
  context.globalAlpha = 1;
}

/** The label goes where the band is highest, if there is room for it. */
function bandLabel(
  context: CanvasRenderingContext2D,
  plot: Plot,
  label: string,
  color: string,
  edges: Edges,
  first: number,
  base: Float64Array,
  top: Float64Array,
): () => void {
  const need = 15 / plot.height(1);
  let best = { from: 0, to: 0, low: 0, high: 0 };
  let run: typeof best | null = null;
  for (let at = 0; at < base.length; at++) {
    const [low, high] = [base[at]!, top[at]!];
    const [left, right] = edges[first + at]!;
    const joined: typeof best | null = run === null
      ? null
      : { from: run.from, to: right, low: Math.max(run.low, low), high: Math.min(run.high, high) };
    if (joined !== null && joined.high - joined.low >= need) run = joined;
    else run = high - low >= need ? { from: left, to: right, low, high } : null;
    if (run !== null && run.to - run.from > best.to - best.from) best = run;
  }
  return () => {
    const from = Math.max(best.from, plot.left);
    const to = Math.min(best.to, plot.right);
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    const text = fitted(context, label, to - from - 12);
    if (text === "" || text.length < 4) return;
    const y = (plot.y(best.low) + plot.y(best.high)) / 2;
    const width = context.measureText(text).width;
    // A plate behind the text keeps it readable over stripes.
    context.fillStyle = color;
    context.fillRect(from + 4, y - 7, width + 6, 14);
    context.fillStyle = inkOn(color);
    context.textBaseline = "middle";
    context.fillText(text, from + 7, y + 0.5);
  };
}
