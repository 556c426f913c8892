// The request that failed, as a block that is not there: on top of what was allocated when it was refused.

import type { OverlayOom, TimelineOverlays } from "../data/answers";
import { fitted } from "../ui/dom";
import * as format from "../ui/format";
import { blended, striped, type Theme } from "../ui/palette";
import type { Plot } from "./plot";

const WIDTH = 88;
const LEAST_HEIGHT = 3;
/** A request that is many times as large as the run would flatten it: its block is cut off at the top. */
const MOST_TIMES = 1.6;

/** What the plot must have room for, if it is to show a block on top of `most` bytes. */
export function ghostBytes(overlays: TimelineOverlays | null, most: number): number {
  const tops = (overlays?.ooms ?? []).map(({ allocated_bytes, wanted_bytes }) => allocated_bytes + wanted_bytes);
  return Math.min(Math.max(0, ...tops), MOST_TIMES * most);
}

export function drawGhosts(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, overlays: TimelineOverlays): void {
  if (plot.isSmall) return;
  let lastX = -1e9;
  for (const oom of overlays.ooms) {
    const x = plot.x(plot.shareOf(oom.position, oom.time_ns));
    if (x < plot.left || x > plot.right || x - lastX < WIDTH) continue;
    lastX = x;
    drawGhost(context, theme, plot, oom, x);
  }
}

function drawGhost(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, oom: OverlayOom, x: number): void {
  const base = plot.y(oom.allocated_bytes);
  const top = Math.max(plot.top, Math.min(base - LEAST_HEIGHT, plot.y(oom.allocated_bytes + oom.wanted_bytes)));
  const left = x + WIDTH > plot.right ? x - WIDTH : x;
  const isCut = plot.y(oom.allocated_bytes + oom.wanted_bytes) < plot.top - 1;
  const color = blended(theme.danger, theme.surface, theme.isDark ? 0.25 : 0.16);
  context.save();
  context.globalAlpha = 0.92;
  context.fillStyle = striped(context, color, blended(theme.danger, theme.surface, 0.45), 9);
  context.fillRect(left, top, WIDTH, base - top);
  context.globalAlpha = 1;
  context.strokeStyle = theme.danger;
  context.lineWidth = 1.5;
  context.setLineDash([5, 3]);
  context.beginPath();
  // One that is cut off is open at the top.
  context.moveTo(left, top);
  context.lineTo(left, base);
  context.lineTo(left + WIDTH, base);
  context.lineTo(left + WIDTH, top);
  if (!isCut) context.closePath();
  context.stroke();
  context.setLineDash([]);
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  const text = fitted(context, `${isCut ? "↑ " : ""}${format.bytes(oom.wanted_bytes)}`, WIDTH - 12);
  if (base - top >= 18 && text !== "") {
    context.fillStyle = color;
    context.fillRect(left + 4, (top + base) / 2 - 8, context.measureText(text).width + 6, 16);
    context.fillStyle = theme.danger;
    context.fillText(text, left + 7, (top + base) / 2 + 0.5);
  }
  context.restore();
}
