// The table of allocations: sorted, filtered and searched by whoever answers; rows come as they are
// scrolled into sight.

import type { Allocations } from "./data";
import { el, replace } from "./dom";
import * as format from "./format";
import { sourceLabel } from "./panel";
import type { State } from "./state";
import type { Timeline } from "./timeline";

const ROW = 26;
const PAGE = 100;
// Browsers cannot scroll further than some 30 million pixels.
const MOST_ROWS = 1_000_000;

interface Column {
  key: string;
  label: string;
  order: string | null;
}

export class TableView {
  readonly element = el("section", { class: "view allocations", "aria-label": "Allocations" });
  private readonly bar = el("div", { class: "bar" });
  private readonly head = el("div", { class: "row head", role: "row" });
  private readonly scroll = el("div", { class: "scroll rows", tabindex: 0 });
  private readonly spacer = el("div", { class: "spacer-rows" });
  private readonly facts = el("span", { class: "facts", "data-testid": "table-facts" });
  private order = "size";
  private direction = "down";
  private scope: "all" | "range" | "cursor" = "all";
  private pages = new Map<number, Allocations>();
  private query = "";
  private matches = 0;
  private isScheduled = false;

  constructor(private readonly state: State, private readonly timeline: Timeline) {
    this.element.append(this.bar, this.head, this.scroll);
    this.scroll.append(this.spacer);
    this.scroll.addEventListener("scroll", () => this.schedule());
    new ResizeObserver(() => this.schedule()).observe(this.scroll);
    this.makeBar();
    state.listen((change) => {
      if (state.view !== "allocations") return;
      if (change === "selection") this.schedule();
      else if (change !== "theme") this.reload();
    });
  }

  show(): void {
    this.reload();
  }

  private get columns(): Column[] {
    const columns: Column[] = [
      { key: "size", label: "Size", order: "size" },
      { key: "rounding", label: "Rounding", order: "rounding" },
      { key: "birth", label: "Allocated at", order: "birth" },
      { key: "lifetime", label: "Lived", order: "lifetime" },
    ];
    if (this.state.current.sources.length > 0) columns.push({ key: "source", label: "Source", order: null });
    columns.push({ key: "label", label: "Where", order: null });
    return columns;
  }

  private makeBar(): void {
    const scopes: [typeof this.scope, string][] = [
      ["all", "Whole run"],
      ["range", "In the range in sight"],
      ["cursor", "Live at the cursor"],
    ];
    const group = el("div", { class: "segmented", role: "group", "aria-label": "Which allocations" });
    for (const [value, label] of scopes) {
      const button = el("button", { type: "button", "data-value": value, "aria-pressed": String(value === this.scope) }, label);
      button.addEventListener("click", () => {
        this.scope = value;
        for (const other of group.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === button));
        this.reload();
      });
      group.append(button);
    }
    replace(this.bar, group, this.facts, el("span", { class: "muted" }, "Search words, or size>10MiB, life<5ms"));
  }

  private drawHead(): void {
    replace(
      this.head,
      ...this.columns.map(({ key, label, order }) => {
        const isOrder = order !== null && order === this.order;
        const arrow = isOrder ? (this.direction === "down" ? " ↓" : " ↑") : "";
        const cell = el("span", { class: `cell ${key}`, role: "columnheader" }, label + arrow);
        if (order !== null) {
          cell.tabIndex = 0;
          cell.classList.add("sortable");
          cell.addEventListener("click", () => {
            this.direction = isOrder && this.direction === "down" ? "up" : "down";
            this.order = order;
            this.reload();
          });
        }
        return cell;
      }),
    );
  }

  private makeQuery(): string {
    const { state } = this;
    const words = new URLSearchParams();
    const text: string[] = [];
    for (const word of state.search.split(/\s+/)) {
      const match = /^(size|life)([<>])(.+)$/i.exec(word);
      const value = match === null ? null : match[1]!.toLowerCase() === "size" ? format.parseSize(match[3]!) : format.parseDuration(match[3]!);
      if (match === null || value === null) text.push(word);
      else words.set(`${match[2] === ">" ? "min" : "max"}_${match[1]!.toLowerCase() === "size" ? "size" : "lifetime"}`, String(value));
    }
    const plain = text.join(" ").trim();
    if (plain !== "") words.set("words", plain);
    if (this.scope === "cursor") words.set("live_at", String(state.cursor));
    if (this.scope === "range" && (state.from > 0 || state.to < 1)) {
      const [from, to] = this.timeline.positionsInSight;
      words.set("from", String(from));
      words.set("to", String(to));
    }
    if (state.highlighted !== null && state.by !== "allocation" && state.source.embedded === null) {
      words.set("by", state.by);
      words.set("group", String(state.highlighted));
    }
    words.set("order", this.order);
    words.set("direction", this.direction);
    return `allocations?${state.named}&${words.toString()}`;
  }

  private reload(): void {
    this.drawHead();
    const query = this.makeQuery();
    if (query === this.query) return this.schedule();
    this.query = query;
    this.pages.clear();
    this.scroll.scrollTop = 0;
    this.ask(0);
  }

  private ask(page: number): void {
    const query = this.query;
    if (this.pages.has(page)) return;
    void this.state.source.ask<Allocations>(`${query}&offset=${page * PAGE}&limit=${PAGE}`).then((rows) => {
      if (query !== this.query) return;
      this.pages.set(page, rows);
      this.matches = rows.matches;
      this.spacer.style.height = `${Math.min(rows.matches, MOST_ROWS) * ROW}px`;
      const group = this.state.highlighted !== null && this.query.includes("group=") ? `, group ${this.state.highlighted + 1} only` : "";
      this.facts.textContent = `${format.counted(rows.matches, "allocation")}, ${format.bytes(rows.matching_bytes)} in all${group}`;
      this.facts.dataset["matches"] = String(rows.matches);
      this.facts.dataset["bytes"] = String(rows.matching_bytes);
      this.schedule();
    });
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => {
      this.isScheduled = false;
      this.draw();
    });
  }

  private draw(): void {
    if (this.state.view !== "allocations") return;
    const first = Math.floor(this.scroll.scrollTop / ROW);
    const last = Math.min(this.matches, MOST_ROWS, first + Math.ceil(this.scroll.clientHeight / ROW) + 1);
    const rows: Node[] = [];
    for (let index = first; index < last; index++) {
      const page = Math.floor(index / PAGE);
      const answer = this.pages.get(page);
      if (answer === undefined) this.ask(page);
      else if (index % PAGE < answer.row.length) rows.push(this.row(answer, index % PAGE, index));
    }
    if (this.matches === 0 && this.pages.size > 0) {
      rows.push(el("p", { class: "empty" }, this.state.search === "" ? "There are no allocations here." : "Nothing matches this search."));
    }
    replace(this.spacer, ...rows);
  }

  private row(answer: Allocations, at: number, index: number): HTMLElement {
    const { state } = this;
    const number = answer.row[at]!;
    const size = answer.size[at]!;
    const birth = answer.birth[at]!;
    const since = answer.birth_ns[at] == null ? "" : ` · ${format.duration(answer.birth_ns[at]!)}`;
    const life = state.hasTime ? format.duration(answer.lifetime[at]!) : format.counted(answer.lifetime[at]!, "event");
    const texts: Record<string, string> = {
      size: format.bytes(size),
      rounding: size === answer.requested[at]! ? "–" : format.bytes(size - answer.requested[at]!),
      birth: birth === 0 ? "before" : `${format.count(birth - 1)}${since}`,
      lifetime: answer.death[at] === null ? `${life}, to the end` : life,
      source: answer.source[at] == null ? "" : sourceLabel(state.current.sources[answer.source[at]!] ?? ""),
      label: format.shortestPlace(answer.labels[answer.label[at]!]!),
    };
    const row = el("div", {
      class: "row",
      role: "row",
      "data-row": number,
      "data-bytes": size,
      "aria-selected": String(number === state.selected),
      onclick: () => state.set({ selected: number }, "selection"),
    });
    row.style.top = `${index * ROW}px`;
    for (const { key } of this.columns) row.append(el("span", { class: `cell ${key}`, title: key === "label" ? answer.labels[answer.label[at]!]! : "" }, texts[key]!));
    return row;
  }

  /** Selects the row before or after the one that is selected. */
  step(by: number): void {
    const rows = [...this.spacer.querySelectorAll<HTMLElement>(".row")];
    const at = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
    const next = rows[at < 0 ? 0 : at + by];
    if (next === undefined) {
      this.scroll.scrollTop += by * ROW;
      return;
    }
    this.state.set({ selected: Number(next.dataset["row"]) }, "selection");
    const top = next.offsetTop;
    if (top + ROW > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop += ROW;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
  }
}
