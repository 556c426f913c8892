// The page: opens its source, assembles the views, handles the keyboard.

import { CompareView } from "./page/compare";
import { completenessBanner } from "./page/completeness";
import type { Axis, DeviceMeta, Meta } from "./data/answers";
import { type LiveState, ServerSource } from "./data/server";
import { CachedSource, Gone, type Source } from "./data/source";
import { el, replace, select } from "./ui/dom";
import { openEmbedded } from "./data/embedded";
import { FlameView } from "./flame/flame";
import { count, visible } from "./ui/format";
import { showHelp } from "./page/help";
import { installKeys } from "./page/keys";
import { follow, LiveStatus } from "./page/live";
import { Panel } from "./page/panel";
import { pictureButtons } from "./page/picture";
import { allRanksLink } from "./ranks/all_ranks_link";
import { SegmentsView } from "./segments/segments";
import { Splitter } from "./page/splitter";
import { MOST_SEARCHED, State, VIEWS, type ViewName } from "./page/state";
import { SummaryView } from "./page/summary";
import { usualAxis } from "./page/usual_axis";
import { VerdictBar } from "./page/verdict";
import { StepsView } from "./steps/steps";
import { TableView } from "./table/table";
import { Timeline } from "./timeline/timeline";
import { savedTheme, saveTheme } from "./ui/theme";
import { hideTooltip, installTooltip } from "./ui/tooltip";
import { WhatIfView } from "./whatif/whatif";

const TITLES: Record<ViewName, string> = {
  timeline: "Timeline",
  flame: "Flame graph",
  segments: "Segments",
  allocations: "Allocations",
  summary: "Summary",
  compare: "Compare",
  steps: "Steps",
  whatif: "What if",
};

class Page {
  private readonly state: State;
  private readonly main = el("main");
  private readonly strip = el("div", { class: "strip" });
  private readonly large = el("section", { class: "view timeline", "aria-label": "Timeline" });
  private readonly tabs = el("nav", { role: "tablist", "aria-label": "Views" });
  private readonly searchBox = el("input", { type: "search", placeholder: "Search (/)", "aria-label": "Search functions and files", spellcheck: "false", maxlength: MOST_SEARCHED });
  private readonly timeline: Timeline;
  private readonly small: Timeline;
  private readonly panel: Panel;
  private readonly splitter: Splitter;
  private readonly table: TableView;
  private readonly verdict: VerdictBar;
  private devices: HTMLSelectElement | null = null;
  private readonly computed = el("span", { class: "badge", "data-testid": "computed" });
  private readonly live = new LiveStatus();
  private said: HTMLElement[];
  private readonly others: Record<Exclude<ViewName, "timeline">, { element: HTMLElement; show(): void }>;

  constructor(source: Source, meta: Meta, axis: Axis, root: HTMLElement) {
    this.state = new State(source, meta, axis);
    // Canvases measure the elements they are in, so everything is in place before it is drawn.
    this.panel = new Panel(this.state);
    this.splitter = new Splitter(this.panel.element);
    this.said = [completenessBanner(meta), this.notes()];
    replace(root, this.header(), ...this.said, el("div", { class: "body" }, this.main, this.splitter.element, this.panel.element));
    this.verdict = new VerdictBar(this.state);
    this.main.append(this.verdict.element, this.strip, this.large);
    this.small = new Timeline(this.state, this.strip, true);
    this.timeline = new Timeline(this.state, this.large, false);
    this.table = new TableView(this.state, this.small);
    this.others = {
      flame: new FlameView(this.state),
      segments: new SegmentsView(this.state, (places) => this.small.positionsAt(places)),
      allocations: this.table,
      summary: new SummaryView(this.state),
      compare: new CompareView(this.state),
      steps: new StepsView(this.state),
      whatif: new WhatIfView(this.state, this.main),
    };
    for (const view of Object.values(this.others)) this.main.append(view.element);
    this.state.listen((change) => {
      if (change === "view") this.showView();
      if (change === "device") this.nameDevice();
      if (change === "search" && this.searchBox.value !== this.state.search) this.searchBox.value = this.state.search;
    });
    this.state.onOtherAxis = (share) => (this.state.view === "timeline" ? this.timeline : this.small).onOtherAxis(share);
    this.timeline.onSingles = () => this.panel.showAllocationBands(this.timeline.singles.summary, this.timeline.singles.streams);
    this.timeline.onComplete = () => {
      performance.mark("complete");
      this.timeline.onComplete = null;
    };
    installKeys(this.state, {
      timeline: () => (this.state.view === "timeline" ? this.timeline : this.small),
      table: this.table,
      search: this.searchBox,
    });
    this.searchBox.value = this.state.search;
    this.nameDevice();
    this.showView();
  }

  private header(): HTMLElement {
    const { state } = this;
    const devices = state.meta.files.flatMap((file, index) =>
      file.devices.map((device, number) => ({ value: `${index}/${number}`, label: `${file.name} · ${device.name}` })),
    );
    for (const view of VIEWS) {
      this.tabs.append(
        el("button", { type: "button", role: "tab", "data-view": view, title: `${TITLES[view]} (${VIEWS.indexOf(view) + 1})`, onclick: () => state.set({ view }, "view") }, TITLES[view]),
      );
    }
    const axis = el("button", { type: "button", class: "axis", title: "Switch between time and events (t)", onclick: () => void state.switchAxis() }, "");
    const nameAxis = () => {
      const shown = state.axis === "time" ? "time" : "events";
      replace(axis, el("span", { class: "wide" }, "Axis: "), shown);
      axis.setAttribute("aria-label", `Axis: ${shown}`);
      axis.hidden = !state.hasTime;
    };
    state.listen(nameAxis);
    nameAxis();
    let waiting = 0;
    this.searchBox.addEventListener("input", () => {
      window.clearTimeout(waiting);
      waiting = window.setTimeout(() => this.search(), 120);
    });
    this.devices = select("Run and device", devices, `${state.file}/${state.device}`, (value) => {
      const [file, device] = value.split("/").map(Number) as [number, number];
      state.setDevice(file, device);
    });
    return el(
      "header",
      {},
      el("strong", { class: "name" }, "gpumemprof"),
      allRanksLink(location.pathname),
      this.devices,
      this.computed,
      this.tabs,
      this.live.element,
      el("span", { class: "spacer" }),
      this.searchBox,
      axis,
      pictureButtons(() => this.main, () => `gpumemprof-${state.view}`),
      el("button", { type: "button", title: "Switch between light and dark", "aria-label": "Switch between light and dark", onclick: () => this.switchTheme() }, "◐"),
      el("button", { type: "button", title: "Help (?)", "aria-label": "Help", onclick: () => showHelp() }, "?"),
    );
  }

  /** What the page says about its recordings changes when they grow. */
  grow(meta: Meta): void {
    this.state.grow(meta);
    const said = [completenessBanner(meta), this.notes()];
    this.said.forEach((old, index) => old.replaceWith(said[index]!));
    this.said = said;
    this.sayLive(null);
  }

  sayLive(state: LiveState | null): void {
    if (state !== null) this.live.show(state);
    // That it has not been closed is no defect of a recording that is being written.
    this.said[0]!.hidden = this.live.element.dataset["state"] === "recording";
  }

  private nameDevice(): void {
    if (this.devices !== null) {
      this.devices.value = `${this.state.file}/${this.state.device}`;
      // Whole, where the list is too narrow for it.
      this.devices.title = visible(this.devices.selectedOptions[0]?.textContent ?? "");
    }
    // In every view: what was never measured says so.
    const { kind } = this.state.meta.files[this.state.file]!;
    this.computed.hidden = kind !== "predicted" && kind !== "simulated";
    this.computed.textContent = `${kind}, not measured`;
  }

  /** What a user must know before trusting what is shown. */
  private notes(): HTMLElement {
    const notes = el("div", { class: "notes" });
    const lines: string[] = [];
    for (const file of this.state.meta.files) {
      // The banner above says so if the recording itself knows.
      const isSaid = (file.completeness?.what_is_missing ?? []).length > 0;
      if (file.cut !== null && !isSaid) lines.push(`${file.name} is incomplete: ${file.cut}. Only what came before that is shown.`);
      for (const device of file.devices) {
        if (device.is_long === true && this.state.source.embedded === null) lines.push(...longNotes(device));
        if (!device.has_history) lines.push(`${device.name} of ${file.name} has no history: only its state when the snapshot was taken is shown.`);
        else if (device.exact_from_event === null) lines.push(`${device.name} of ${file.name}: figures before the end are inferred.`);
        else if (device.exact_from_event > 0) lines.push(`${device.name} of ${file.name}: exact from event ${device.exact_from_event} on, inferred before that.`);
      }
    }
    for (const left of this.state.source.embedded?.left_out ?? []) lines.push(`Left out of this file: ${left}.`);
    if (lines.length === 1) notes.append(el("p", {}, lines[0]!));
    if (lines.length > 1) notes.append(el("details", {}, el("summary", {}, `${lines[0]} (${lines.length - 1} more)`), ...lines.slice(1).map((line) => el("p", {}, line))));
    return notes;
  }

  private search(): void {
    this.state.set({ search: this.searchBox.value }, "search");
    if (this.searchBox.value !== "" && this.state.view !== "flame" && this.state.view !== "allocations") this.state.set({ view: "allocations" }, "view");
  }

  private showView(): void {
    const { view } = this.state;
    hideTooltip();
    for (const tab of this.tabs.querySelectorAll<HTMLElement>("button")) tab.setAttribute("aria-selected", String(tab.dataset["view"] === view));
    this.large.hidden = this.verdict.element.hidden = view !== "timeline";
    this.strip.hidden = view === "timeline" || view === "summary" || view === "whatif";
    this.panel.element.hidden = this.splitter.element.hidden = ["summary", "compare", "steps", "whatif"].includes(view);
    for (const [name, other] of Object.entries(this.others)) other.element.hidden = name !== view;
    if (view !== "timeline") this.others[view].show();
    else this.timeline.schedule();
    this.small.schedule();
  }

  private switchTheme(): void {
    saveTheme(document.documentElement.dataset["theme"] === "dark" ? "light" : "dark");
    this.state.set({}, "theme");
  }
}

/** What the page does not show at once of a run that is too long for memory. */
function longNotes({ name, events, index_events, listed_events }: DeviceMeta): string[] {
  return [
    `${name} has ${count(events)} events, too many to be held in memory: until you zoom in, the timeline comes from the recording's index.`,
    `The index knows the least and the most of every ${count(index_events!)} events, and what each source held at the most. Lines, stacks, modules and sizes show where you zoom in, and at the cursor.`,
    `Every moment is read from the recording when you go there. Tables list what is live at the cursor, or in a range of up to ${count(listed_events!)} events.`,
    "Times of steps and phases are rounded; annotations are not drawn.",
  ];
}

const deviceNames = (meta: Meta) => JSON.stringify(meta.files.map((file) => file.devices.map(({ name }) => name)));

/** The page grows with recordings that are being written. */
function followRecordings(server: ServerSource, source: CachedSource, page: Page, first: Meta, state: LiveState): void {
  page.sayLive(state);
  follow(server, state, async (now) => {
    if (now.generation !== server.generation) {
      server.generation = now.generation;
      source.forget();
      const meta = await source.ask("meta", {});
      // Another device was used for the first time: the address restores all that is shown.
      if (deviceNames(meta) !== deviceNames(first)) location.reload();
      page.grow(meta);
    }
    page.sayLive(now);
  });
}

/** What every first screen shows is asked for while its axis is still being chosen. */
function askAhead(source: Source, { files }: Meta): void {
  const file = files.findIndex(({ devices }) => devices.length > 0);
  for (const question of ["overlays", "report"] as const) void source.ask(question, { file, device: 0 }).catch(() => undefined);
}

/** Waits for the first event of a program that has just been started. */
async function firstMeta(server: ServerSource | null, source: CachedSource, root: HTMLElement): Promise<Meta> {
  for (;;) {
    const meta = await source.ask("meta", {});
    if (meta.files.some((file) => file.devices.length > 0)) return meta;
    if (server === null || (await server.state()).files.every(({ state }) => state !== "recording")) throw new Error("This recording contains no memory of any device: nothing was allocated while it was made. Start the program with gpumemprof run, or call torch.cuda.memory._record_memory_history() before its first allocation.");
    replace(root, el("p", { class: "loading", role: "status" }, "The program has not allocated anything yet."));
    await new Promise((resolve) => window.setTimeout(resolve, 1000));
    server.generation = (await server.state()).generation;
    source.forget();
  }
}

async function open(): Promise<void> {
  document.documentElement.dataset["theme"] = savedTheme();
  const root = document.getElementById("app")!;
  try {
    const embedded = await openEmbedded();
    const server = embedded === null ? new ServerSource() : null;
    const source = new CachedSource(embedded ?? server!);
    // Asked for together: of a recording that does not grow, there is one generation.
    const [state] = await Promise.all([server?.state(), source.ask("meta", {})]);
    if (server !== null && server.generation !== state!.generation) {
      server.generation = state!.generation;
      source.forget();
    }
    const meta = await firstMeta(server, source, root);
    askAhead(source, meta);
    document.title = visible(`${meta.files.map((file) => file.name).join(" and ")} – gpumemprof`);
    installTooltip();
    const page = new Page(source, meta, await usualAxis(source, meta), root);
    if (server !== null) followRecordings(server, source, page, meta, state!);
    // It is said at the top of the page.
    window.addEventListener("unhandledrejection", (event) => event.reason instanceof Gone && event.preventDefault());
    source.onFailure = (error) => {
      if (document.querySelector(".gone") === null) root.prepend(el("p", { class: "gone", role: "alert" }, error.message));
    };
  } catch (error) {
    replace(root, el("p", { class: "loading", role: "alert" }, (error as Error).message));
  }
}

void open();
