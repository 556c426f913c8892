// The timeline's axes: bytes upwards, time or events to the right.

import * as format from "../ui/format";
import type { Theme } from "../ui/palette";
import type { Plot } from "./plot";

export function drawAxes(context: CanvasRenderingContext2D, theme: Theme, plot: Plot): void {
  context.font = "11px system-ui, sans-serif";
  context.strokeStyle = theme.line;
  context.fillStyle = theme.muted;
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  for (const { value, text } of format.byteTicks(plot.mostBytes, plot.isSmall ? 2 : Math.max(2, (plot.base - plot.top) / 55))) {
    const y = Math.round(plot.y(value)) + 0.5;
    context.globalAlpha = value === 0 ? 1 : 0.45;
    context.beginPath();
    context.moveTo(plot.left, y);
    context.lineTo(plot.right, y);
    context.stroke();
    context.globalAlpha = 1;
    context.fillText(text, plot.left - 8, y);
  }
  drawTicks(context, plot);
  context.textAlign = "left";
}

function drawTicks(context: CanvasRenderingContext2D, plot: Plot): void {
  const { axis, from, to, positions, current } = plot.state;
  const whole = axis === "event" ? positions : current.duration_ns! + 1;
  const span = (to - from) * whole;
  const most = Math.max(2, plot.width / 110);
  const step = axis === "event" ? Math.max(format.decimalStep(span, most), 1) : format.timeStep(span, most);
  context.textBaseline = "top";
  context.textAlign = "center";
  for (let tick = Math.ceil((from * whole) / step) * step; tick <= to * whole; tick += step) {
    const x = Math.round(plot.x(tick / whole)) + 0.5;
    context.beginPath();
    context.moveTo(x, plot.base);
    context.lineTo(x, plot.base + 4);
    context.stroke();
    const text = axis === "event" ? format.count(Math.round(tick)) : format.timeTick(tick, step, to * whole);
    const half = context.measureText(text).width / 2;
    if (x - half < 4 || x + half > plot.surface.width - 2) continue;
    context.fillText(text, x, plot.base + (plot.isSmall ? 3 : 7));
  }
}
