// In the viewer of one rank: the way back to the page about all of them.

import { el } from "../ui/dom";

/** Null where the viewer shows a recording by itself. */
export function allRanksLink(path: string): HTMLElement | null {
  return path.startsWith("/rank/") ? el("a", { class: "all-ranks", href: "/", title: "The page about all ranks" }, "← all ranks") : null;
}
