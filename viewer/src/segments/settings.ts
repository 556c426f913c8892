// What other settings of the allocator would have reserved, simulated by the server when it is asked for.

import type { SimulatedSettings } from "../data/answers";
import type { State } from "../page/state";
import { el, replace } from "../ui/dom";
import * as format from "../ui/format";

export class SettingsList {
  readonly element = el("div", { class: "settings-list", hidden: true, "data-testid": "settings" });
  private key = "";

  constructor(private readonly state: State) {}

  show(): void {
    const { state } = this;
    this.element.hidden = !state.hasSettings;
    if (!state.hasSettings || this.key === state.deviceKey) return;
    const key = (this.key = state.deviceKey);
    replace(this.element, el("p", { class: "muted", role: "status" }, "Simulating…"));
    state.source.ask("settings", state.deviceName).then(
      (answer) => key === this.key && replace(this.element, ...rows(answer)),
      (error: Error) => key === this.key && replace(this.element, el("p", { class: "muted" }, error.message)),
    );
  }
}

function rows({ why_not, is_exact, runs }: SimulatedSettings): Node[] {
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
      { class: "muted" },
      `Simulated: the same requests under other values of PYTORCH_CUDA_ALLOC_CONF. ${is_exact ? "Under its own settings the simulation equals the recording to the byte." : "Under its own settings the simulation differs from the recording: take the figures as estimates."}`,
    ),
    el(
      "table",
      { class: "compared" },
      el("thead", {}, el("tr", {}, el("th", {}, "settings"), ...["most reserved", "difference", "out of memory"].map((head) => el("th", { class: "number" }, head)))),
      el("tbody", {}, ...runs.map(row)),
    ),
  ];
}
