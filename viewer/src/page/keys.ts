// The keyboard.

import { showHelp } from "./help";
import { type ShownBy, type State, VIEWS } from "./state";
import type { TableView } from "../table/table";
import type { Timeline } from "../timeline/timeline";

interface Targets {
  timeline(): Timeline;
  table: TableView;
  search: HTMLInputElement;
}

export function installKeys(state: State, targets: Targets): void {
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null) return;
    const isTyping = (event.target instanceof HTMLInputElement && event.target.type !== "checkbox") || event.target instanceof HTMLSelectElement;
    if ((event.key === "Enter" || event.key === " ") && (event.target instanceof HTMLButtonElement || event.target instanceof HTMLInputElement)) return;
    if (isTyping) {
      if (event.key === "Escape" || (event.key === "Enter" && event.target === targets.search)) (event.target as HTMLElement).blur();
      return;
    }
    if (press(event.key, event.shiftKey, state, targets)) event.preventDefault();
  });
}

/** The range starts, or ends, at the cursor; the other end stays, or is the end of the run. */
function pickEnd(state: State, isStart: boolean): void {
  const { picked, cursor } = state;
  const from = isStart ? cursor : (picked?.from ?? 0);
  const to = isStart ? (picked?.to ?? state.current.events) : cursor;
  if (from < to) return state.set({ picked: { from, to } }, "picked");
  // One event, the last or the first one at the edges: a range of none could not be told from no range.
  const start = Math.min(Math.max(0, isStart ? from : to - 1), state.current.events - 1);
  if (start >= 0) state.set({ picked: { from: start, to: start + 1 } }, "picked");
}

function press(key: string, isShifted: boolean, state: State, targets: Targets): boolean {
  const timeline = targets.timeline();
  const width = state.to - state.from;
  switch (key.length === 1 ? key.toLowerCase() : key) {
    case "w":
      timeline.zoom(0.7, timeline.keyboardCentre);
      return true;
    case "s":
      timeline.zoom(1 / 0.7, timeline.keyboardCentre);
      return true;
    case "a":
      timeline.pan(-0.15 * width);
      return true;
    case "d":
      timeline.pan(0.15 * width);
      return true;
    case "ArrowLeft":
      timeline.stepCursor(isShifted ? -10 : -1);
      return true;
    case "ArrowRight":
      timeline.stepCursor(isShifted ? 10 : 1);
      return true;
    case "[":
    case "]":
      pickEnd(state, key === "[");
      return true;
    case "ArrowUp":
    case "ArrowDown":
      if (state.view !== "allocations") return false;
      targets.table.step(key === "ArrowUp" ? -1 : 1);
      return true;
    case "0":
    case "Home":
      state.setRange(0, 1);
      return true;
    case "p":
      state.setCursor(state.current.peak_position);
      return true;
    case "e":
      state.setCursor(state.current.events);
      return true;
    case "t":
      void state.switchAxis();
      return true;
    case "g": {
      const bys: ShownBy[] = [...state.current.group_bys, "allocation"];
      state.set({ by: bys[(bys.indexOf(state.by) + 1) % bys.length]!, highlighted: null }, "grouping");
      return true;
    }
    case "/":
      targets.search.focus();
      targets.search.select();
      return true;
    case "?":
      showHelp();
      return true;
    case "Escape":
      state.set({ selected: null, highlighted: null }, "selection");
      if (state.picked !== null) state.set({ picked: null, flameOf: "live" }, "picked");
      state.set({}, "grouping");
      return true;
    default: {
      const view = VIEWS[Number(key) - 1];
      if (view === undefined) return false;
      state.set({ view }, "view");
      return true;
    }
  }
}
