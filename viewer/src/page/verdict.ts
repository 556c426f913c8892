// The landing: what gpumemprof report says first, above the timeline, and where to go from there.

import type { DeviceVerdict, TimelineOverlays } from "../data/answers";
import { el, replace } from "../ui/dom";
import * as format from "../ui/format";
import type { State } from "./state";

export class VerdictBar {
  readonly element = el("section", { class: "verdict", "aria-label": "Verdict", "data-testid": "verdict" });

  constructor(private readonly state: State) {
    state.listen((change) => {
      if (change === "device" || change === "grown") void this.load();
    });
    void this.load();
  }

  private async load(): Promise<void> {
    const { state } = this;
    const { deviceKey, deviceName, file } = state;
    this.element.setAttribute("aria-busy", "true");
    const [report, overlays] = await Promise.all([state.source.ask("report", { file }), state.source.ask("overlays", deviceName)]).finally(() => this.element.setAttribute("aria-busy", "false"));
    if (deviceKey !== state.deviceKey) return;
    const verdict = report.verdicts.find(({ device }) => device === state.current.name);
    if (verdict === undefined) return replace(this.element);
    this.draw(verdict, overlays);
  }

  private draw(verdict: DeviceVerdict, overlays: TimelineOverlays): void {
    const isFailure = verdict.failure !== "";
    const more = [...verdict.failure_details, ...(verdict.remedy === "" ? [] : [verdict.remedy])];
    const rest = [isFailure ? verdict.peak : "", verdict.growth, this.headroom(overlays)].filter((text) => text !== "");
    this.element.classList.toggle("bad", isFailure);
    replace(
      this.element,
      el(
        "p",
        { class: "headline", "data-testid": "verdict-text", role: isFailure ? "alert" : "status" },
        verdict.is_predicted ? "Predicted, not measured: " : null,
        isFailure ? verdict.failure : verdict.peak === "" ? `${verdict.device}: only the state at the end was recorded` : verdict.peak,
      ),
      el("div", { class: "ways", role: "group", "aria-label": "Go to" }, ...this.ways(verdict, overlays)),
      rest.length === 0 ? null : el("p", { class: "muted", "data-testid": "verdict-more" }, rest.join(". ").replace(/\.\. /g, ". ")),
      more.length === 0
        ? null
        : el("details", {}, el("summary", {}, "Details"), ...more.map((text) => el("p", {}, text)), verdict.command === "" ? null : el("code", {}, verdict.command)),
    );
  }

  /** What was left: of the limit, or of the card. */
  private headroom({ limit_bytes, card_bytes, is_limit_inferred: isInferred }: TimelineOverlays): string {
    const [most, what] = limit_bytes !== null ? [limit_bytes, `the limit on the process${isInferred ? " (inferred)" : ""}`] : [card_bytes, "the card"];
    const reserved = this.state.current.peak_reserved_bytes;
    if (most === null || reserved === null || reserved > most) return "";
    return `${format.bytes(most - reserved)} of ${what}, ${format.bytes(most)}, were never reserved`;
  }

  private ways(verdict: DeviceVerdict, { ooms }: TimelineOverlays): HTMLElement[] {
    const { state } = this;
    const way = (name: string, text: string, go: () => void) => el("button", { type: "button", "data-way": name, onclick: go }, text);
    // Of a snapshot without history, the peak is not known.
    const ways = state.current.has_history ? [way("peak", "The peak", () => state.setCursor(state.current.peak_position))] : [];
    const first = ooms[0];
    if (first !== undefined) ways.unshift(way("failure", "The failure", () => this.showAround(first.position, first.time_ns)));
    ways.push(way("line", "The largest line", () => void this.showLargestLine()));
    if (verdict.growth !== "") ways.push(way("growth", "What grows", () => state.set({ view: "steps" }, "view")));
    ways.push(way("help", "What would help", () => state.set({ view: "whatif" }, "view")));
    return ways;
  }

  /** A tenth of the run around a moment, with the cursor on it. */
  private showAround(position: number, timeNs: number | null): void {
    const { state } = this;
    const at = state.axis === "event" || timeNs === null ? position / state.positions : timeNs / (state.current.duration_ns! + 1);
    state.setCursor(position);
    state.setRange(at - 0.08, at + 0.02);
  }

  /** By line, with the line that holds the most at the peak highlighted. */
  private async showLargestLine(): Promise<void> {
    const { state } = this;
    const position = state.source.nearestMoment(state.file, state.device, state.current.peak_position);
    const [groups, held] = await Promise.all([
      state.source.ask("groups", { ...state.deviceName, by: "line" }),
      state.source.ask("group_bytes", { ...state.deviceName, position, by: "line" }),
    ]);
    let largest = 0;
    groups.groups.forEach((group, index) => {
      if (!group.is_rest && (held.groups[index] ?? 0) > (held.groups[largest] ?? 0)) largest = index;
    });
    state.setCursor(position);
    state.set({ by: "line", highlighted: largest }, "grouping");
  }
}
