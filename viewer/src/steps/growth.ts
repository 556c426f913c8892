// What grows from step to step: by line, with what holds it where that is known.

import type { LeakSite, StepsAnswer } from "../data/answers";
import { NO_STACK } from "../data/questions";
import { el } from "../ui/dom";
import * as format from "../ui/format";

const MOST_LINES = 12;

export function growthSection({ growth, leaks, series }: StepsAnswer): HTMLElement {
  const section = el("div", { class: "growth", "data-testid": "growth" });
  if (growth === null) {
    section.append(el("p", { class: "muted" }, "There are too few steps to tell whether memory grows from step to step."));
    return section;
  }
  const sites = leaks?.sites ?? [];
  if (!growth.is_growing && sites.length === 0) {
    section.append(el("p", { class: "muted" }, `Memory does not grow from step to step: ${format.counted(growth.steps, "step")} compared.`));
    return section;
  }
  const sentence = growth.is_growing
    ? `Memory grows from step to step: ${format.bytes(growth.bytes_per_step)} a step since step ${format.count(growth.since_step ?? 0)}, ${format.bytes(growth.grown_bytes)} by step ${format.count(growth.last_step)}.`
    : "Some lines keep memory from step to step.";
  section.append(el("h2", {}, "What grows, by line"), el("p", { class: "more" }, sentence));
  if (sites.length > 0) {
    section.append(
      el(
        "table",
        { "data-testid": "growing-lines" },
        el("thead", {}, el("tr", {}, ...["a step", "line", "over the steps", "held by", "what to change"].map((name, at) => el("th", { scope: "col", class: at === 0 ? "number" : at === 2 ? "spark" : "" }, name)))),
        el("tbody", {}, ...sites.slice(0, MOST_LINES).map((site, at) => siteRow(site, series?.bytes[at] ?? null))),
      ),
    );
    if (sites.length > MOST_LINES) section.append(el("p", { class: "muted" }, `and ${format.counted((leaks?.lines ?? sites.length) - MOST_LINES, "more line")}: gpumemprof leaks lists them all`));
  } else {
    section.append(
      el(
        "table",
        { "data-testid": "growing-lines" },
        el("thead", {}, el("tr", {}, ...["a step", "line", "since step", "grown"].map((name, at) => el("th", { scope: "col", class: at === 1 ? "" : "number" }, name)))),
        el(
          "tbody",
          {},
          ...growth.lines.slice(0, MOST_LINES).map(({ frame, is_backward, since_step, bytes_per_step, grown_bytes }) =>
            el(
              "tr",
              { "data-bytes": bytes_per_step },
              el("td", { class: "number" }, format.bytes(bytes_per_step)),
              el("td", {}, `${is_backward ? "backward of " : ""}${frame === null ? NO_STACK : format.shortPlace(`${frame.file}:${frame.line} ${frame.name}`)}`),
              el("td", { class: "number" }, format.count(since_step)),
              el("td", { class: "number" }, format.bytes(grown_bytes)),
            ),
          ),
        ),
      ),
    );
  }
  return section;
}

function siteRow(site: LeakSite, bytes: number[] | null): HTMLElement {
  const place = site.file === null ? NO_STACK : format.shortPlace(`${site.file}:${site.line} ${site.function}`);
  return el(
    "tr",
    { "data-bytes": site.bytes_per_step },
    el("td", { class: "number" }, site.bytes_per_step > 0 ? format.bytes(site.bytes_per_step) : "until collected"),
    el("td", { title: site.file === null ? "" : `${site.file}:${site.line}` }, el("b", {}, `${site.is_backward ? "backward of " : ""}${place}`), el("br"), `${format.bytes(site.bytes)} in ${format.counted(site.blocks, "block")} since step ${format.count(site.first_step)}: ${site.source.replaceAll("_", " ")}`),
    el("td", { class: "spark" }, bytes === null ? el("span", { class: "muted" }, "not known") : sparkline(bytes)),
    el("td", {}, site.held_by ?? el("span", { class: "muted" }, "not recorded")),
    el("td", {}, site.advice, ...(site.doubt === null ? [] : [el("br"), el("span", { class: "muted" }, site.doubt)])),
  );
}

const SVG = "http://www.w3.org/2000/svg";

/** What one line holds at the floor of each step. */
function sparkline(bytes: number[]): Element {
  const [width, height] = [140, 30];
  const most = bytes.reduce((high, value) => Math.max(high, value), 1);
  const points = bytes.map((value, at) => `${((at / Math.max(1, bytes.length - 1)) * (width - 2) + 1).toFixed(1)},${(height - 1 - (value / most) * (height - 2)).toFixed(1)}`);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(height));
  svg.setAttribute("class", "sparkline");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `from ${format.bytes(bytes[0] ?? 0)} to ${format.bytes(bytes[bytes.length - 1] ?? 0)} over ${format.counted(bytes.length, "step")}`);
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points.join(" "));
  svg.append(line);
  return svg;
}
