// Steps, phases, evaluations and annotations in lanes above the timeline. They are loaded by tile;
// where many are narrower than a pixel, one box stands for them and says how many there are.

import type { Span, SpanTile } from "../data/answers";
import { fitted } from "../ui/dom";
import * as format from "../ui/format";
import { hashed, striped, type Theme } from "../ui/palette";
import type { State } from "../page/state";
import { TileStore } from "./tiles";
import { LANE, type Plot } from "./plot";

export class SpanTiles extends TileStore<"spans", SpanTile> {
  constructor(state: State, arrived: () => void) {
    const asked = (level: number, index: number) => ({ ...state.deviceName, axis: state.axis, level, index });
    const deepest = () => Math.min(state.deepestLevel, state.source.spanLevels(state.file, state.device) ?? Infinity);
    super(state, "spans", asked, (answer) => answer, arrived, deepest);
  }
}

export class SpanLanes {
  private readonly tiles: SpanTiles;
  private shown: Span[] = [];
  private leftOut = 0;

  constructor(private readonly plot: Plot, arrived: () => void) {
    this.tiles = new SpanTiles(plot.state, arrived);
  }

  clear(): void {
    this.tiles.clear();
  }

  get isComplete(): boolean {
    return this.plot.laneCount === 0 || this.tiles.isComplete;
  }

  /** How many spans are visible, and how many of them are merged boxes; for tests and help. */
  get counts(): { boxes: number; merged: number; spans: number } {
    const merged = this.shown.filter((span) => (span.count ?? 1) > 1);
    return { boxes: this.shown.length, merged: merged.length, spans: this.shown.reduce((sum, span) => sum + (span.count ?? 1), 0) };
  }

  private collect(): void {
    const { plot } = this;
    const known = new Set<string>();
    this.shown = [];
    this.leftOut = 0;
    this.tiles.visit(plot.width, (tile) => {
      this.leftOut += tile.left_out;
      for (const span of tile.spans) {
        // A span that extends over several tiles is in each of them.
        const key = `${span.lane} ${span.from} ${span.from_ns} ${span.to} ${span.to_ns} ${span.name}`;
        const [x0, x1] = this.edges(span);
        if (known.has(key) || x1 < plot.left || x0 > plot.right) continue;
        known.add(key);
        this.shown.push(span);
      }
    });
  }

  private edges(span: Span): [number, number] {
    const { plot } = this;
    return [plot.x(plot.shareOf(span.from, span.from_ns)), plot.x(plot.shareOf(span.to, span.to_ns))];
  }

  draw(context: CanvasRenderingContext2D, theme: Theme): void {
    const { plot } = this;
    this.shown = [];
    if (plot.laneCount === 0) return;
    this.collect();
    context.save();
    context.beginPath();
    context.rect(plot.left, 0, plot.width, plot.top);
    context.clip();
    context.font = "10px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "left";
    for (const span of this.shown) this.drawSpan(context, theme, span);
    context.restore();
  }

  private drawSpan(context: CanvasRenderingContext2D, theme: Theme, span: Span): void {
    const { plot } = this;
    const [start, end] = this.edges(span);
    const [x0, x1] = [Math.max(plot.left, start), Math.min(plot.right, Math.max(end, start + 1))];
    const y = 4 + span.lane * LANE;
    const isMerged = (span.count ?? 1) > 1;
    const width = Math.max(1, x1 - x0);
    const plain = hashed(span.name.replace(/\d+/g, "")) % 2 === 0 ? theme.panel : theme.free;
    context.fillStyle = isMerged ? striped(context, theme.panel, theme.muted, 5) : span.kind === "evaluation" ? theme.surface : plain;
    context.fillRect(x0, y, width, LANE - 2);
    context.strokeStyle = isMerged ? theme.muted : theme.line;
    if (span.kind === "evaluation") context.setLineDash([3, 2]);
    if (width > 2) context.strokeRect(x0 + 0.5, y + 0.5, Math.max(0, width - 1), LANE - 3);
    context.setLineDash([]);
    const text = fitted(context, spanTitle(span), width - 8);
    if (text === "") return;
    if (isMerged) {
      // A plate behind the text keeps it readable over stripes.
      context.fillStyle = theme.panel;
      context.fillRect(x0 + 2, y + 1, context.measureText(text).width + 4, LANE - 4);
    }
    context.fillStyle = theme.text;
    context.fillText(text, x0 + 4, y + LANE / 2 - 1);
  }

  /** The span at a point in the lanes; null if there is none. */
  linesAt(x: number, y: number): string[] | null {
    const lane = Math.floor((y - 4) / LANE);
    const under = this.shown.filter((span) => {
      const [x0, x1] = this.edges(span);
      return span.lane === lane && x0 - 1 <= x && x <= Math.max(x1, x0 + 1) + 1;
    });
    const { plot } = this;
    const span = under[under.length - 1];
    if (span === undefined) return null;
    const count = span.count ?? 1;
    const lines = [spanTitle(span), `events ${format.count(span.from)} to ${format.count(span.to)}`];
    if (span.from_ns !== null && span.to_ns !== null && plot.state.hasTime) lines.push(`${plot.state.current.is_long === true ? "about " : ""}${format.duration(span.to_ns - span.from_ns)}`);
    if (count > 1) lines.push("too narrow to draw separately: zoom in");
    if (span.kind === "evaluation") lines.push("a forward pass that keeps nothing for backward (inferred)");
    if (this.leftOut > 0) lines.push(`${format.counted(this.leftOut, "span")} not drawn here: too many overlap`);
    return lines;
  }
}

/** "step 3"; for several "412 spans: step 3 to step 414". */
function spanTitle(span: Span): string {
  const count = span.count ?? 1;
  if (count === 1) return span.name;
  const nouns: Record<Span["kind"], string> = { step: "step", phase: "phase", evaluation: "span", annotation: "annotation" };
  const range = span.last_name === span.name ? `${span.name}` : `${span.name} to ${span.last_name}`;
  return `${format.counted(count, nouns[span.kind])}: ${range}`;
}
