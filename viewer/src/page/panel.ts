// The panel next to the views: the moment under the cursor with its groups, and the selected
// allocation with its stacks.

import type { Allocation, FrameRow, Group, Moment } from "../data/answers";
import { SOURCE_LABELS } from "../data/questions";
import { el, replace, select } from "../ui/dom";
import * as format from "../ui/format";
import { ageColor, ageLegend, chosenTheme, groupColor, type Theme } from "../ui/palette";
import { RangePanel } from "./range_panel";
import type { ColourBy, ShownBy, State } from "./state";

export const BY_LABELS: Record<ShownBy, string> = {
  source: "By source",
  module: "By module",
  line: "By line of code",
  stack: "By call stack",
  size: "By size",
  allocation: "Every allocation",
};
const COLOUR_LABELS: Record<ColourBy, string> = {
  source: "Colour by source",
  module: "Colour by module",
  line: "Colour by line of code",
  stack: "Colour by call stack",
  size: "Colour by size",
  stream: "Colour by stream",
  age: "Colour by age at the cursor",
};

export class Panel {
  readonly element = el("aside", { class: "panel", "aria-label": "Cursor and selection" });
  private readonly moment = el("div", { class: "moment" });
  private readonly legend = el("div", { class: "legend" });
  private readonly selection = el("div", { class: "selection" });

  /** What is drawn when every band is one allocation. */
  bandsSummary = "";
  private streams: string[] = [];
  private updates = 0;

  constructor(private readonly state: State) {
    this.element.append(this.moment, new RangePanel(state).element, this.legend, this.selection);
    state.listen((change) => {
      if (!["device", "cursor", "selection", "grouping", "theme", "grown"].includes(change)) return;
      void this.update(change === "selection");
    });
    void this.update(false);
    if (state.selected !== null) void this.showSelection();
  }

  private async update(isSelection: boolean): Promise<void> {
    if (isSelection) return this.showSelection();
    // Until the answers are here, the panel still shows the moment before: that is said.
    const update = ++this.updates;
    this.element.setAttribute("aria-busy", "true");
    try {
      await this.showCursor();
    } catch (error) {
      // What it showed is of another moment.
      if (update !== this.updates) return;
      replace(this.moment, el("h2", {}, "At the cursor"), el("p", { class: "muted", "data-testid": "cursor-unknown" }, (error as Error).message));
      replace(this.legend);
    } finally {
      if (update === this.updates) this.element.setAttribute("aria-busy", "false");
    }
  }

  private async showCursor(): Promise<void> {
    const { source, deviceName, deviceKey, cursor, knownBy } = this.state;
    const [moment, groups] = await Promise.all([
      source.ask("moment", { ...deviceName, position: cursor }),
      source.ask("groups", { ...deviceName, by: knownBy }),
    ]);
    if (cursor !== this.state.cursor || deviceKey !== this.state.deviceKey || knownBy !== this.state.knownBy) return;
    this.showMoment(moment);
    await this.showLegend(groups.groups);
    if (this.state.selected === null) replace(this.selection);
  }

  private showMoment(moment: Moment): void {
    const { current } = this.state;
    const isPeak = moment.position === current.peak_position;
    const where = !current.has_history ? "no history was recorded" : moment.position === 0 ? "before the first event" : `event ${format.count(moment.position - 1)}`;
    const since = moment.time_ns === null || !this.state.hasTime ? "" : `, at ${format.duration(moment.time_ns)}`;
    const rows: [string, number | null, string][] = [
      ["allocated", moment.allocated_bytes, "cursor-allocated"],
      ["reserved", moment.reserved_bytes, "cursor-reserved"],
    ];
    replace(
      this.moment,
      el("h2", {}, !current.has_history ? "When the snapshot was taken" : isPeak ? "At the peak" : "At the cursor"),
      el("p", { class: "muted", "data-testid": "cursor-where", "data-position": moment.position }, where + since),
      el(
        "dl",
        { class: "figures" },
        ...rows
          .filter(([, bytes]) => bytes !== null)
          .map(([label, bytes, id]) => el("div", {}, el("dt", {}, label), el("dd", { "data-testid": id, "data-bytes": bytes! }, format.bytes(bytes!)))),
      ),
      isPeak ? null : el("button", { type: "button", onclick: () => this.state.setCursor(current.peak_position) }, "Go to the peak"),
    );
  }

  private async showLegend(groups: Group[]): Promise<void> {
    const { state } = this;
    const theme = chosenTheme();
    const { deviceName, deviceKey, cursor, knownBy } = state;
    const held = await state.source.ask("group_bytes", { ...deviceName, position: cursor, by: knownBy }).catch(() => null);
    if (cursor !== state.cursor || deviceKey !== state.deviceKey || knownBy !== state.knownBy) return;
    const bys: ShownBy[] = [...state.current.group_bys, "allocation"];
    const choices = bys.map((by) => ({ value: by, label: BY_LABELS[by] }));
    const focused = this.focusedRow();
    const list = el("ol", { class: "groups" });
    groups.forEach((group, index) => {
      // The cursor's moment is always divided.
      if (group.is_undivided !== true) list.append(this.legendRow(group, index, held?.groups[index] ?? null, theme));
    });
    replace(
      this.legend,
      select("Group by", choices, state.by, (by) => state.set({ by, highlighted: null }, "grouping")),
      state.by === "allocation" ? this.colours() : null,
      state.by === "allocation" ? el("p", { class: "muted", "data-testid": "allocation-bands" }, this.bandsSummary) : null,
      state.by !== "allocation" || state.colour === knownBy ? list : this.otherLegend(theme),
      state.highlighted !== null
        ? el("button", { type: "button", class: "clear", onclick: () => state.set({ highlighted: null }, "grouping") }, "Show all groups")
        : null,
    );
    if (focused !== null) list.querySelectorAll<HTMLElement>("button")[focused]?.focus();
  }

  private colours(): HTMLElement {
    const { state } = this;
    const choices: ColourBy[] = [...state.current.group_bys, "stream", "age"];
    return select("Colour by", choices.map((value) => ({ value, label: COLOUR_LABELS[value] })), state.colour, (colour) => state.set({ colour, highlighted: null }, "grouping"));
  }

  /** For colours that are no groups. */
  private otherLegend(theme: Theme): HTMLElement {
    const list = el("ol", { class: "groups", "data-testid": "colour-legend" });
    const row = (color: string, label: string) => {
      const swatch = el("i", { class: "swatch" });
      swatch.style.backgroundColor = color;
      list.append(el("li", { class: "plain" }, swatch, el("span", { class: "label" }, label)));
    };
    if (this.state.colour === "stream") this.streams.forEach((handle, number) => row(groupColor(theme, number, false), `stream ${handle}`));
    else {
      for (const { color, least, most } of ageLegend(theme, this.state.cursor)) {
        if (least <= most) row(color, least === most ? `${format.counted(least, "event")} old` : `${format.count(least)} to ${format.count(most)} events old`);
      }
      row(ageColor(theme, null), "allocated later");
    }
    row(groupColor(theme, 15, true), "combined");
    return list;
  }

  private legendRow(group: Group, index: number, bytes: number | null, theme: Theme): HTMLElement {
    const { state } = this;
    const isOn = state.highlighted === index;
    const swatch = el("i", { class: index % 2 === 1 && !group.is_rest ? "swatch striped" : "swatch" });
    swatch.style.backgroundColor = groupColor(theme, index, group.is_rest);
    return el(
      "li",
      { title: group.label, "data-bytes": bytes ?? "" },
      el(
        "button",
        { type: "button", "aria-pressed": String(isOn), onclick: () => state.set({ highlighted: isOn ? null : index }, "grouping") },
        swatch,
        el("span", { class: "number" }, group.is_rest ? "" : String(index + 1)),
        el("span", { class: "label" }, state.knownBy === "source" ? sourceLabel(group.label) : format.shortestPlace(group.label)),
        el("span", { class: "bytes" }, bytes === null ? "unknown" : format.bytes(bytes)),
      ),
    );
  }

  /** Rows are rebuilt when something changes: the keyboard focus stays where it was. */
  private focusedRow(): number | null {
    const at = [...this.legend.querySelectorAll("li button")].indexOf(document.activeElement as Element);
    return at < 0 ? null : at;
  }

  showAllocationBands(summary: string, streams: string[]): void {
    const isOther = this.state.colour === "stream" && streams.join() !== this.streams.join();
    this.streams = streams;
    if (isOther) this.legend.querySelector("[data-testid=colour-legend]")?.replaceWith(this.otherLegend(chosenTheme()));
    if (summary === this.bandsSummary) return;
    this.bandsSummary = summary;
    const text = this.legend.querySelector("[data-testid=allocation-bands]");
    if (text !== null) text.textContent = summary;
  }

  private async showSelection(): Promise<void> {
    const { state } = this;
    const row = state.selected;
    if (row === null) return replace(this.selection);
    let found: Allocation;
    try {
      found = await state.source.ask("allocation", { ...state.deviceName, row });
    } catch (error) {
      if (state.selected === row) replace(this.selection, el("p", { class: "muted" }, (error as Error).message));
      return;
    }
    if (state.selected !== row) return;
    replace(this.selection, ...this.selectionRows(found));
    this.selection.scrollIntoView({ block: "nearest" });
  }

  private selectionRows(found: Allocation): Node[] {
    const { state } = this;
    const life = state.lifeText(found);
    const lived = found.death === null ? `${life}, until the end` : life;
    const jump = (text: string, position: number) =>
      el("button", { type: "button", class: "link", onclick: () => state.setCursor(position) }, text);
    const facts: [string, Node | string][] = [
      ["size", `${format.bytes(found.size)} (${format.count(found.size)} B)`],
      ["requested", `${format.bytes(found.requested)}${found.size === found.requested ? "" : `, ${format.bytes(found.size - found.requested)} rounding`}`],
      ["allocated", found.birth === 0 ? "before the recording" : jump(`event ${format.count(found.birth - 1)}`, found.birth)],
      ["freed", found.death === null ? "never" : jump(`event ${format.count(found.death - 1)}`, found.death)],
      ["lifetime", lived],
    ];
    if (found.source !== null) facts.push(["source", sourceLabel(state.current.sources[found.source] ?? "unknown") + (found.is_source_measured === false ? " (inferred)" : "")]);
    if (found.name != null) facts.push(["name", found.name]);
    if (found.tag != null) facts.push(["tag", found.tag]);
    if (found.module != null) facts.push(["module", found.module]);
    if (found.address !== undefined) facts.push(["address", found.address]);
    if (found.stream != null && found.stream !== "0x0") facts.push(["stream", found.stream]);
    return [
      el(
        "div",
        { class: "title" },
        el("h2", { "data-testid": "selected", "data-row": found.row, "data-bytes": found.size }, "Selected allocation"),
        el("button", { type: "button", title: "Deselect (Escape)", "aria-label": "Deselect", onclick: () => state.set({ selected: null }, "selection") }, "×"),
      ),
      el("dl", { class: "facts-list" }, ...facts.map(([label, value]) => el("div", {}, el("dt", {}, label), el("dd", {}, value)))),
      el("h3", {}, found.forward_frames.length > 0 ? "Call stack (backward)" : "Call stack"),
      stackList(found.frames),
      ...(found.forward_frames.length > 0 ? [el("h3", {}, "Forward stack"), stackList(found.forward_frames)] : []),
    ];
  }
}

/** Groups by source have one more: what blocks take beyond what was requested. */
export function sourceLabel(name: string): string {
  return SOURCE_LABELS[name] ?? name.replace(/_/g, " ");
}

/** Innermost first; the user's own code stands out. */
export function stackList(frames: FrameRow[]): HTMLElement {
  if (frames.length === 0) return el("p", { class: "muted" }, "No stack was recorded.");
  return el(
    "ol",
    { class: "stack", "data-testid": "stack" },
    ...frames.map(([name, file, line, isOwn]) =>
      el("li", { class: isOwn ? "own" : "", title: `${file}:${line}` }, el("b", {}, name), el("span", {}, `${shortFile(file)}:${line}`)),
    ),
  );
}

function shortFile(file: string): string {
  const at = Math.max(file.lastIndexOf("/site-packages/"), file.lastIndexOf("/dist-packages/"));
  return at < 0 ? file : file.slice(at + "/site-packages/".length);
}
