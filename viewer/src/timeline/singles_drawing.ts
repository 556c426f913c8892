// The picture of single allocations, pixel by pixel: thousands of outlines would take a canvas a hundred milliseconds,
// filling the pixels takes a few.

import { fitted } from "../ui/dom";
import * as format from "../ui/format";
import { inkOn, packed, type Theme } from "../ui/palette";
import { vectorsOf } from "../ui/vectors";
import type { Column } from "./columns";
import type { Plot } from "./plot";
import type { SingleBand, Singles } from "./singles";

/** The pixels of the plot, kept from frame to frame. */
class Raster {
  private readonly canvas = document.createElement("canvas");
  private image: ImageData | null = null;
  pixels = new Uint32Array(0);
  width = 0;
  height = 0;

  begin(width: number, height: number): void {
    const context = this.canvas.getContext("2d")!;
    if (this.image === null || this.width !== width || this.height !== height) {
      [this.canvas.width, this.canvas.height] = [this.width, this.height] = [width, height];
      this.image = context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    this.pixels.fill(0);
  }

  fill(x0: number, x1: number, y0: number, y1: number, color: number): void {
    const { pixels, width } = this;
    const [first, past] = [Math.max(0, y0) * width, Math.min(this.height, y1) * width];
    if (x1 - x0 > NARROW) {
      for (let row = first; row < past; row += width) pixels.fill(color, row + x0, row + x1);
      return;
    }
    // Most columns are a pixel wide: a call for each row would take several times as long.
    for (let row = first; row < past; row += width) for (let x = row + x0; x < row + x1; x++) pixels[x] = color;
  }

  drawOn(context: CanvasRenderingContext2D, x: number, y: number, width: number, height: number): void {
    this.canvas.getContext("2d")!.putImageData(this.image!, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.canvas, x, y, width, height);
  }
}

const NARROW = 8;
const raster = new Raster();
const FAINT = 0.25;

/** Where each column is, in pixels of the screen. */
function edgesOf(columns: Column[], plot: Plot, scale: number, width: number): Int32Array {
  const edges = new Int32Array(columns.length + 1);
  columns.forEach((column, at) => (edges[at] = Math.min(width, Math.max(0, Math.round((plot.x(column.from) - plot.left) * scale)))));
  const last = columns[columns.length - 1]!;
  edges[columns.length] = Math.min(width, Math.max(0, Math.round((plot.x(last.to) - plot.left) * scale)));
  return edges;
}

export function drawSingles(context: CanvasRenderingContext2D, theme: Theme, plot: Plot, columns: Column[], singles: Singles): void {
  if (columns.length === 0) return;
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [Math.ceil(plot.width * scale), Math.ceil((plot.base - plot.top) * scale)];
  if (width < 1 || height < 1) return;
  if (vectorsOf(context) !== null) return drawAsShapes(context, plot, columns, singles);
  raster.begin(width, height);
  const edges = edgesOf(columns, plot, scale, width);
  const pixelsPerByte = height / plot.mostBytes;
  const top = new Float64Array(columns.length);
  const { highlighted, selected, colour } = plot.state;
  const isFaint = (group: number) => highlighted !== null && colour === plot.state.knownBy && highlighted !== group;
  const [line, edge] = [packed(theme.surface, 1), packed(theme.text, 1)];
  const chosen: { band: SingleBand; base: Float64Array }[] = [];
  for (const band of singles.bands) {
    if (band.row === selected) chosen.push({ band, base: top.slice(band.first, band.past) });
    const color = packed(band.color, isFaint(band.group) ? FAINT : 1);
    // A line between bands that are high enough to lose a pixel.
    const hasLine = band.size * pixelsPerByte >= 4;
    for (let at = band.first; at < band.past; at++) {
      const [low, high] = [top[at]!, top[at]! + band.size];
      top[at] = high;
      const y1 = height - Math.round(low * pixelsPerByte);
      const y0 = height - Math.round(high * pixelsPerByte);
      if (y1 <= y0) continue;
      raster.fill(edges[at]!, edges[at + 1]!, y0, y1, color);
      if (hasLine) raster.fill(edges[at]!, edges[at + 1]!, y0, y0 + 1, line);
    }
  }
  for (const rest of singles.rest) {
    const color = packed(rest.color, isFaint(rest.group) ? FAINT : 1);
    for (let at = 0; at < columns.length; at++) {
      const [low, high] = [top[at]!, top[at]! + rest.bytes[at]!];
      top[at] = high;
      const y1 = height - Math.round(low * pixelsPerByte);
      const y0 = height - Math.round(high * pixelsPerByte);
      if (y1 > y0) raster.fill(edges[at]!, edges[at + 1]!, y0, y1, color);
    }
  }
  for (const { band, base } of chosen) outline(band, base, edges, height, pixelsPerByte, edge, scale);
  raster.drawOn(context, plot.left, plot.top, width / scale, height / scale);
  drawLabels(context, plot, columns, singles);
  plot.surface.canvas.dataset["drawnBytes"] = String(Math.max(...top));
}

/** For a file: an outline for each band. */
function drawAsShapes(context: CanvasRenderingContext2D, plot: Plot, columns: Column[], singles: Singles): void {
  const { highlighted, colour, knownBy } = plot.state;
  const top = new Float64Array(columns.length);
  const outlined = (first: number, past: number, bytes: (at: number) => number) => {
    const [upper, lower]: [number, number][][] = [[], []];
    for (let at = first; at < past; at++) {
      const [x0, x1] = [plot.x(columns[at]!.from), plot.x(columns[at]!.to)];
      const low = plot.y(top[at]!);
      top[at]! += bytes(at);
      for (const [points, y] of [[upper, plot.y(top[at]!)], [lower, low]] as const) {
        // A stretch at one height is one line.
        if (points!.length > 1 && points![points!.length - 1]![1] === y) points![points!.length - 1]![0] = x1;
        else points!.push([x0, y], [x1, y]);
      }
    }
    context.beginPath();
    for (const [x, y] of [...upper!, ...lower!.reverse()]) context.lineTo(x, y);
    context.closePath();
    context.fill();
  };
  const paint = (color: string, group: number) => {
    context.fillStyle = color;
    context.globalAlpha = highlighted !== null && colour === knownBy && highlighted !== group ? FAINT : 1;
  };
  for (const band of singles.bands) {
    paint(band.color, band.group);
    outlined(band.first, band.past, () => band.size);
  }
  for (const rest of singles.rest) {
    paint(rest.color, rest.group);
    outlined(0, columns.length, (at) => rest.bytes[at]!);
  }
  context.globalAlpha = 1;
  drawLabels(context, plot, columns, singles);
}

/** The pinned one stands out. */
function outline(band: SingleBand, base: Float64Array, edges: Int32Array, height: number, pixelsPerByte: number, color: number, scale: number): void {
  const thick = Math.max(1, Math.round(2 * scale));
  for (let at = band.first; at < band.past; at++) {
    const low = base[at - band.first]!;
    const y1 = height - Math.round(low * pixelsPerByte);
    const y0 = height - Math.round((low + band.size) * pixelsPerByte);
    const [x0, x1] = [edges[at]!, edges[at + 1]!];
    raster.fill(x0, x1, y0 - thick, y0, color);
    raster.fill(x0, x1, y1, y1 + thick, color);
    if (at === band.first) raster.fill(x0, Math.min(x1, x0 + thick), y0, y1, color);
    if (at === band.past - 1) raster.fill(Math.max(x0, x1 - thick), x1, y0, y1, color);
  }
}

/** Sizes, where a band stays at one height for long enough: an unlabelled picture says little. */
function drawLabels(context: CanvasRenderingContext2D, plot: Plot, columns: Column[], singles: Singles): void {
  const base = new Float64Array(columns.length);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const band of singles.bands) {
    const isHigh = plot.height(band.size) >= 15;
    let best = { left: 0, width: 0, low: 0 };
    let [start, low] = [band.first, base[band.first]!];
    for (let at = band.first; at < band.past; at++) {
      if (isHigh) {
        if (Math.abs(plot.height(base[at]! - low)) > 3) [start, low] = [at, base[at]!];
        const left = Math.max(plot.left, plot.x(columns[start]!.from));
        const width = Math.min(plot.right, plot.x(columns[at]!.to)) - left;
        if (width > best.width) best = { left, width, low };
      }
      base[at]! += band.size;
    }
    if (best.width < 40) continue;
    const text = fitted(context, format.bytes(band.size), best.width - 10);
    context.fillStyle = inkOn(band.color);
    context.fillText(text, best.left + 5, plot.y(best.low + band.size / 2));
  }
}
