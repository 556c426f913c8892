// What other settings of the allocator would have reserved, simulated by the server when it is asked for.

import type { SimulatedSettings } from "../data/answers";
import type { State } from "../page/state";
import { el, replace } from "../ui/dom";
import * as format from "../ui/format";
import { partText, workingText } from "../ui/waiting";

export class SettingsList {
  readonly element = el("div", { class: "settings-list", hidden: true, "data-testid": "settings", tabindex: 0, role: "region", "aria-label": "Other settings" });
  private key = "";
  private waiting: AbortController | null = null;

  constructor(private readonly state: State) {
    state.listen((change) => change === "view" && state.view !== "segments" && this.giveUp());
  }

  /** Nobody looks at what would be simulated. */
  private giveUp(): void {
    if (this.waiting === null) return;
    this.waiting.abort();
    this.waiting = null;
    this.key = "";
  }

  show(): void {
    const { state } = this;
    this.element.hidden = !state.hasSettings;
    if (!state.hasSettings) return this.giveUp();
    if (this.key === state.deviceKey) return;
    this.giveUp();
    const waiting = (this.waiting = new AbortController());
    const key = (this.key = state.deviceKey);
    const status = el("p", { class: "muted", role: "status" }, "Simulating…");
    replace(this.element, status);
    const { events } = state.current;
    const show = (...shown: Node[]) => {
      if (key !== this.key || waiting !== this.waiting) return;
      this.waiting = null;
      replace(this.element, ...shown);
    };
    state.source.ask("settings", state.deviceName, { signal: waiting.signal, onProgress: (working) => (status.textContent = workingText(working)) }).then(
      (answer) => show(...rows(answer, events)),
      (error: Error) => show(el("p", { class: "muted" }, error.message)),
    );
  }
}

function rows({ why_not, is_exact, part, runs }: SimulatedSettings, events: number): Node[] {
  if (why_not !== null) return [el("p", { class: "muted" }, why_not)];
  const recorded = runs.find((run) => run.is_recorded)?.peak_reserved_bytes ?? 0;
  const row = (run: SimulatedSettings["runs"][number]) =>
    el(
      "tr",
      { "data-conf": run.alloc_conf, "data-bytes": run.peak_reserved_bytes },
      el("td", {}, run.is_recorded ? `as recorded${run.alloc_conf === "" ? "" : `: ${run.alloc_conf}`}` : run.alloc_conf),
      el("td", { class: "number" }, format.bytes(run.peak_reserved_bytes)),
      el("td", { class: "number" }, run.is_recorded ? "" : format.signedBytes(run.peak_reserved_bytes - recorded)),
      el("td", { class: "number" }, run.ooms === 0 ? "" : `${format.counted(run.ooms, "failure")}`),
    );
  return [
    el(
      "p",
      { class: "muted", "data-testid": "settings-part" },
      `Simulated: the same requests under other values of PYTORCH_CUDA_ALLOC_CONF${part === null ? "" : `, in ${partText(part, events)}, around the peak of this run, which is too long for memory`}. ${is_exact ? "Under its own settings the simulation equals the recording to the byte." : "Under its own settings the simulation differs from the recording: take the figures as estimates."}`,
    ),
    el(
      "table",
      { class: "compared" },
      el("thead", {}, el("tr", {}, el("th", {}, "settings"), ...["most reserved", "difference", "out of memory"].map((head) => el("th", { class: "number" }, head)))),
      el("tbody", {}, ...runs.map(row)),
    ),
  ];
}
