// Segments over time: a line for each segment, as long as it was reserved, the darker the fuller. Its moments are samples
// of the visible range, each the exact state of the pool.

import type { Segments, SegmentRow } from "../data/answers";
import type { State } from "../page/state";
import { el, Surface } from "../ui/dom";
import * as format from "../ui/format";
import { blended, chosenTheme } from "../ui/palette";
import { hideTooltip, showTooltip } from "../ui/tooltip";

const SAMPLES = 32;
const HEIGHT = 132;
const LEFT = 66;
const RIGHT = 12;

interface Line {
  address: string;
  /** At each sample; null: it is not reserved. */
  at: (SegmentRow | null)[];
}

export class HistoryStrip {
  readonly element = el("div", { class: "segment-history", hidden: true, "data-testid": "segment-history" });
  /** Made when it is first shown. */
  private surface: Surface | null = null;
  private readonly note = el("p", { class: "muted" });
  private lines: Line[] = [];
  private samples: Segments[] = [];
  private key = "";

  constructor(private readonly state: State, private readonly visible: (places: number) => number[]) {
    this.element.append(this.note);
  }

  private makeSurface(): void {
    if (this.surface !== null) return;
    const box = el("div", { class: "strip-box" });
    this.element.append(box);
    this.surface = new Surface(box, "Segments over time; a click moves the cursor", () => this.draw());
    const { canvas } = this.surface;
    const { state } = this;
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", hideTooltip);
    canvas.addEventListener("click", (event) => {
      const found = this.at(event);
      if (found !== null) state.setCursor(this.samples[found.sample]!.position);
    });
  }

  show(): void {
    const { state } = this;
    this.element.hidden = !state.hasSegmentHistory || !state.current.has_pool;
    if (this.element.hidden) return;
    this.makeSurface();
    const places = this.visible(SAMPLES);
    // Before the timeline above is drawn there are none.
    if (places.length === 0) return void window.setTimeout(() => this.show(), 100);
    const key = `${state.deviceKey} ${places.join()}`;
    if (key === this.key) return this.draw();
    this.key = key;
    const { file, device, source } = state;
    const positions = places.map((position) => source.nearestState(file, device, position));
    const by = source.isWhole(file, device) ? state.knownBy : state.current.group_bys[0]!;
    void Promise.all(positions.map((position) => source.ask("segments", { file, device, position, by }))).then(
      (samples) => {
        if (key !== this.key) return;
        this.take(samples);
      },
      (error: Error) => key === this.key && (this.note.textContent = error.message),
    );
  }

  private take(samples: Segments[]): void {
    this.samples = samples;
    const lines = new Map<string, Line>();
    samples.forEach(({ segments }, sample) => {
      for (const segment of segments) {
        let line = lines.get(segment.address);
        if (line === undefined) lines.set(segment.address, (line = { address: segment.address, at: samples.map(() => null) }));
        line.at[sample] = segment;
      }
    });
    const size = ({ at }: Line) => at.reduce((most, segment) => Math.max(most, segment?.size ?? 0), 0);
    this.lines = [...lines.values()].sort((a, b) => size(b) - size(a));
    this.note.textContent = `Segments over time: ${format.counted(this.lines.length, "segment")}, the largest on top, at ${format.counted(samples.length, "moment")} of the visible range. The darker, the fuller; pale: reserved, but free.`;
    this.draw();
  }

  private get row(): number {
    return Math.max(1, Math.min(12, HEIGHT / Math.max(1, this.lines.length)));
  }

  private draw(): void {
    const { surface } = this;
    if (this.element.hidden || this.samples.length === 0 || surface === null) return;
    const theme = chosenTheme();
    const context = surface.begin(HEIGHT);
    const width = (surface.width - LEFT - RIGHT) / this.samples.length;
    this.lines.forEach((line, number) => {
      line.at.forEach((segment, sample) => {
        if (segment === null) return;
        context.fillStyle = blended(theme.accent, theme.free, 1 - segment.free / segment.size);
        context.fillRect(LEFT + sample * width, number * this.row, Math.ceil(width), Math.max(1, this.row - 0.5));
      });
    });
    const fits = Math.floor(HEIGHT / this.row);
    Object.assign(surface.canvas.dataset, { lines: this.lines.length, drawn: Math.min(fits, this.lines.length), reserved: this.samples.map(({ reserved_bytes }) => reserved_bytes).join(), positions: this.samples.map(({ position }) => position).join() });
    const cursor = this.samples.findIndex(({ position }) => position >= this.state.cursor);
    if (cursor < 0) return;
    context.fillStyle = theme.accent;
    context.fillRect(LEFT + (cursor + 0.5) * width - 0.75, 0, 1.5, HEIGHT);
  }

  private at(event: MouseEvent): { line: Line | null; sample: number } | null {
    const surface = this.surface!;
    const { x, y } = surface.at(event);
    const sample = Math.floor(((x - LEFT) * this.samples.length) / Math.max(1, surface.width - LEFT - RIGHT));
    if (sample < 0 || sample >= this.samples.length) return null;
    return { line: this.lines[Math.floor(y / this.row)] ?? null, sample };
  }

  private hover(event: MouseEvent): void {
    const found = this.at(event);
    const segment = found?.line?.at[found.sample] ?? null;
    if (found === null || segment === null) return hideTooltip();
    const map = this.samples[found.sample]!;
    const block = segment.pin === null ? -1 : map.row.indexOf(segment.pin);
    const lines = [`${format.bytes(segment.size)} segment ${segment.address}`, `${format.bytes(segment.free)} of it free`];
    if (block >= 0) lines.push(`pinned by ${map.labels[map.label[block]!]!}`);
    lines.push(`event ${format.count(Math.max(0, map.position - 1))}; click to go there`);
    showTooltip(event, lines);
  }
}
