// The keys and what the drawing means.

import { el } from "./dom";

export function showHelp(): void {
  const known = document.querySelector("dialog");
  if (known !== null) return known.close();
  const keys: [string, string][] = [
    ["W S, wheel", "zoom in and out at the mouse"],
    ["A D, drag", "to the left and right"],
    ["← →", "cursor to the neighbouring moment; with Shift ten pixels"],
    ["↑ ↓", "allocation before and after, in the table"],
    ["Shift-drag", "zoom to a stretch"],
    ["0, double click", "the whole run"],
    ["P, E", "cursor to the peak, to the end"],
    ["click", "cursor to that moment, select what lies there"],
    ["1 … 6", "the views"],
    ["/", "search: words of functions and files; size>10MiB, life<5ms"],
    ["T", "time or events"],
    ["G", "next grouping"],
    ["Escape", "deselect"],
    ["?", "this help"],
  ];
  const dialog = el(
    "dialog",
    { "aria-label": "Help" },
    el("h2", {}, "Keys and mouse"),
    el("dl", {}, ...keys.map(([key, what]) => el("div", {}, el("dt", {}, key), el("dd", {}, what)))),
    el("p", { class: "muted" }, "In each pixel the stack of bands is the moment of most allocated bytes; the dotted line is the least, the solid line above is reserved memory. The address in the browser leads back to exactly this view."),
    el("button", { type: "button", onclick: () => dialog.close() }, "Close"),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
