// A recording that lost events, or that was never closed, says so above everything else.

import type { Meta } from "../data/answers";
import { el } from "../ui/dom";

export function completenessBanner(meta: Meta): HTMLElement {
  const banner = el("div", { class: "incomplete", role: "alert", "data-testid": "incomplete" });
  for (const file of meta.files) {
    for (const sentence of file.completeness?.what_is_missing ?? []) {
      banner.append(el("p", {}, meta.files.length > 1 ? `${file.name}: ${sentence}` : sentence));
    }
  }
  return banner;
}
