// The stack of bands that makes up the timeline, with their labels.

import type { Group } from "./data";
import { fitted } from "./dom";
import * as format from "./format";
import { groupFill, inkOn, type Theme } from "./palette";
import type { Column } from "./tiles";
import type { Plot } from "./timeline_plot";

export interface Band {
  label: string;
  row: number | null;
  color: string;
  group: Group | null;
  number: number;
  bytes(column: Column): number;
}

export function drawBands(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, columns: Column[], bands: Band[]): void {
  if (columns.length === 0) return;
  const edges = columns.map((column) => [plot.x(column.from), plot.x(column.to)] as const);
  const base = new Float64Array(columns.length);
  const isSingle = plot.state.by === "allocation" && !plot.isSmall;
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
    const isDim = plot.state.highlighted !== null && !isSingle && plot.state.highlighted !== index;
    const isChosen = band.row !== null && band.row === plot.state.selected;
    context.globalAlpha = isDim ? 0.25 : 1;
    context.fillStyle = isSingle ? band.color : groupFill(context, theme, band.number, band.group?.is_rest ?? false);
    context.beginPath();
    context.moveTo(edges[0]![0], plot.y(top[0]!));
    for (let at = 0; at < columns.length; at++) {
      const y = plot.y(top[at]!);
      context.lineTo(edges[at]![0], y);
      context.lineTo(edges[at]![1], y);
    }
    for (let at = columns.length - 1; at >= 0; at--) {
      const y = plot.y(base[at]!);
      context.lineTo(edges[at]![1], y);
      context.lineTo(edges[at]![0], y);
    }
    context.closePath();
    context.fill();
    // Edges between bands of a few pixels would be all there is to see.
    const isTall = isSingle && top.some((value, at) => plot.height(value - base[at]!) > 5);
    if (isChosen || isTall) {
      context.strokeStyle = isChosen ? theme.text : theme.surface;
      context.lineWidth = isChosen ? 2 : 0.5;
      context.stroke();
    }
    if (!plot.isSmall) labels.push(bandLabel(context, plot, band, edges, Float64Array.from(base), top));
    base.set(top);
  });
  context.globalAlpha = 1;
  for (const label of labels) label();
}

/** The label goes where the band is highest, if there is room for it. */
function bandLabel(
  context: CanvasRenderingContext2D,
  plot: Plot,
  band: Band,
  edges: (readonly [number, number])[],
  base: Float64Array,
  top: Float64Array,
): () => void {
  const need = 15 / plot.height(1);
  let best = { from: 0, to: 0, low: 0, high: 0 };
  let run: typeof best | null = null;
  for (let at = 0; at < base.length; at++) {
    const [low, high] = [base[at]!, top[at]!];
    const joined: typeof best | null = run === null
      ? null
      : { from: run.from, to: edges[at]![1], low: Math.max(run.low, low), high: Math.min(run.high, high) };
    if (joined !== null && joined.high - joined.low >= need) run = joined;
    else run = high - low >= need ? { from: edges[at]![0], to: edges[at]![1], low, high } : null;
    if (run !== null && run.to - run.from > best.to - best.from) best = run;
  }
  return () => {
    const isSingle = band.row !== null;
    const from = Math.max(best.from, plot.left);
    const to = Math.min(best.to, plot.right);
    context.font = "11px system-ui, sans-serif";
    const prefix = isSingle || band.number === 15 ? "" : `${band.number + 1}  `;
    const text = fitted(context, prefix + format.shortestPlace(band.label), to - from - 12);
    if (text === "" || text.length < 4) return;
    const y = (plot.y(best.low) + plot.y(best.high)) / 2;
    const width = context.measureText(text).width;
    // A plate below the text keeps it readable over stripes.
    context.fillStyle = band.color;
    context.globalAlpha = 0.85;
    context.fillRect(from + 4, y - 7, width + 6, 14);
    context.globalAlpha = 1;
    context.fillStyle = inkOn(band.color);
    context.textBaseline = "middle";
    context.fillText(text, from + 7, y + 0.5);
  };
}
