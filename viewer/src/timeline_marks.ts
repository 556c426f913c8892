// What explains the timeline: steps, phases and annotations in lanes above it, bounds and
// out-of-memory errors on it.

import type { Marks } from "./data";
import { fitted } from "./dom";
import * as format from "./format";
import { hashed, type Theme } from "./palette";
import { LANE, type Plot } from "./timeline_plot";

const MOST_LANES = 3;

/** One lane for each depth, up to a few; the deepest share the last one. */
export function lanesOf(marks: Marks): number {
  const deepest = marks.spans.reduce((most, span) => Math.max(most, span.depth), -1);
  return Math.min(MOST_LANES, deepest + 1);
}

/** The limit and the card: lines with their names. */
export function drawBounds(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, marks: Marks): void {
  if (plot.isSmall) return;
  const { limit_bytes: limit, card_bytes: card, is_limit_inferred: isInferred } = marks;
  const bounds: [number | null, string, number[]][] = [
    [limit, `limit ${limit === null ? "" : format.bytes(limit)}${isInferred ? " (inferred)" : ""}`, [8, 4]],
    [card, `card ${card === null ? "" : format.bytes(card)}`, [2, 4]],
  ];
  for (const [bytes, label, dash] of bounds) {
    if (bytes === null || bytes > plot.mostBytes) continue;
    const y = Math.round(plot.y(bytes)) + 0.5;
    context.strokeStyle = theme.danger;
    context.lineWidth = 1.5;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(plot.left, y);
    context.lineTo(plot.right, y);
    context.stroke();
    context.setLineDash([]);
    plate(context, theme, label, plot.right - 6, y - 9, theme.danger, "right");
  }
}

function plate(
  context: CanvasRenderingContext2D,
  theme: Theme,
  text: string,
  x: number,
  y: number,
  color: string,
  align: "left" | "right",
): void {
  context.font = "600 11px system-ui, sans-serif";
  const width = context.measureText(text).width;
  const left = align === "left" ? x : x - width;
  context.fillStyle = theme.surface;
  context.globalAlpha = 0.88;
  context.fillRect(left - 4, y - 7, width + 8, 15);
  context.globalAlpha = 1;
  context.fillStyle = color;
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(text, left, y + 0.5);
}

/** Steps and annotations above the plot, one lane for each depth. */
export function drawLanes(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, marks: Marks): void {
  const lanes = plot.laneCount;
  if (lanes === 0) return;
  context.font = "10px system-ui, sans-serif";
  context.textBaseline = "middle";
  context.textAlign = "left";
  const past = new Float64Array(lanes).fill(-1);
  for (const span of marks.spans) {
    const lane = Math.min(span.depth, lanes - 1);
    const x0 = Math.max(plot.left, plot.x(plot.shareOf(span.from, span.from_ns)));
    const x1 = Math.min(plot.right, plot.x(plot.shareOf(span.to, span.to_ns)));
    // What is narrower than a pixel and touches its neighbour would only be drawn over it.
    if (x1 < plot.left || x0 > plot.right || x1 <= past[lane]!) continue;
    const y = 4 + lane * LANE;
    const width = Math.max(1, x1 - x0);
    context.fillStyle = hashed(span.name.replace(/\d+/g, "")) % 2 === 0 ? theme.panel : theme.free;
    context.fillRect(x0, y, width, LANE - 2);
    context.strokeStyle = theme.line;
    context.strokeRect(x0 + 0.5, y + 0.5, Math.max(0, width - 1), LANE - 3);
    context.fillStyle = theme.text;
    context.fillText(fitted(context, span.name, width - 6), x0 + 4, y + LANE / 2 - 1);
    past[lane] = x0 + width;
  }
}

export function drawOoms(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, marks: Marks): void {
  let lastLabel = -1e9;
  for (const oom of marks.ooms) {
    const x = plot.x(plot.shareOf(oom.position, oom.time_ns));
    if (x < plot.left || x > plot.right) continue;
    context.strokeStyle = theme.danger;
    context.lineWidth = 1.5;
    context.setLineDash([4, 3]);
    context.beginPath();
    context.moveTo(x, plot.top - 4);
    context.lineTo(x, plot.base);
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = theme.danger;
    context.beginPath();
    context.moveTo(x - 5, plot.top - 10);
    context.lineTo(x + 5, plot.top - 10);
    context.lineTo(x, plot.top - 2);
    context.fill();
    if (plot.isSmall || x - lastLabel < 150) continue;
    lastLabel = x;
    const text = `out of memory: ${format.bytes(oom.wanted_bytes)} wanted`;
    context.font = "600 11px system-ui, sans-serif";
    const isRight = x + context.measureText(text).width + 16 > plot.right;
    plate(context, theme, text, isRight ? x - 9 : x + 9, plot.top - 5, theme.danger, isRight ? "right" : "left");
  }
}

/** What the span at a place of the lanes is; nothing where there is none. */
export function spanLines(plot: Plot, marks: Marks, x: number, y: number): string[] | null {
  const lane = Math.floor((y - 4) / LANE);
  const under = marks.spans.filter((span) => {
    const [x0, x1] = [plot.x(plot.shareOf(span.from, span.from_ns)), plot.x(plot.shareOf(span.to, span.to_ns))];
    return Math.min(span.depth, plot.laneCount - 1) === lane && x0 - 1 <= x && x <= x1 + 1;
  });
  const span = under[under.length - 1];
  if (span === undefined) return null;
  const lines = [span.name, `events ${format.count(span.from)} to ${format.count(span.to)}`];
  if (span.from_ns !== null && span.to_ns !== null) lines.push(format.duration(span.to_ns - span.from_ns));
  return lines;
}
