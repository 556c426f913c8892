// The table of allocations: sorted, filtered and searched by its source; rows are loaded as they
// scroll into view.

import type { Allocations, Groups, Order } from "../data/answers";
import { type Asked, questionText } from "../data/source";
import { el, replace } from "../ui/dom";
import * as format from "../ui/format";
import { sourceLabel } from "../page/panel";
import { parseSearch, type Search } from "./search";
import type { Scope, State } from "../page/state";
import { RowScroll, ROW_PIXELS } from "./row_scroll";
import type { Timeline } from "../timeline/timeline";

const PAGE = 100;

interface Column {
  key: string;
  label: string;
  order: Order | null;
}

const SCOPE_LABELS: [Scope, string][] = [
  ["all", "Whole run"],
  ["range", "In the visible range"],
  ["cursor", "Live at the cursor"],
];

export class TableView {
  readonly element = el("section", { class: "view allocations", "aria-label": "Allocations" });
  private readonly bar = el("div", { class: "bar" });
  private readonly scopes = el("div", { class: "segmented", role: "group", "aria-label": "Which allocations" });
  private readonly facts = el("span", { class: "facts", "data-testid": "table-facts", role: "status" });
  private readonly meaning = el("div", { class: "meaning" });
  private readonly table = el("div", { class: "table", role: "table", "aria-label": "Allocations" });
  private readonly head = el("div", { class: "row head", role: "row" });
  private readonly scroll: RowScroll;
  private pages = new Map<number, Allocations>();
  private asked: Asked<"allocations"> | null = null;
  private query = "";
  private matches = 0;
  private isScheduled = false;
  private groups: Groups | null = null;
  private drawnHead = "";

  constructor(private readonly state: State, private readonly timeline: Timeline) {
    this.scroll = new RowScroll(() => this.schedule());
    this.table.append(this.head, this.scroll.element);
    this.element.append(this.bar, this.meaning, this.table);
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
      { key: "lifetime", label: "Lifetime", order: "lifetime" },
    ];
    const has = (key: "name" | "tag") => [...this.pages.values()].some((page) => page[key].some((value) => value !== null));
    if (this.state.current.sources.length > 0) columns.push({ key: "source", label: "Source", order: null });
    if (has("name")) columns.push({ key: "name", label: "Name", order: null });
    if (has("tag")) columns.push({ key: "tag", label: "Tag", order: null });
    columns.push({ key: "label", label: "Where", order: null });
    return columns;
  }

  private makeBar(): void {
    for (const [value, label] of SCOPE_LABELS) {
      this.scopes.append(el("button", { type: "button", "data-value": value, onclick: () => this.state.set({ scope: value }, "table") }, label));
    }
    replace(this.bar, this.scopes, this.facts);
  }

  private drawHead(): void {
    const { state } = this;
    for (const button of this.scopes.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset["value"] === this.scope));
      button.hidden = this.isLong && button.dataset["value"] === "all";
    }
    const drawn = `${this.columns.map(({ key }) => key).join()} ${state.order} ${state.direction}`;
    if (drawn === this.drawnHead) return;
    this.drawnHead = drawn;
    const focused = document.activeElement instanceof HTMLElement && this.head.contains(document.activeElement) ? document.activeElement.dataset["order"] : undefined;
    replace(this.head, ...this.columns.map((column) => this.headCell(column)));
    if (focused !== undefined) this.head.querySelector<HTMLElement>(`[data-order=${focused}]`)?.focus();
  }

  private headCell({ key, label, order }: Column): HTMLElement {
    const { state } = this;
    if (order === null) return el("span", { class: `cell ${key}`, role: "columnheader" }, label);
    const isOrder = order === state.order;
    const arrow = isOrder ? (state.direction === "down" ? " ↓" : " ↑") : "";
    const sort = () => state.set({ order, direction: isOrder && state.direction === "down" ? "up" : "down" }, "table");
    return el(
      "span",
      { class: `cell ${key}`, role: "columnheader", "aria-sort": !isOrder ? "none" : state.direction === "down" ? "descending" : "ascending" },
      el("button", { type: "button", class: "sort", "data-order": order, "aria-label": `Sort by ${label.toLowerCase()}`, onclick: sort }, label + arrow),
    );
  }

  /** Of a run that is too long for memory, only what is live at a moment or in a short range can be listed. */
  private get scope(): Scope {
    return this.isLong && this.state.scope === "all" ? "cursor" : this.state.scope;
  }
  private get isLong(): boolean {
    return this.state.current.is_long === true && this.state.source.embedded === null;
  }

  private makeQuery(search: Search): Asked<"allocations"> {
    const { state } = this;
    const asked: Asked<"allocations"> = { ...state.deviceName, order: state.order, direction: state.direction };
    if (search.minSize > 0) asked.min_size = search.minSize;
    if (search.maxSize < Infinity) asked.max_size = Math.max(0, search.maxSize);
    if (search.minLifetime > 0) asked.min_lifetime = search.minLifetime;
    if (search.maxLifetime < Infinity) asked.max_lifetime = Math.max(0, search.maxLifetime);
    if (search.plain !== "") asked.words = search.plain;
    if (this.scope === "cursor") asked.live_at = state.cursor;
    if (this.scope === "range" && (state.from > 0 || state.to < 1)) [asked.from, asked.to] = this.timeline.positionsInSight;
    if (this.isGrouped) {
      asked.by = state.knownBy;
      asked.group = state.highlighted!;
    }
    return asked;
  }

  /** Whether only one group is listed. */
  private get isGrouped(): boolean {
    const { state } = this;
    return state.highlighted !== null && state.by !== "allocation" && state.source.isWhole(state.file, state.device);
  }

  private reload(): void {
    const search = parseSearch(this.state.search);
    this.drawHead();
    this.asked = this.makeQuery(search);
    const query = questionText("allocations", this.asked);
    this.drawMeaning(search);
    if (query === this.query) return this.schedule();
    this.query = query;
    this.facts.setAttribute("aria-busy", "true");
    this.pages.clear();
    this.scroll.toTop();
    this.ask(0);
  }

  /** How the search was interpreted, and which single group is listed, with a way to clear each. */
  private drawMeaning(search: Search): void {
    const { state } = this;
    const parts: Node[] = [];
    if (this.isGrouped) {
      parts.push(
        el("span", { class: "chip", "data-testid": "group-filter" },
          `only ${this.groupName()}`,
          el("button", { type: "button", class: "link", "aria-label": "Clear the filter by group", onclick: () => state.set({ highlighted: null }, "grouping") }, "clear"),
        ),
      );
    }
    for (const text of search.understood) parts.push(el("span", { class: "chip" }, text));
    for (const text of search.problems) parts.push(el("span", { class: "chip bad", role: "alert" }, text));
    if (state.search.trim() !== "") parts.push(el("button", { type: "button", class: "link", onclick: () => state.set({ search: "" }, "search") }, "clear the search"));
    if (parts.length === 0) parts.push(el("span", { class: "muted" }, "Search: train.py:19, gradients, blocks.1.down, size>=1MiB, life<5ms, -word (? for help)"));
    this.meaning.dataset["understood"] = search.understood.join("; ");
    replace(this.meaning, ...parts);
  }

  private groupName(): string {
    const { state } = this;
    const group = state.highlighted!;
    if (this.groups?.by !== state.knownBy) {
      void state.source.ask("groups", { ...state.deviceName, by: state.knownBy }).then((groups) => {
        this.groups = groups;
        this.drawMeaning(parseSearch(state.search));
      });
      return `group ${group + 1}`;
    }
    const label = this.groups.groups[group]?.label ?? `group ${group + 1}`;
    return state.by === "source" ? sourceLabel(label) : format.shortestPlace(label);
  }

  private ask(page: number): void {
    const { asked, query } = this;
    if (asked === null || this.pages.has(page)) return;
    void this.state.source.ask("allocations", { ...asked, offset: page * PAGE, limit: PAGE }).then((rows) => {
      if (query !== this.query) return;
      this.pages.set(page, rows);
      this.facts.setAttribute("aria-busy", "false");
      this.matches = rows.matches;
      this.scroll.setCount(rows.matches);
      this.facts.textContent = `${format.counted(rows.matches, "allocation")}${this.state.search.trim() === "" ? "" : rows.matches === 1 ? " matches" : " match"}, ${format.bytes(rows.matching_bytes)} in total`;
      this.facts.dataset["matches"] = String(rows.matches);
      this.facts.dataset["bytes"] = String(rows.matching_bytes);
      this.facts.dataset["query"] = query;
      this.drawHead();
      this.schedule();
    }, (error: Error) => {
      if (query !== this.query) return;
      this.facts.setAttribute("aria-busy", "false");
      this.matches = 0;
      this.scroll.setCount(0);
      this.scroll.show([]);
      this.facts.textContent = error.message;
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
    const { first, past } = this.scroll;
    const rows: HTMLElement[] = [];
    for (let index = first; index < past; index++) {
      const page = Math.floor(index / PAGE);
      const answer = this.pages.get(page);
      if (answer === undefined) this.ask(page);
      else if (index % PAGE < answer.row.length) rows.push(this.row(answer, index % PAGE, index));
    }
    if (this.matches === 0 && this.pages.size > 0) {
      const isAll = this.state.search === "" && !this.isGrouped;
      rows.push(el("p", { class: "empty" }, isAll ? "There are no allocations in this range." : "Nothing matches this search."));
    }
    this.scroll.show(rows);
  }

  private row(answer: Allocations, at: number, index: number): HTMLElement {
    const { state } = this;
    const number = answer.row[at]!;
    const size = answer.size[at]!;
    const birth = answer.birth[at]!;
    const since = answer.birth_ns[at] == null || !state.hasTime ? "" : ` · ${format.duration(answer.birth_ns[at]!)}`;
    const life = state.lifeText({ birth, death: answer.death[at] ?? null, lifetime: answer.lifetime[at]! });
    const texts: Record<string, string> = {
      size: format.bytes(size),
      rounding: size === answer.requested[at]! ? "–" : format.bytes(size - answer.requested[at]!),
      birth: birth === 0 ? "before the start" : `${format.count(birth - 1)}${since}`,
      lifetime: answer.goes_on?.[at] === true ? `more than ${life}` : answer.death[at] === null ? `${life}, until the end` : life,
      source: answer.source[at] == null ? "" : sourceLabel(state.current.sources[answer.source[at]!] ?? ""),
      name: answer.name[at] ?? "",
      tag: answer.tag[at] ?? "",
      label: format.shortestPlace(answer.labels[answer.label[at]!]!),
    };
    const row = el("div", {
      class: "row",
      role: "row",
      "data-row": number,
      "data-index": index,
      "data-bytes": size,
      "aria-rowindex": index + 1,
      "aria-selected": String(number === state.selected),
      onclick: () => state.set({ selected: number }, "selection"),
    });
    const titles: Record<string, string> = { label: answer.labels[answer.label[at]!]!, name: texts["name"]! };
    for (const { key } of this.columns) row.append(el("span", { class: `cell ${key}`, role: "cell", title: titles[key] ?? texts[key]! }, texts[key]!));
    return row;
  }

  /** Selects the row before or after the selected one. */
  step(by: number): void {
    const rows = [...this.scroll.element.querySelectorAll<HTMLElement>(".row")];
    const at = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
    const next = rows[at < 0 ? 0 : at + by];
    if (next === undefined) return this.scroll.by(by);
    this.state.set({ selected: Number(next.dataset["row"]) }, "selection");
    const top = next.offsetTop - this.scroll.element.scrollTop;
    if (top + ROW_PIXELS > this.scroll.element.clientHeight) this.scroll.by(1);
    if (top < 0) this.scroll.by(-1);
  }
}
