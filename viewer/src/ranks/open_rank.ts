// What a click on a rank does: its recording is opened, or the page says how to open it.

import { el } from "../ui/dom";
import { bytes, count } from "../ui/format";
import type { Job } from "./report";

/** Safe in a shell, whatever is in the path. */
export function quoted(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'"'"'`)}'`;
}

/** `number` is the rank's place among all jobs. */
export function openRank(job: Job, place: number, number: number, isServed: boolean): void {
  const recording = job.ranks.recording[place]!;
  if (isServed && recording !== null) location.assign(`/rank/${number}/`);
  else showHow(job, place, recording);
}

function showHow(job: Job, place: number, recording: string | null): void {
  const { ranks } = job;
  const dialog = el("dialog", { class: "how" }, el("h2", {}, ranks.name[place]!));
  const fact = (name: string, value: string) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  const size = (value: number | null) => (value === null ? "not known" : bytes(value));
  const step = ranks.peak_step[place];
  dialog.append(
    el(
      "dl",
      {},
      fact("Host", `${ranks.host[place] ?? "not known"} · ${ranks.device[place]}`),
      fact("Peak", size(ranks.peak_bytes[place]!) + (step == null ? "" : ` at step ${count(step)}`)),
      fact("Reserved", size(ranks.reserved_bytes[place]!)),
      fact("Outside the pool", size(ranks.outside_bytes[place]!)),
      fact("Headroom", size(ranks.headroom_bytes[place]!)),
    ),
  );
  if (recording === null) {
    const host = ranks.host[place];
    dialog.append(
      el("p", {}, `Only the summary of this rank is here; its recording was written elsewhere${host === null ? "" : `, probably on ${host}`}. Copy it next to the summary to open it:`),
      el("p", {}, el("code", {}, ranks.path[place] ?? "")),
    );
  } else if (/^\w+:\/\//.test(recording)) {
    dialog.append(el("p", {}, "To open its recording, copy it to a machine with gpumemprof first:"), el("p", {}, el("code", {}, recording)));
  } else {
    const command = `gpumemprof view ${quoted(recording)}`;
    const copy = el("button", { type: "button", onclick: () => void navigator.clipboard?.writeText(command).then(() => (copy.textContent = "Copied")) }, "Copy");
    dialog.append(el("p", {}, "To open its recording, type:"), el("p", { class: "command" }, el("code", {}, command), copy));
  }
  dialog.append(el("button", { type: "button", onclick: () => dialog.close() }, "Close"));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
