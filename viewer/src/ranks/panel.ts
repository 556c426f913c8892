// What the report says beside the heat map: findings, what the worst rank holds, the groups.

import { el } from "../ui/dom";
import { bytes, count, shortPlace } from "../ui/format";
import type { Job, More, Said, Worst } from "./report";

const MOST_GROUPS = 64;

function sentences(said: Said[]): HTMLElement[] {
  return said.map(({ text, is_detail }) => el("p", { class: is_detail ? "detail" : "" }, text));
}

function moreTable(title: string, rows: More[]): HTMLElement | null {
  if (rows.length === 0) return null;
  const body = rows.map(({ name, bytes: held, more_bytes, is_at_least }) =>
    el("tr", {}, el("th", { scope: "row", title: name }, shortPlace(name)), el("td", {}, bytes(held)), el("td", {}, `${is_at_least ? "≥ " : ""}+${bytes(more_bytes)}`)),
  );
  return el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, title), el("th", { scope: "col" }, "holds"), el("th", { scope: "col" }, "more"))), el("tbody", {}, ...body));
}

function worstPart(job: Job, worst: Worst, open: (place: number) => void): HTMLElement {
  const name = job.ranks.name[worst.place]!;
  const than = worst.is_one_of_two ? "the other rank of its group" : `the median of the ${count(worst.ranks)} ranks of its group`;
  const usual = worst.is_outlier ? "" : " That is not unusual.";
  const tables = [moreTable("source", worst.sources), moreTable("module", worst.modules), moreTable("line", worst.lines)];
  return el(
    "section",
    { "data-testid": "worst" },
    el("h2", {}, "What the worst rank holds that the median does not"),
    el("p", {}, el("button", { type: "button", class: "link", onclick: () => open(worst.place) }, name), ` holds ${bytes(worst.more_bytes)} more at its peak than ${than}.${usual}`),
    ...tables,
  );
}

function groupsPart(job: Job, open: (place: number) => void): HTMLElement {
  const order = job.groups.map((_, index) => index);
  order.sort((a, b) => (job.groups[b]!.largest_peak_bytes ?? 0) - (job.groups[a]!.largest_peak_bytes ?? 0));
  const sizes = job.groups.map(() => 0);
  for (const group of job.ranks.group) sizes[group]!++;
  const size = (value: number | null) => (value === null ? "–" : bytes(value));
  const rows = order.slice(0, MOST_GROUPS).map((index) => {
    const group = job.groups[index]!;
    const worst = group.largest_rank;
    const rank = worst === null ? "–" : String(job.ranks.rank[worst] ?? job.ranks.name[worst]);
    const button = worst === null ? rank : el("button", { type: "button", class: "link", title: job.ranks.name[worst]!, onclick: () => open(worst) }, rank);
    return el("tr", {}, el("th", { scope: "row" }, group.name), el("td", {}, count(sizes[index]!)), el("td", {}, size(group.median_peak_bytes)), el("td", {}, size(group.largest_peak_bytes)), el("td", {}, button));
  });
  const head = ["group", "ranks", "median peak", "largest", "on rank"].map((text) => el("th", { scope: "col" }, text));
  const left = job.groups.length - rows.length;
  return el(
    "section",
    { "data-testid": "groups" },
    el("h2", {}, "Groups, the largest peak first"),
    el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)),
    left > 0 ? el("p", { class: "muted" }, `and ${count(left)} more groups with smaller peaks`) : null,
  );
}

export function makePanel(job: Job, open: (place: number) => void): HTMLElement {
  return el(
    "aside",
    { class: "ranks-panel" },
    job.worst === null ? null : worstPart(job, job.worst, open),
    el("section", {}, el("h2", {}, "Findings"), ...job.findings.flatMap(sentences)),
    groupsPart(job, open),
  );
}

/** What must be known before anything else: which rank is nearest to its limit, what failed, what is missing. */
export function makeVerdict(job: Job, notes: string[]): HTMLElement {
  const all = [...notes, ...job.notes];
  return el(
    "div",
    { class: "verdict" },
    el("p", { class: "title" }, job.title),
    el("p", { class: "nearest", "data-testid": "verdict" }, job.nearest),
    job.failures.length === 0 ? null : el("div", { class: "failed" }, ...sentences(job.failures)),
    ...all.map((note) => el("p", { class: "note" }, note)),
  );
}
