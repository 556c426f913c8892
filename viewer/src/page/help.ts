// The keys and what the drawing means.

import { el } from "../ui/dom";

const SEARCH: [string, string][] = [
  ["adam step", "both words, each in a function, file, source, tensor name or tag"],
  ["train.py:19", "that line of that file, anywhere in the stack"],
  ["blocks.1.down", "part of a tensor's name"],
  ["gradients", "a source; source:gradients searches only there"],
  ["file: function: name: tag:", "before a word: search only there"],
  ["-word", "excludes what matches"],
  ["size>=1MiB", "also <, <=, >, =; in KiB, MiB, GiB"],
  ["life<5ms", "lifetime, in ns, us, ms, s, min, h"],
];

export function showHelp(): void {
  const known = document.querySelector("dialog");
  if (known !== null) return known.close();
  const keys: [string, string][] = [
    ["W S, wheel", "zoom in and out at the mouse"],
    ["A D, Alt-drag", "pan left and right"],
    ["drag", "select a range: what was allocated, freed and survived in it"],
    ["[ ]", "start or end the selected range at the cursor"],
    ["← →", "move the cursor to the next moment; with Shift, ten pixels"],
    ["↑ ↓", "previous and next allocation in the table"],
    ["Shift-drag", "zoom to a range"],
    ["0, double-click", "show the whole run"],
    ["P, E", "move the cursor to the peak, to the end"],
    ["click", "move the cursor there and select what is under it"],
    ["1 … 8", "switch views"],
    ["/", "search (see below)"],
    ["T", "switch between time and events, keeping the visible range"],
    ["G", "next grouping"],
    ["Tab, then arrows", "move between boxes of the flame graph; Enter zooms in, Escape shows everything"],
    ["Escape", "clear the selection and the range, show all groups"],
    ["?", "this help"],
  ];
  const dialog = el(
    "dialog",
    { "aria-label": "Help" },
    el("h2", {}, "Keys and mouse"),
    el("dl", {}, ...keys.map(([key, what]) => el("div", {}, el("dt", {}, key), el("dd", {}, what)))),
    el("h2", {}, "Search"),
    el("dl", {}, ...SEARCH.map(([key, what]) => el("div", {}, el("dt", {}, key), el("dd", {}, what)))),
    el("p", { class: "muted" }, "Each pixel shows the moment with the most allocated bytes; the part above the minimum is paler. The line above the bands is reserved memory. Striped boxes above the plot stand for several steps or phases; zoom in to see each. The address in the browser restores exactly this view."),
    el("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
