// The keys and what the drawing means.

import { el } from "../ui/dom";

const SEARCH: [string, string][] = [
  ["adam step", "both words, each in a function, file, source, tensor name or tag"],
  ["train.py:19", "that line of that file, anywhere in the stack"],
  ["blocks.1.down", "part of a tensor's name"],
  ["gradients", "a source; source:gradients searches only sources"],
  ["file: function: name: tag:", "before a word: search only there"],
  ["-word", "exclude this word"],
  ["size>=1MiB", "also < <= > =; KiB, MiB, GiB"],
  ["life<5ms", "lifetime; ns, us, ms, s, min, h"],
];

export function showHelp(): void {
  const known = document.querySelector("dialog");
  if (known !== null) return known.close();
  const keys: [string, string][] = [
    ["W S, wheel", "zoom in and out at the mouse"],
    ["A D, drag", "move left and right"],
    ["← →", "cursor to the neighbouring moment; with Shift ten pixels"],
    ["↑ ↓", "allocation before and after, in the table"],
    ["Shift-drag", "zoom to a range"],
    ["0, double click", "the whole run"],
    ["P, E", "cursor to the peak, to the end"],
    ["click", "cursor to that moment, select what is there"],
    ["1 … 6", "the views"],
    ["/", "search, see below"],
    ["T", "time or events, with the same part of the run visible"],
    ["G", "next grouping"],
    ["Tab, then arrows", "from box to box in the flame graph; Enter zooms in, Escape shows everything"],
    ["Escape", "deselect, show all groups"],
    ["?", "this help"],
  ];
  const dialog = el(
    "dialog",
    { "aria-label": "Help" },
    el("h2", {}, "Keys and mouse"),
    el("dl", {}, ...keys.map(([key, what]) => el("div", {}, el("dt", {}, key), el("dd", {}, what)))),
    el("h2", {}, "Search"),
    el("dl", {}, ...SEARCH.map(([key, what]) => el("div", {}, el("dt", {}, key), el("dd", {}, what)))),
    el("p", { class: "muted" }, "Each pixel column shows the moment with the most allocated bytes; it is paler above the minimum within that pixel. The line above is reserved memory. Striped boxes above the plot stand for several steps or phases; zoom in to see each. The URL leads back to exactly this view."),
    el("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
