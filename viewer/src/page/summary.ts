// The summary: what gpumemprof report says, with its figures as tables.

import type { Report, ReportDevice, ReportStack } from "../data/answers";
import { NO_LINE, NO_STACK } from "../data/questions";
import { el, replace } from "../ui/dom";
import * as format from "../ui/format";
import { leakTable } from "./leaks";
import type { State } from "./state";

const COUNTERS: [string, string][] = [
  ["allocations", "allocations"],
  ["frees", "frees"],
  ["segment_allocs", "segments allocated from the driver"],
  ["segment_frees", "segments returned to the driver"],
  ["segment_maps", "pages mapped"],
  ["segment_unmaps", "pages unmapped"],
  ["alloc_retries", "retries (inferred)"],
  ["ooms", "out-of-memory errors"],
];
const FREE: [string, string][] = [
  ["hole_bytes", "in gaps between live blocks"],
  ["whole_segment_bytes", "cached: whole free segments, which empty_cache() would return"],
  ["waiting_bytes", "freed, still in use by another stream"],
  ["private_pool_bytes", "of which only usable by the CUDA graph or pool that owns it"],
  ["largest_free_bytes", "largest free block"],
  ["rounding_bytes", "in addition: rounding of live blocks"],
];

export class SummaryView {
  readonly element = el("section", { class: "view summary", "aria-label": "Summary", tabindex: 0 });
  private asked = -1;

  constructor(private readonly state: State) {
    state.listen((change) => {
      if (state.view === "summary" && (change === "device" || change === "grown")) this.show();
    });
  }

  show(): void {
    const { file, source } = this.state;
    this.asked = file;
    void source.ask("report", { file }).then((report) => {
      if (file === this.asked) this.draw(report);
    });
  }

  private draw({ report, text }: Report): void {
    const device = report.devices.find(({ device: name }) => name === this.state.current.name) ?? report.devices[this.state.device];
    if (device === undefined) return;
    replace(
      this.element,
      el("div", { class: "cards" }, ...this.cards(device)),
      el("div", { class: "columns" },
        el("div", {}, el("h2", {}, "Output of gpumemprof report"), el("pre", { "data-testid": "report-text" }, text.trim())),
        el("div", {}, ...this.tables(device)),
      ),
    );
  }

  private cards(device: ReportDevice): Node[] {
    const card = (label: string, value: number | null, id: string, more = "") =>
      el(
        "div",
        { class: "card" },
        el("span", { class: "muted" }, label),
        el("b", { "data-testid": id, "data-bytes": value ?? "" }, value === null ? "unknown" : format.bytes(value)),
        el("span", { class: "muted" }, more),
      );
    const at = device.peak.event_index;
    const hasPool = this.state.current.has_pool;
    const cards = [
      card("peak allocated", device.peak.allocated_bytes, "summary-peak", at === null ? "" : `at event ${format.count(at)}`),
      hasPool ? card("peak reserved", device.peak_reserved_bytes, "summary-peak-reserved") : null,
      card("allocated at the end", device.end.allocated_bytes, "summary-end"),
      hasPool ? card("reserved at the end", device.end.reserved_bytes, "summary-end-reserved") : null,
    ].filter((node) => node !== null);
    if (!hasPool) return cards;
    const ooms = device.counters["ooms"] ?? null;
    cards.push(
      el("div", { class: (ooms ?? 0) > 0 ? "card bad" : "card" }, el("span", { class: "muted" }, "out of memory"), el("b", { "data-testid": "summary-ooms" }, ooms === null ? "unknown" : ooms === 0 ? "never" : ooms === 1 ? "once" : `${format.count(ooms)} times`), el("span", { class: "muted" }, device.oom_reports[0] === undefined ? "" : `cause: ${device.oom_reports[0].cause}`)),
    );
    return cards;
  }

  private tables(device: ReportDevice): Node[] {
    const live = device.live_at_peak ?? device.at.live ?? [];
    const whole = device.peak.allocated_bytes ?? device.end.allocated_bytes;
    const free = device.at.free;
    const hasPool = this.state.current.has_pool;
    // CPU memory has no pool: nothing is reserved from a driver, and there are no retries.
    const counters = hasPool ? COUNTERS : COUNTERS.slice(0, 2);
    const rows = (pairs: [string, string][], values: Record<string, unknown>, text: (value: number) => string) =>
      pairs
        .filter(([key]) => typeof values[key] === "number")
        .map(([key, label]) => el("tr", { "data-key": key, "data-value": String(values[key]) }, el("td", { class: "number" }, text(values[key] as number)), el("td", {}, label)));
    return [
      ...leakTable(device),
      el("h2", {}, device.live_at_peak === null ? "Live, by call stack" : "Live at the peak, by call stack"),
      el("table", { "data-testid": "live-stacks" }, ...live.slice(0, 12).map((stack) => this.stackRow(stack, whole))),
      live.length > 12 ? el("p", { class: "muted" }, `and ${format.counted(live.length - 12, "more stack")}; the flame graph shows them all`) : el("span"),
      ...(hasPool ? [el("h2", {}, "Reserved but not allocated"), el("table", {}, ...rows(FREE, free, format.bytes))] : []),
      ...(!hasPool || device.at.pins.lines.length === 0
        ? []
        : [
            el("h2", {}, "What keeps segments from being returned to the driver"),
            el(
              "table",
              {},
              ...device.at.pins.lines.slice(0, 6).map((line) =>
                el(
                  "tr",
                  {},
                  el("td", { class: "number" }, format.bytes(line.free_bytes)),
                  el("td", {}, `in ${format.counted(line.segments, "segment")} pinned by ${format.bytes(line.pin_bytes)} from ${line.frame === null ? NO_LINE : `${line.frame.file}:${line.frame.line} ${line.frame.name}`}`),
                ),
              ),
            ),
          ]),
      ...(this.state.current.has_history ? [el("h2", {}, "Counters"), el("table", {}, ...rows(counters, device.counters, format.count))] : []),
    ];
  }

  private stackRow(stack: ReportStack, whole: number): HTMLElement {
    // Below Python there is only the allocator.
    const innermost = stack.stack.find(({ file }) => /\.py$|^</.test(file)) ?? stack.stack[0];
    const place = innermost === undefined ? NO_STACK : format.shortened(format.shortPlace(`${innermost.file}:${innermost.line} ${innermost.name}`));
    const title = stack.stack.map((frame) => `${frame.file}:${frame.line} ${frame.name}`).join("\n");
    return el(
      "tr",
      { "data-bytes": stack.bytes },
      el("td", { class: "number" }, format.percent(stack.bytes, whole)),
      el("td", { class: "number" }, format.bytes(stack.bytes)),
      el("td", { title }, place),
    );
  }
}
