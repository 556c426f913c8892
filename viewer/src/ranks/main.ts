// The page about all ranks: opens the report, assembles the heat map and what is said beside it.

import { el, replace, segmented, select } from "../ui/dom";
import { savedTheme, saveTheme } from "../ui/theme";
import { visible } from "../ui/format";
import { installTooltip, hideTooltip } from "../ui/tooltip";
import { pictureButtons } from "../page/picture";
import { FIGURES, type Kept, type Order, readKept, writeKept } from "./address";
import { HeatMap, marksOf } from "./heatmap";
import { makeLegend } from "./legend";
import { Matrix, type Shown } from "./matrix";
import { openRank } from "./open_rank";
import { makePanel, makeVerdict } from "./panel";
import { type Opened, openReport } from "./report";
import { firstUnfolded, makeRows, type Row, visibleRows } from "./rows";

const FIGURE_NAMES: Record<Shown, string> = { peak: "Peak", floor: "Floor", reserved: "Reserved", outside: "Outside the pool", imbalance: "Imbalance" };

class RanksPage {
  private kept: Kept;
  private written = location.hash;
  private jobs: HTMLSelectElement | null = null;
  private readonly body = el("div", { class: "ranks-body" });

  constructor(private readonly opened: Opened, root: HTMLElement) {
    this.kept = readKept(location.hash, opened.report.jobs.length);
    replace(root, this.header(), this.body);
    this.showJob();
    const readAgain = () => {
      if (location.hash === this.written) return;
      this.written = location.hash;
      this.kept = readKept(location.hash, opened.report.jobs.length);
      if (this.jobs !== null) this.jobs.value = String(this.kept.job);
      this.showJob();
    };
    window.addEventListener("popstate", readAgain);
    window.addEventListener("hashchange", readAgain);
  }

  private header(): HTMLElement {
    const { jobs } = this.opened.report;
    const choices = jobs.map((job, index) => ({ value: String(index), label: job.title }));
    const made = new Date(this.opened.report.made_unix_ns / 1e6);
    if (jobs.length > 1) {
      this.jobs = select("Job", choices, String(this.kept.job), (value) => {
        Object.assign(this.kept, { job: Number(value), unfolded: null });
        this.keep();
        this.showJob();
      });
    }
    return el(
      "header",
      {},
      el("strong", { class: "name" }, "gpumemprof ranks"),
      this.jobs,
      el("span", { class: "spacer" }),
      el("span", { class: "muted" }, `as of ${made.toLocaleString()}`),
      pictureButtons(() => this.body, () => "gpumemprof-ranks"),
      el("button", { type: "button", title: "Switch between light and dark", "aria-label": "Switch between light and dark", onclick: () => this.switchTheme() }, "◐"),
    );
  }

  private switchTheme(): void {
    saveTheme(document.documentElement.dataset["theme"] === "dark" ? "light" : "dark");
    this.showJob();
  }

  /** Every change is a step of the browser's history. */
  private keep(): void {
    this.written = writeKept(this.kept);
    if (this.written !== location.hash) history.pushState(null, "", this.written);
  }

  private showJob(): void {
    const { kept } = this;
    const job = this.opened.report.jobs[kept.job]!;
    const matrix = new Matrix(job);
    const before = this.opened.report.jobs.slice(0, kept.job).reduce((sum, one) => sum + one.ranks.rank.length, 0);
    const open = (place: number) => {
      hideTooltip();
      openRank(job, place, before + place, this.opened.isServed);
    };
    document.title = visible(`${job.title} – gpumemprof`);
    if (!matrix.has(kept.shown)) kept.shown = "peak";
    const rows = makeRows(job);
    const unfolded = kept.unfolded === null ? firstUnfolded(rows) : new Set(kept.unfolded);
    const map = new HeatMap(job, matrix, {
      onRow: (row) => {
        if (row.place !== null) return open(row.place);
        if (!unfolded.delete(row.key)) unfolded.add(row.key);
        kept.unfolded = [...unfolded];
        this.keep();
        draw();
      },
    });
    const legend = el("div", {});
    const bar = el("div", { class: "bar" });
    const draw = () => {
      map.show(visibleRows(rows, unfolded, [...marksOf(job).keys()], this.orderOf(matrix)), kept.shown);
      replace(legend, makeLegend(job, matrix, kept.shown));
      replace(bar, this.metrics(matrix, draw), this.orders(draw), this.folds(rows, unfolded, draw));
    };
    const left = el("main", { class: "ranks-main" }, bar, legend, map.element);
    replace(this.body, makeVerdict(job, this.opened.report.notes), el("div", { class: "ranks-columns" }, left, makePanel(job, open)));
    draw();
    map.element.scrollTop = (history.state as { scroll?: number } | null)?.scroll ?? 0;
    map.element.addEventListener("scroll", () => history.replaceState({ scroll: map.element.scrollTop }, ""));
  }

  private metrics(matrix: Matrix, draw: () => void): HTMLElement {
    const choices = FIGURES.filter((name) => matrix.has(name)).map((value) => ({ value, label: FIGURE_NAMES[value] }));
    return segmented("Figure", choices, this.kept.shown, (shown) => {
      this.kept.shown = shown;
      this.keep();
      draw();
    });
  }

  private orders(draw: () => void): HTMLElement {
    const choices: { value: Order; label: string }[] = [
      { value: "mesh", label: "in the order of the mesh" },
      { value: "largest", label: "largest first" },
    ];
    return select("Order of rows", choices, this.kept.order, (order) => {
      this.kept.order = order;
      this.keep();
      draw();
    });
  }

  private folds(rows: Row[], unfolded: Set<string>, draw: () => void): HTMLElement | null {
    if (rows.every((row) => row.children.length === 0)) return null;
    const fold = (next: Set<string>) => {
      unfolded.clear();
      for (const key of next) unfolded.add(key);
      this.kept.unfolded = [...unfolded];
      this.keep();
      draw();
    };
    return el("button", { type: "button", onclick: () => fold(unfolded.size === 0 ? firstUnfolded(rows) : new Set()) }, unfolded.size === 0 ? "Unfold what fits" : "Fold all");
  }

  private orderOf(matrix: Matrix): (a: Row, b: Row) => number {
    if (this.kept.order === "mesh") return () => 0;
    const most = new Map<Row, number>();
    const of = (row: Row) => {
      if (!most.has(row)) most.set(row, matrix.most(this.kept.shown, row.places, 0, matrix.columns) || 0);
      return most.get(row)!;
    };
    return (a, b) => of(b) - of(a);
  }
}

async function open(): Promise<void> {
  document.documentElement.dataset["theme"] = savedTheme();
  const root = document.getElementById("app")!;
  try {
    const opened = await openReport();
    installTooltip();
    new RanksPage(opened, root);
  } catch (error) {
    replace(root, el("p", { class: "loading", role: "alert" }, (error as Error).message));
  }
}

void open();
