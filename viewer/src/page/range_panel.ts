// What happened in the selected range, in the panel: allocated, freed and survived, by line and by source, and what was
// allocated at one line and freed at another.

import type { Range, RangeGroup, RangeKept, RangePart, RangeSoFar, Working } from "../data/answers";
import { el, replace } from "../ui/dom";
import * as format from "../ui/format";
import { workingText } from "../ui/waiting";
import { sourceLabel } from "./panel";
import type { State } from "./state";

const ROWS = 12;

export class RangePanel {
  readonly element = el("div", { class: "range", "data-testid": "range" });
  private key = "";
  private waiting = new AbortController();

  constructor(private readonly state: State) {
    state.listen((change) => {
      if (["picked", "device", "grown", "compare"].includes(change)) void this.update(change === "grown" || change === "compare");
    });
    void this.update(false);
  }

  private async update(isForced: boolean): Promise<void> {
    const { state } = this;
    const { picked } = state;
    if (picked === null) {
      this.key = "";
      this.waiting.abort();
      this.element.removeAttribute("aria-busy");
      return replace(this.element);
    }
    const key = `${state.deviceKey} ${picked.from} ${picked.to}`;
    if (key === this.key && !isForced) return;
    this.key = key;
    const before = this.waiting;
    const { signal } = (this.waiting = new AbortController());
    this.element.setAttribute("aria-busy", "true");
    const onProgress = (working: Working) => key === this.key && !signal.aborted && this.showProgress(working);
    const asked = state.source.ask("range", { ...state.deviceName, ...picked }, { signal, onProgress });
    before.abort();
    const shown = await asked.then(
      (found) => this.rows(found),
      (error: Error) => (signal.aborted ? null : [this.title(), el("p", { class: "muted" }, error.message)]),
    );
    if (key !== this.key || shown === null) return;
    replace(this.element, ...shown);
    this.element.removeAttribute("aria-busy");
  }

  /** Of a range that takes a while to be read: what is known from its ends. What is there already stays, and with it the focus. */
  private showProgress(working: Working): void {
    const { so_far: known, done, total } = working;
    if (this.element.querySelector("[data-testid=range-working]") === null || (known !== null && this.element.querySelector("[data-testid=range-survived]") === null)) replace(this.element, this.title(), this.workingBar(), ...(known === null ? [] : this.soFar(known)));
    this.element.querySelector("[data-testid=range-working] span")!.textContent = workingText(working);
    const bar = this.element.querySelector<HTMLProgressElement>("[data-testid=range-working] progress")!;
    bar.max = Math.max(1, total);
    if (total > 0) bar.value = done;
  }

  private workingBar(): HTMLElement {
    const stop = () => {
      this.waiting.abort();
      this.element.removeAttribute("aria-busy");
      const again = el("button", { type: "button", onclick: () => void this.update(true) }, "Read it");
      this.element.querySelector("[data-testid=range-working]")?.replaceWith(el("p", { class: "muted", "data-testid": "range-stopped" }, "Not all of it was read: what was allocated and freed in it is not known. ", again));
      again.focus();
    };
    return el("div", { class: "working", "data-testid": "range-working" }, el("span", { role: "status" }), el("progress", { "aria-label": "How much of the range was read" }), el("button", { type: "button", onclick: stop }, "Stop"));
  }

  private soFar(known: RangeSoFar): Node[] {
    return [
      el("p", { class: "muted", "data-testid": "range-where", "data-from": known.from, "data-to": known.to }, `from ${place(known.from)} to ${place(known.to)}: ${format.bytes(known.from_bytes)} → ${format.bytes(known.to_bytes)} allocated`),
      el(
        "dl",
        { class: "figures" },
        ...["allocated", "freed"].map((part) => el("div", {}, el("dt", {}, part), el("dd", {}, "…"), el("dd", { class: "muted count" }, "not known yet"))),
        el("div", {}, el("dt", {}, "survived"), el("dd", { "data-testid": "range-survived", "data-bytes": known.survived_bytes, "data-blocks": known.survived_blocks }, format.bytes(known.survived_bytes)), el("dd", { class: "muted count" }, format.counted(known.survived_blocks, "allocation"))),
      ),
      ...this.kept("Survived, by line", known.lines, known.lines_left_out, format.shortestPlace),
      ...(known.sources.length === 0 ? [] : this.kept("Survived, by source", known.sources, 0, sourceLabel)),
    ];
  }

  private kept(title: string, groups: RangeKept[], leftOut: number, name: (label: string) => string): Node[] {
    const shown = groups.slice(0, ROWS);
    const more = groups.length - shown.length + leftOut;
    return [
      el("h3", {}, title),
      el("table", { class: "ranged" }, el("tbody", {}, ...shown.map((group) => el("tr", { title: group.label }, el("td", { class: "what" }, name(group.label)), el("td", { class: "number" }, format.bytes(group.bytes)))))),
      ...(more === 0 ? [] : [el("p", { class: "muted" }, `${format.counted(more, "smaller one")} not listed`)]),
    ];
  }

  private title(): HTMLElement {
    return el(
      "div",
      { class: "title" },
      el("h2", {}, "Selected range"),
      el("button", { type: "button", title: "Deselect the range (Escape)", "aria-label": "Deselect the range", onclick: () => this.state.set({ picked: null, flameOf: "live" }, "picked") }, "×"),
    );
  }

  private rows(found: Range): Node[] {
    const { all } = found;
    return [
      this.title(),
      el("p", { class: "muted", "data-testid": "range-where", "data-from": found.from, "data-to": found.to }, `from ${place(found.from)} to ${place(found.to)}: ${format.bytes(found.from_bytes)} → ${format.bytes(found.to_bytes)} allocated, ${format.bytes(found.peak_bytes)} at most`),
      el("dl", { class: "figures" }, this.figure("allocated", all), this.figure("freed", all), this.figure("survived", all)),
      this.buttons(found),
      ...(found.lines.length === 0 ? [el("p", { class: "muted", "data-testid": "range-nothing" }, "Nothing was allocated or freed in it.")] : this.table("By line", "range-lines", found.lines, found.lines_left_out, format.shortestPlace)),
      ...(found.sources.length === 0 ? [] : this.table("By source", "range-sources", found.sources, 0, sourceLabel)),
      ...this.moves(found),
    ];
  }

  private figure(part: RangePart, all: RangeGroup): HTMLElement {
    const [bytes, blocks] = [all[`${part}_bytes`], all[`${part}_blocks`]];
    return el(
      "div",
      {},
      el("dt", {}, part),
      el("dd", { "data-testid": `range-${part}`, "data-bytes": bytes, "data-blocks": blocks, title: `${format.count(bytes)} B in ${format.counted(blocks, "allocation")}` }, format.bytes(bytes)),
      el("dd", { class: "muted count" }, format.counted(blocks, "allocation")),
    );
  }

  private buttons(found: Range): HTMLElement {
    const { state } = this;
    const button = (text: string, title: string, act: () => void) => el("button", { type: "button", title, onclick: act }, text);
    const side = { ...state.deviceName, position: found.to, from: found.from };
    const flame = (flameOf: RangePart) => () => {
      state.set({ flameOf, focus: null }, "flame");
      state.set({ view: "flame" }, "view");
    };
    return el(
      "div",
      { class: "actions" },
      button("Zoom", "Show only this range", () => void this.zoom(found)),
      button("Flame graph", "What was allocated in it, by call", flame("allocated")),
      button("Survivors", "What was allocated in it and is still live at its end, by call", flame("survived")),
      button("Its peak", "Move the cursor to the moment of most memory in it", () => state.setCursor(found.peak_position)),
      button("Set as A", "Compare: this range first", () => state.set({ first: side }, "compare")),
      button(state.first?.from === undefined ? "Set as B" : "Compare with A", "Compare: this range second", () => {
        state.set({ second: side }, "compare");
        if (state.first !== null) state.set({ view: "compare" }, "view");
      }),
    );
  }

  /** Fractions of the axis, with a little room on both sides. */
  private async zoom(found: Range): Promise<void> {
    const { state } = this;
    const share = async (position: number) => {
      if (state.axis === "event") return (position + 0.5) / state.positions;
      const moment = await state.source.ask("moment", { ...state.deviceName, position: state.source.nearestMoment(state.file, state.device, position) });
      return (moment.time_ns ?? 0) / (state.current.duration_ns! + 1);
    };
    const [from, to] = await Promise.all([share(found.from), share(found.to)]);
    state.setRange(from - 0.02 * (to - from), to + 0.02 * (to - from));
  }

  private table(title: string, id: string, groups: RangeGroup[], leftOut: number, name: (label: string) => string): Node[] {
    const shown = groups.slice(0, ROWS);
    const cell = (bytes: number) => el("td", { class: "number" }, bytes === 0 ? "–" : format.bytes(bytes));
    const row = (group: RangeGroup) =>
      [
        el("tr", { class: "named", title: group.label }, el("td", { class: "what", colspan: 3 }, name(group.label))),
        el(
          "tr",
          { title: group.label, "data-label": group.label, "data-allocated": group.allocated_bytes, "data-freed": group.freed_bytes, "data-survived": group.survived_bytes, "data-blocks": group.allocated_blocks },
          cell(group.allocated_bytes),
          cell(group.freed_bytes),
          cell(group.survived_bytes),
        ),
      ];
    const more = groups.length - shown.length + leftOut;
    return [
      el("h3", {}, title),
      el(
        "table",
        { class: "ranged", "data-testid": id },
        el("thead", {}, el("tr", {}, ...["allocated", "freed", "survived"].map((head) => el("th", { class: "number" }, head)))),
        el("tbody", {}, ...shown.flatMap(row)),
      ),
      ...(more === 0 ? [] : [el("p", { class: "muted" }, `${format.counted(more, "smaller one")} not listed; the flame graph has all`)]),
    ];
  }

  private moves(found: Range): Node[] {
    if (found.moves === undefined) return [el("p", { class: "muted" }, "Where memory was freed is not in this file: open the recording with gpumemprof view.")];
    if (found.moves.length === 0) return [];
    const more = found.moves.length - Math.min(ROWS, found.moves.length) + (found.moves_left_out ?? 0);
    return [
      el("h3", {}, "Allocated here, freed there"),
      el(
        "ol",
        { class: "moves", "data-testid": "range-moves" },
        ...found.moves.slice(0, ROWS).map((move) =>
          el(
            "li",
            { title: `allocated at ${move.allocated_at}\nfreed at ${move.freed_at}`, "data-bytes": move.bytes, "data-blocks": move.blocks },
            el("b", {}, format.bytes(move.bytes)),
            el("span", {}, `${format.shortestPlace(move.allocated_at)} → ${format.shortestPlace(move.freed_at)}`),
          ),
        ),
      ),
      ...(more === 0 ? [] : [el("p", { class: "muted" }, `${format.counted(more, "smaller pair")} not listed`)]),
    ];
  }
}

function place(position: number): string {
  return position === 0 ? "the start" : `event ${format.count(position - 1)}`;
}
