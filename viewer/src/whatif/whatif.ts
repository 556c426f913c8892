// What if: the advisor's remedies as switches, and the run as it is predicted with them over the recorded one. Figures
// are those of gpumemprof advise.

import type { AdviceAnswer, AdviceData, AdvisedExcerpt, AdvisedRemedy, Band, DeviceVerdict, FitPlan, RemedyCode, TogetherAnswer, Working } from "../data/answers";
import { el, replace } from "../ui/dom";
import * as format from "../ui/format";
import { partText, workingText } from "../ui/waiting";
import type { State } from "../page/state";
import { Timeline } from "../timeline/timeline";
import { PredictedLayer } from "./predicted";

const CARDS_GIB = [24, 40, 80, 141];
const GIB = 2 ** 30;
const COSTS: Record<string, string> = { free: "costs nothing", slower: "slower", changes_training: "changes results" };

export class WhatIfView {
  readonly element = el("section", { class: "view whatif", "aria-label": "What if" });
  private readonly canvas = el("div", { class: "timeline predicted" });
  private readonly result = el("div", { class: "result", "aria-live": "polite" });
  private readonly cards = el("div", { class: "bar" });
  private readonly list = el("div", { class: "remedies" });
  private readonly timeline: Timeline;
  private readonly layer = new PredictedLayer();
  private asked = "";
  private waiting = new AbortController();
  /** The device whose predicted part was zoomed to. */
  private zoomed = "";

  constructor(private readonly state: State, parent: HTMLElement) {
    parent.append(this.element);
    this.element.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Remedies" }, this.cards, el("div", { class: "tried" }, this.canvas, this.result), this.list));
    this.timeline = new Timeline(state, this.canvas, false);
    this.timeline.layers.push(this.layer);
    state.listen((change) => {
      if (state.view === "whatif" && ["device", "grown", "whatif"].includes(change)) this.show();
      // Nobody looks at what would be predicted.
      if (state.view !== "whatif" && change === "view") this.giveUp();
    });
  }

  show(): void {
    void this.load();
  }

  private giveUp(): void {
    this.asked = "";
    this.waiting.abort();
    delete this.result.dataset["busy"];
  }

  private async load(): Promise<void> {
    const { state } = this;
    const { deviceName, remedies, fitBytes } = state;
    const asked = JSON.stringify([state.deviceKey, remedies, fitBytes]);
    this.asked = asked;
    this.drawCards();
    this.result.dataset["busy"] = "Trying remedies…";
    const failed = (error: Error) => ({ refusal: error.message, advice: null, families: {} });
    const before = this.waiting;
    const waiting = (this.waiting = new AbortController());
    const wait = { signal: waiting.signal, onProgress: (working: Working) => asked === this.asked && (this.result.dataset["busy"] = workingText(working)) };
    const answers = Promise.all([
      state.source.ask("advice", deviceName, wait).catch(failed),
      fitBytes === null ? null : state.source.ask("advice", { ...deviceName, fit: fitBytes }, wait).catch(failed),
      remedies.length === 0 ? null : state.source.ask("together", { ...deviceName, remedies: remedies.join("+") }, wait).catch((error: Error) => error),
      state.source.ask("report", { file: state.file }).then(({ verdicts }) => verdicts.find(({ device }) => device === state.current.name) ?? null, () => null),
    ]);
    // Not before the new questions: what both ask goes on.
    before.abort();
    const [alone, fitting, answered, verdict] = await answers;
    if (asked !== this.asked) return;
    const together = answered instanceof Error ? notComputed(answered, state, alone.families) : answered;
    this.layer.set(together);
    this.layer.fitBytes = fitBytes;
    await this.findPart(alone);
    if (asked !== this.asked) return;
    delete this.result.dataset["busy"];
    this.canvas.dataset["points"] = String(this.layer.points);
    this.timeline.schedule();
    this.drawResult(alone, fitting, together, verdict);
    this.drawList(alone);
  }

  /** Of a run too long for memory, remedies are tried on a part of it: where that is. */
  private async findPart({ advice }: AdviceAnswer): Promise<void> {
    const { state } = this;
    const part = excerptOf(advice);
    if (part === null) return void (this.layer.part = null);
    const [from, to] = [part.from_event, part.to_event];
    const timeOf = async (position: number) => (await state.source.ask("moment", { ...state.deviceName, position: state.source.nearestMoment(state.file, state.device, position) }).catch(() => null))?.time_ns ?? null;
    const [fromNs, toNs] = state.hasTime ? await Promise.all([timeOf(from), timeOf(to)]) : [null, null];
    this.layer.part = { from, to, fromNs, toNs };
    this.canvas.dataset["part"] = `${from}-${to}`;
    // It would be a hair's breadth of the whole run.
    if (this.zoomed !== state.deviceKey && state.from === 0 && state.to === 1) this.zoomToPart();
    this.zoomed = state.deviceKey;
  }

  private zoomToPart(): void {
    const { state, layer } = this;
    if (layer.part === null) return;
    const { from, to, fromNs, toNs } = layer.part;
    const share = (position: number, ns: number | null) => (state.axis === "event" ? (position + 0.5) / state.positions : (ns ?? 0) / (state.current.duration_ns! + 1));
    const [left, right] = [share(from, fromNs), share(to, toNs)];
    const room = 0.15 * (right - left);
    state.setRange(left - room, right + room);
  }

  private drawCards(): void {
    const { state } = this;
    const choose = (bytes: number | null) => state.set({ fitBytes: state.fitBytes === bytes ? null : bytes }, "whatif");
    replace(
      this.cards,
      el("span", { id: "fit-label" }, "Fit into"),
      el(
        "div",
        { class: "segmented", role: "group", "aria-labelledby": "fit-label" },
        ...CARDS_GIB.map((gib) => el("button", { type: "button", "data-fit": gib, "aria-pressed": String(state.fitBytes === gib * GIB), onclick: () => choose(gib * GIB) }, `${gib} GiB`)),
      ),
      state.fitBytes !== null && !CARDS_GIB.includes(state.fitBytes / GIB) ? el("span", {}, format.bytes(state.fitBytes)) : null,
      state.remedies.length === 0 ? null : el("button", { type: "button", onclick: () => state.set({ remedies: [] }, "whatif") }, "Switch all off"),
    );
  }

  private drawResult(alone: AdviceAnswer, fitting: AdviceAnswer | null, together: TogetherAnswer | null, verdict: DeviceVerdict | null): void {
    const { advice } = alone;
    const failed = verdict === null || verdict.failure === "" ? [] : [failureCard(verdict)];
    if (advice === null) return replace(this.result, ...failed, el("p", { class: "empty", "data-testid": "no-advice" }, format.sentence(`Remedies cannot be tried: ${alone.refusal}`)));
    const parts: Node[] = [...failed, el("p", { "data-testid": "baseline", "data-bytes": advice.baseline.peak_allocated_bytes }, baselineText(advice, this.state.isPredicted))];
    const part = excerptOf(advice);
    if (part !== null) parts.push(el("p", { class: "note", "data-testid": "whatif-part", "data-from": part.from_event, "data-to": part.to_event }, `This run is long: remedies are tried on ${partText(part, part.events_of_run)}, around its peak, with all memory that is older. The rest of it is drawn paler. `, el("button", { type: "button", onclick: () => this.zoomToPart() }, "Zoom to them")));
    if (advice.partial !== null) parts.push(el("p", { class: "warning" }, advice.partial));
    const plan = fitting?.advice?.fit ?? null;
    if (plan !== null) parts.push(this.planCard(plan, advice));
    else if (fitting !== null) parts.push(el("p", { class: "warning" }, fitting.refusal ?? "What fits is not known."));
    if (together !== null) parts.push(this.togetherCard(together));
    replace(this.result, ...parts);
  }

  /** The cheapest remedies that fit, as `gpumemprof advise --fit` finds them. */
  private planCard(plan: FitPlan, advice: AdviceData): HTMLElement {
    const { state } = this;
    const limit = format.bytes(plan.limit_bytes);
    const card = el("div", { class: "result-card", "data-testid": "fit", "data-found": String(plan.is_found) });
    const names = plan.remedies ?? [];
    if (plan.refusal !== null) card.append(el("p", { class: "headline" }, `Whether anything fits into ${limit} is not known: ${plan.refusal}`));
    else if (!plan.is_found) card.append(el("p", { class: "headline more" }, `Nothing that is known here fits into ${limit}.`));
    else if (names.length === 0) card.append(el("p", { class: "headline less" }, `It fits into ${limit} as it is.`));
    else {
      const titles = names.map((name) => advice.remedies.find((remedy) => remedy.name === name)?.title ?? name);
      const isOn = names.join("+") === state.remedies.join("+");
      card.append(
        el("p", { class: "headline less", "data-remedies": names.join("+") }, `To fit into ${limit}: ${titles.join(", ")}`),
        el("p", { class: "first-letter" }, predictedText(plan.predicted_peak_allocated_bytes, plan.predicted_peak_allocated_band, "allocated"), plan.predicted_peak_reserved_bytes === null ? "" : `; ${predictedText(plan.predicted_peak_reserved_bytes, plan.predicted_peak_reserved_band, "reserved")}`, plan.slowdown_pct === null ? "" : `; steps take about ${plan.slowdown_pct.toFixed(0)} % longer`),
        isOn ? el("span") : el("button", { type: "button", onclick: () => state.set({ remedies: names }, "whatif") }, "Show it on the timeline"),
        ...(plan.code ?? []).map((code) => codeBlock(code)),
      );
    }
    return card;
  }

  private togetherCard({ refusal, remedy }: TogetherAnswer): HTMLElement {
    const { fitBytes, remedies } = this.state;
    const card = el("div", { class: "result-card", "data-testid": "together", "data-remedies": remedies.join("+") });
    if (remedy === null) {
      card.append(el("p", { class: "headline more" }, refusal ?? "They cannot be predicted together."));
      return card;
    }
    const peak = remedy.predicted_peak_allocated_bytes;
    card.dataset["bytes"] = String(peak ?? "");
    card.dataset["reserved"] = String(remedy.predicted_peak_reserved_bytes ?? "");
    if (peak === null) {
      const least = remedy.at_least_peak_allocated_bytes;
      card.append(el("p", { class: "headline" }, least === null ? remedy.why : `At least ${format.bytes(least)}: ${remedy.why}`));
    } else {
      card.append(
        el("p", { class: "headline first-letter" }, predictedText(peak, remedy.predicted_peak_allocated_band, "allocated"), el("span", { class: "badge", title: "Not measured: a simulation of the recorded run." }, remedy.provenance)),
        el("p", { class: "first-letter" }, [savingText(remedy.saving_bytes), remedy.predicted_peak_reserved_bytes === null ? "" : predictedText(remedy.predicted_peak_reserved_bytes, remedy.predicted_peak_reserved_band, "reserved"), slowdownText(remedy), fitText(remedy, fitBytes)].filter((text) => text !== "").join("; ")),
        el("p", { class: "muted" }, remedy.why),
      );
    }
    // What does not apply here is not to be copied.
    if (peak !== null || remedy.at_least_peak_allocated_bytes !== null) card.append(codeBlock({ name: remedy.title, how: remedy.how, how_trainer: remedy.how_trainer }));
    return card;
  }

  private drawList({ advice, families }: AdviceAnswer): void {
    if (advice === null) return replace(this.list);
    const single = advice.remedies.filter(({ name }) => !name.includes("+"));
    const possible = single.filter(({ predicted_peak_allocated_bytes: bytes, at_least_peak_allocated_bytes: least }) => bytes !== null || least !== null);
    const others = single.filter((remedy) => !possible.includes(remedy));
    const focused = (document.activeElement as HTMLElement | null)?.dataset["remedy"];
    replace(
      this.list,
      el("h2", {}, "Remedies, with their predicted peaks"),
      el(
        "table",
        { "data-testid": "remedies" },
        el("thead", {}, el("tr", {}, ...["remedy", "peak", "saves"].map((name, at) => el("th", { scope: "col", class: at === 0 ? "" : "number" }, name)))),
        el("tbody", {}, ...possible.map((remedy) => this.remedyRow(remedy, families))),
      ),
      others.length === 0 ? null : el("details", {}, el("summary", {}, others.length === 1 ? "1 remedy that does not apply here" : `${others.length} remedies that do not apply here`), el("dl", {}, ...others.map(({ title, why }) => el("div", {}, el("dt", {}, title), el("dd", { class: "muted" }, why))))),
      ...advice.missing.map((sentence) => el("p", { class: "muted" }, sentence)),
      el("p", { class: "muted" }, "Predicted by running the recorded requests, changed as each remedy would change them, through a simulation of PyTorch's allocator: the figures of gpumemprof advise. gpumemprof advise --verify measures one."),
    );
    if (focused !== undefined) this.list.querySelector<HTMLElement>(`[data-remedy="${CSS.escape(focused)}"]`)?.focus();
  }

  private remedyRow(remedy: AdvisedRemedy, families: Record<string, string>): HTMLElement {
    const { state } = this;
    const isOn = state.remedies.includes(remedy.name);
    const box = el("input", { type: "checkbox", role: "switch", "data-remedy": remedy.name, id: `remedy-${remedy.name}` });
    box.checked = isOn;
    box.addEventListener("change", () => state.set({ remedies: toggled(state.remedies, remedy.name, families) }, "whatif"));
    const peak = remedy.predicted_peak_allocated_bytes;
    const least = remedy.at_least_peak_allocated_bytes;
    return el(
      "tr",
      { "data-name": remedy.name, "data-bytes": peak ?? "", class: isOn ? "chosen" : "" },
      el("td", {}, el("label", {}, box, el("span", {}, remedy.title, el("br"), el("small", { class: "muted" }, costText(remedy))))),
      el("td", { class: "number", title: bandText(remedy.predicted_peak_allocated_band) }, peak !== null ? format.bytes(peak) : least === null ? "unknown" : `at least ${format.bytes(least)}`),
      el("td", { class: "number" }, remedy.saving_bytes === null ? "unknown" : format.bytes(remedy.saving_bytes)),
    );
  }
}

/** What gpumemprof report says of the request that failed, and what to do about it: before all that may help as well. */
function failureCard({ failure_details: details, remedy, command }: DeviceVerdict): HTMLElement {
  return el(
    "div",
    { class: "result-card", "data-testid": "failure-remedy" },
    el("p", { class: "headline" }, "For the request that failed"),
    ...details.slice(0, 1).map((text) => el("p", {}, text)),
    command !== "" ? codeBlock({ name: remedy, how: command, how_trainer: null }) : remedy === "" ? null : el("p", {}, remedy),
  );
}

/** Switching one on switches off the one of the same family: they exclude each other. */
export function toggled(remedies: string[], name: string, families: Record<string, string>): string[] {
  if (remedies.includes(name)) return remedies.filter((other) => other !== name);
  const family = families[name];
  return [...remedies.filter((other) => family === undefined || families[other] !== family), name];
}

function excerptOf(advice: AdviceData | null): AdvisedExcerpt | null {
  return advice?.completeness.excerpt?.[0] ?? null;
}

/** A standalone page holds what was computed when it was written. */
function notComputed(error: Error, state: State, families: Record<string, string>): TogetherAnswer {
  const { path } = state.meta.files[state.file]!;
  const excluded = state.remedies.find((name, at) => state.remedies.some((other, before) => before < at && families[name] !== undefined && families[other] === families[name]));
  const refusal =
    state.source.embedded === null
      ? error.message
      : excluded !== undefined
        ? `${excluded} cannot be combined with another of these: use only one of them.`
        : `These were not tried together when this page was written: it holds every remedy, every two of them, and what fits into 24, 40, 80 and 141 GiB. For others, open the recording with gpumemprof view, or run: gpumemprof advise ${path} --together ${state.remedies.join("+")}`;
  return { refusal, remedy: null, first_event: 0, events_per_point: 1, most_bytes: [], time_ns: [] };
}

function baselineText({ baseline, completed }: AdviceData, isPredicted: boolean): string {
  const reserved = baseline.peak_reserved_bytes === null ? "" : `, ${format.bytes(baseline.peak_reserved_bytes)} reserved`;
  const recorded = `${isPredicted ? "Predicted as it is" : "Recorded"}: peak ${format.bytes(baseline.peak_allocated_bytes)} allocated${reserved}.`;
  if (completed === null) return recorded;
  return `${recorded} Had it not failed: ${format.bytes(completed.peak_allocated_bytes)} allocated (predicted). ${completed.how}`;
}

function bandText(band: Band | null): string {
  return band === null ? "" : `${format.bytes(band.low_bytes)} to ${format.bytes(band.high_bytes)}`;
}

function predictedText(bytes: number | null, band: Band | null, what: string): string {
  return bytes === null ? "" : `predicted peak ${format.bytes(bytes)} ${what}${band === null ? "" : ` (${bandText(band)})`}`;
}

function costText({ cost, slowdown_pct: pct }: AdvisedRemedy): string {
  const steps = pct === null || pct === 0 ? "" : `, steps ${pct > 0 ? "+" : ""}${pct.toFixed(0)} %`;
  return (COSTS[cost] ?? cost) + steps;
}

function savingText(bytes: number | null): string {
  if (bytes === null || bytes === 0) return bytes === 0 ? "saves nothing" : "";
  return bytes > 0 ? `saves ${format.bytes(bytes)}` : `takes ${format.bytes(-bytes)} more`;
}

function slowdownText({ slowdown_pct: pct, slowdown_provenance: from }: AdvisedRemedy): string {
  if (pct === null) return "";
  return `steps take about ${pct.toFixed(0)} % longer${from === "rule_of_thumb" ? " (a rule of thumb)" : ""}`;
}

/** By reserved memory, which is what a card holds. */
function fitText(remedy: AdvisedRemedy, fitBytes: number | null): string {
  if (fitBytes === null) return "";
  const bytes = remedy.predicted_peak_reserved_bytes ?? remedy.predicted_peak_allocated_bytes;
  const band = remedy.predicted_peak_reserved_band ?? remedy.predicted_peak_allocated_band;
  if (bytes === null || band === null) return "";
  const limit = format.bytes(fitBytes);
  if (band.high_bytes <= fitBytes) return `fits into ${limit}`;
  return bytes <= fitBytes ? `may fit into ${limit}: the band reaches beyond it` : `does not fit into ${limit}`;
}

function codeBlock({ name, how, how_trainer }: RemedyCode): HTMLElement {
  const block = (label: string, code: string) => {
    const said = el("span", { class: "muted", role: "status" });
    const copy = () => {
      void navigator.clipboard.writeText(code).then(() => (said.textContent = "copied"), () => (said.textContent = "select the text to copy it"));
    };
    return el("div", { class: "code" }, el("div", { class: "title" }, el("span", { class: "muted" }, label), said, el("button", { type: "button", onclick: copy }, "Copy")), el("pre", { tabindex: 0 }, code));
  };
  return el("div", {}, block(name, how), how_trainer === null ? null : block(`${name}, with transformers' Trainer`, how_trainer));
}
