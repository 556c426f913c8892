// The small box next to the mouse that says what is under it.

import { el, replace } from "./dom";

const box = el("div", { class: "tooltip", role: "tooltip", hidden: true });

export function installTooltip(): void {
  document.body.append(box);
}

/** The first line is bold. */
export function showTooltip(event: MouseEvent, lines: string[]): void {
  if (lines.length === 0) return hideTooltip();
  replace(box, ...lines.map((line, index) => el("div", { class: index === 0 ? "first" : "" }, line)));
  box.hidden = false;
  const size = box.getBoundingClientRect();
  const x = event.clientX + 14 + size.width > window.innerWidth ? event.clientX - 14 - size.width : event.clientX + 14;
  const y = Math.min(event.clientY + 14, window.innerHeight - size.height - 6);
  box.style.left = `${Math.max(4, x)}px`;
  box.style.top = `${Math.max(4, y)}px`;
}

export function hideTooltip(): void {
  box.hidden = true;
}
