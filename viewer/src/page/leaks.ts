// The lines whose memory grows, for the summary: what gpumemprof leaks says of each.

import type { LeakSite, ReportDevice } from "../data/answers";
import { NO_STACK } from "../data/questions";
import { el } from "../ui/dom";
import * as format from "../ui/format";

const TITLES: Record<string, string> = {
  leak: "Memory that grows from step to step",
  cycles: "Memory that only the garbage collector frees",
};
const SHOWN = 10;

/** Nothing if no line grows. */
export function leakTable(device: ReportDevice): Node[] {
  const sites = device.leaks?.sites ?? [];
  if (device.leaks === null || sites.length === 0) return [];
  const more = device.leaks.lines - Math.min(SHOWN, sites.length);
  return [
    el("h2", {}, TITLES[device.leaks.verdict] ?? "Memory that grows"),
    el("table", { "data-testid": "leaks", class: "leaks" }, ...sites.slice(0, SHOWN).map(row)),
    more > 0 ? el("p", { class: "muted" }, `and ${format.counted(more, "more line")}: gpumemprof leaks lists them all`) : el("span"),
  ];
}

function row(site: LeakSite): HTMLElement {
  const rate = site.bytes_per_step > 0 ? `${format.bytes(site.bytes_per_step)} a step` : "until collected";
  const amount = `${format.bytes(site.bytes)} in ${format.counted(site.blocks, "block")}, since step ${format.count(site.first_step)}`;
  return el(
    "tr",
    { "data-bytes": site.bytes_per_step },
    el("td", { class: "number" }, rate),
    el(
      "td",
      { title: site.doubt ?? "" },
      el("b", {}, place(site)),
      el("br"),
      `${amount}: ${site.source.replaceAll("_", " ")}`,
      ...(site.held_by === null ? [] : [el("br"), `held by ${site.held_by}`]),
      el("br"),
      el("span", { class: "muted" }, site.advice),
    ),
  );
}

function place(site: LeakSite): string {
  if (site.file === null) return NO_STACK;
  const text = format.shortPlace(`${site.file}:${site.line} ${site.function}`);
  return site.is_backward ? `backward of ${text}` : text;
}
