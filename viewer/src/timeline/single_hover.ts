// What the tooltip says about a single allocation: its size and age at once, its code, name, source and step when they
// have been read.

import type { Allocation } from "../data/answers";
import { stepAt } from "../data/steps";
import { sourceLabel } from "../page/panel";
import type { State } from "../page/state";
import * as format from "../ui/format";
import { showTooltip } from "../ui/tooltip";
import type { SingleBand } from "./singles";

const STACK_LINES = 6;

interface Details {
  found: Allocation;
  step: string | null;
}

export class SingleHover {
  private wanted: number | null = null;
  private readonly known = new Map<number, Details>();
  private key = "";

  constructor(private readonly state: State) {}

  show(event: MouseEvent, band: SingleBand, position: number): void {
    if (this.key !== this.state.deviceKey) this.known.clear();
    this.key = this.state.deviceKey;
    this.wanted = band.row;
    const details = this.known.get(band.row);
    showTooltip(event, this.lines(band, position, details ?? null));
    if (details === undefined) void this.read(event, band, position);
  }

  private async read(event: MouseEvent, band: SingleBand, position: number): Promise<void> {
    // A mouse that passes over asks nothing.
    await new Promise((resolve) => window.setTimeout(resolve, 40));
    const { state, key } = this;
    if (this.wanted !== band.row || this.known.has(band.row)) return;
    try {
      const found = await state.source.ask("allocation", { ...state.deviceName, row: band.row });
      const step = await stepAt(state, state.deviceName, found.birth).catch(() => null);
      if (key !== this.key) return;
      this.known.set(band.row, { found, step: step?.name ?? null });
    } catch {
      return;
    }
    const isThere = document.querySelector<HTMLElement>(".tooltip")?.hidden === false;
    if (this.wanted === band.row && isThere) showTooltip(event, this.lines(band, position, this.known.get(band.row)!));
  }

  private lines(band: SingleBand, position: number, details: Details | null): string[] {
    const age = position - band.birth;
    const born = band.birth === 0 ? "from before the recording" : `allocated at event ${format.count(band.birth - 1)}`;
    const lines = [format.bytes(band.size)];
    if (details === null) return [...lines, `${born}, ${format.counted(age, "event")} old here`, "…"];
    const { found, step } = details;
    if (found.name !== null) lines.push(found.name);
    lines.push(found.label);
    const life = this.state.lifeText(found);
    lines.push(`${born}${step === null ? "" : `, in ${step}`}; ${format.counted(age, "event")} old here`);
    lines.push(found.death === null ? `never freed: lives ${life}, to the end` : `freed at event ${format.count(found.death - 1)}, after ${life}`);
    const kind = found.source === null ? null : sourceLabel(this.state.current.sources[found.source] ?? "unknown");
    if (kind !== null) lines.push(`${kind}${found.is_source_measured === false ? " (inferred)" : ""}${found.module == null ? "" : `, module ${found.module}`}`);
    if (found.stream != null && found.stream !== "0x0") lines.push(`stream ${found.stream}`);
    for (const [name, file, line] of found.frames.slice(0, STACK_LINES)) lines.push(`  ${name}  ${file.split("/").slice(-2).join("/")}:${line}`);
    if (found.frames.length > STACK_LINES) lines.push(`  … ${format.counted(found.frames.length - STACK_LINES, "more frame")}; click to pin`);
    else lines.push("click to pin");
    return lines;
  }
}
