// What is drawn on the timeline besides memory: bounds, and allocations that failed.

import type { OverlayOom, TimelineOverlays } from "../data/answers";
import * as format from "../ui/format";
import type { Theme } from "../ui/palette";
import type { Plot } from "./plot";

/** The limit and the card: lines with their names. */
export function drawBounds(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, overlays: TimelineOverlays): void {
  if (plot.isSmall) return;
  const { limit_bytes: limit, card_bytes: card, is_limit_inferred: isInferred } = overlays;
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

export function drawOoms(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, overlays: TimelineOverlays): void {
  let lastLabel = -1e9;
  for (const oom of overlays.ooms) {
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
    const text = `out of memory: ${format.bytes(oom.wanted_bytes)} requested`;
    context.font = "600 11px system-ui, sans-serif";
    const isRight = x + context.measureText(text).width + 16 > plot.right;
    plate(context, theme, text, isRight ? x - 9 : x + 9, plot.top - 5, theme.danger, isRight ? "right" : "left");
  }
}

/** The failed allocation whose mark is at a point; the mark is its triangle and its line. */
export function oomAt(plot: Plot, overlays: TimelineOverlays, x: number, y: number): OverlayOom | null {
  let best: { oom: OverlayOom; distance: number } | null = null;
  for (const oom of overlays.ooms) {
    const distance = Math.abs(plot.x(plot.shareOf(oom.position, oom.time_ns)) - x);
    const reach = y < plot.top + 2 ? 7 : 3;
    if (distance <= reach && y >= plot.top - 12 && y <= plot.base && (best === null || distance < best.distance)) best = { oom, distance };
  }
  return best?.oom ?? null;
}

export function oomLines(oom: OverlayOom, hasTime: boolean): string[] {
  const free = Math.max(0, oom.reserved_bytes - oom.allocated_bytes);
  return [
    `Out of memory: ${format.bytes(oom.wanted_bytes)} requested`,
    oom.label,
    `${format.bytes(oom.allocated_bytes)} allocated, ${format.bytes(oom.reserved_bytes)} reserved, ${format.bytes(free)} of it free`,
    `event ${format.count(oom.position - 1)}${oom.time_ns === null || !hasTime ? "" : `, at ${format.duration(oom.time_ns)}`}; click to go there`,
  ];
}
