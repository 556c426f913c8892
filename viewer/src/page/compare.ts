// Compare: what is live at two moments, of one run or of two, side by side.

import type { Comparison, ComparedGroup, GroupBy, Working } from "../data/answers";
import { questionText } from "../data/source";
import { DifferenceFlame } from "../flame/difference";
import { el, onActivate, replace, segmented, select } from "../ui/dom";
import * as format from "../ui/format";
import { workingText } from "../ui/waiting";
import { compareRanges, RANGE_BYS, rangeLabel, StepChooser } from "./compare_sides";
import { BY_LABELS, sourceLabel, stackList } from "./panel";
import type { Side, State } from "./state";

const isSameSide = (a: Side, b: Side) => a.file === b.file && a.device === b.device && a.position === b.position && a.from === b.from;
const keyOf = ({ from, position }: Side) => (from === undefined ? String(position) : `${from}-${position}`);

export class CompareView {
  readonly element = el("section", { class: "view compare", "aria-label": "Compare" });
  private readonly bar = el("div", { class: "bar sides" });
  private readonly table = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Groups at both moments" });
  private question = "";
  private waiting = new AbortController();
  private readonly difference: DifferenceFlame;
  private readonly steps: StepChooser;

  constructor(private readonly state: State) {
    this.difference = new DifferenceFlame(state);
    this.steps = new StepChooser(state, (first, second) => state.set({ first, second, focus: null }, "compare"));
    this.element.append(this.steps.element, this.bar, this.table, this.difference.element);
    state.listen((change) => {
      if (state.view === "compare" && ["cursor", "device", "compare", "picked"].includes(change)) this.show();
      if (state.view !== "compare" && change === "view") this.giveUp();
    });
  }

  show(): void {
    void this.drawBar();
    void this.steps.show();
    this.table.hidden = this.state.isDifferenceFlame;
    this.difference.element.hidden = !this.state.isDifferenceFlame;
    if (this.isMixed) return this.sayMixed();
    if (this.state.isDifferenceFlame) {
      this.giveUpTable();
      return this.difference.show(this.first, this.second);
    }
    this.difference.giveUp();
    this.load();
  }

  /** Another view is shown: long ranges need not be read for this one. */
  private giveUp(): void {
    this.difference.giveUp();
    this.giveUpTable();
  }
  private giveUpTable(): void {
    if (this.table.dataset["busy"] === undefined) return;
    delete this.table.dataset["busy"];
    this.question = "";
    this.waiting.abort();
  }

  /** A range is compared with a range. */
  private get isMixed(): boolean {
    return (this.first.from === undefined) !== (this.second.from === undefined);
  }
  private sayMixed(): void {
    this.question = "";
    this.table.hidden = false;
    this.difference.element.hidden = true;
    replace(this.table, el("p", { class: "empty" }, "One side is a moment, the other a range: choose two of one kind."));
  }

  /** The chosen sides; by default the peak of the shown run, and another run's peak or this run's end. */
  private get first(): Side {
    return this.state.first ?? this.peakOf(this.state.file, this.state.device);
  }
  private get second(): Side {
    const { state } = this;
    if (state.second !== null) return state.second;
    const other = state.meta.files.findIndex((file, index) => index !== this.first.file && file.devices.length > 0);
    return other >= 0 ? this.peakOf(other, 0) : { file: state.file, device: state.device, position: state.current.events };
  }
  private get by(): GroupBy {
    const shared = this.sharedBys();
    return shared.find((by) => by === this.state.compareBy) ?? shared[0]!;
  }

  private sharedBys(): GroupBy[] {
    const bys = (side: Side) => this.state.meta.files[side.file]!.devices[side.device]!.group_bys;
    const shared = bys(this.first).filter((by) => bys(this.second).includes(by));
    return this.first.from === undefined ? shared : shared.filter((by) => RANGE_BYS.includes(by));
  }

  private peakOf(file: number, device: number): Side {
    const meta = this.state.meta.files[file]!.devices[device]!;
    return { file, device, position: meta.peak_position };
  }

  private async drawBar(): Promise<void> {
    const [first, second] = await Promise.all([this.sideControls("first", this.first), this.sideControls("second", this.second)]);
    replace(
      this.bar,
      el("span", { class: "side-name" }, "A"),
      ...first,
      el("button", { type: "button", title: "Swap the sides", "aria-label": "Swap the sides", onclick: () => this.swap() }, "⇄"),
      el("span", { class: "side-name" }, "B"),
      ...second,
      this.state.isDifferenceFlame ? null : select("Compare by", this.sharedBys().map((by) => ({ value: by, label: BY_LABELS[by] })), this.by, (by) => this.state.set({ compareBy: by }, "compare")),
      segmented("Show as", [{ value: "table", label: "Table" }, { value: "flame", label: "Flame graph" }], this.state.isDifferenceFlame ? "flame" : "table", (value) =>
        this.state.set({ isDifferenceFlame: value === "flame", focus: null }, "compare"),
      ),
    );
  }

  private async sideControls(name: "first" | "second", side: Side): Promise<Node[]> {
    const { state } = this;
    const controls: Node[] = [];
    const devices = state.meta.files.flatMap((file, index) =>
      file.devices.map((device, number) => ({ value: `${index}/${number}`, label: `${file.name} ${device.name}` })),
    );
    // When one side is chosen, the other stays as it was.
    const change = (next: Side) => state.set({ first: this.first, second: this.second, [name]: next }, "compare");
    if (devices.length > 1) {
      controls.push(
        select(`${name} run`, devices, `${side.file}/${side.device}`, (value) => {
          const [file, device] = value.split("/").map(Number) as [number, number];
          change(this.peakOf(file, device));
        }),
      );
    }
    const moments = await this.moments(side);
    controls.push(select(`${name} moment`, moments, keyOf(side), (value) => {
      const [from, position] = value.includes("-") ? (value.split("-").map(Number) as [number, number]) : [undefined, Number(value)];
      change({ file: side.file, device: side.device, position, ...(from === undefined ? {} : { from }) });
    }));
    return controls;
  }

  private async moments(side: Side): Promise<{ value: string; label: string }[]> {
    const { state } = this;
    const device = state.meta.files[side.file]!.devices[side.device]!;
    const overlays = await state.source.ask("overlays", { file: side.file, device: side.device });
    const named = new Map<number, string>();
    named.set(device.peak_position, "at the peak");
    overlays.ooms.slice(0, 8).forEach((oom, index) => named.set(oom.position, `out of memory ${index + 1}, event ${format.count(oom.position - 1)}`));
    named.set(device.events, "at the end");
    if (side.file === state.file && side.device === state.device && !named.has(state.cursor)) named.set(state.cursor, `at the cursor, event ${format.count(state.cursor - 1)}`);
    if (side.from === undefined && !named.has(side.position)) named.set(side.position, `event ${format.count(side.position - 1)}`);
    const comparable = state.source.comparable(side.file, side.device);
    const moments = [...named]
      .filter(([position]) => comparable === null || comparable.includes(position) || state.isDifferenceFlame)
      .map(([position, label]) => ({ value: String(position), label }));
    const isShown = side.file === state.file && side.device === state.device;
    const ranges = [side, isShown && state.picked !== null ? { from: state.picked.from, position: state.picked.to } : side].flatMap(({ from, position }) =>
      from === undefined ? [] : [{ value: `${from}-${position}`, label: rangeLabel({ from, position }) }],
    );
    return [...moments, ...ranges.filter(({ value }, index) => ranges.findIndex((other) => other.value === value) === index)];
  }

  private swap(): void {
    this.state.set({ first: this.second, second: this.first }, "compare");
  }

  private load(): void {
    const [a, b] = [this.first, this.second];
    const asked = { file: a.file, device: a.device, position: a.position, file2: b.file, device2: b.device, position2: b.position, by: this.by };
    const question = `${questionText("compare", asked)} ${a.from} ${b.from}`;
    if (question === this.question) return;
    this.question = question;
    const before = this.waiting;
    const { signal } = (this.waiting = new AbortController());
    const onProgress = (working: Working) => question === this.question && (this.table.dataset["busy"] = workingText(working));
    const answered = a.from === undefined ? this.state.source.ask("compare", asked) : compareRanges(this.state, a, b, this.by, { signal, onProgress });
    // Not before the new questions: what both ask goes on.
    before.abort();
    const shown = (show: () => void) => {
      if (question !== this.question) return;
      delete this.table.dataset["busy"];
      show();
    };
    void answered.then(
      (answer) => shown(() => this.draw(answer)),
      (error: Error) => shown(() => replace(this.table, el("p", { class: "empty" }, error.message))),
    );
  }

  private draw(answer: Comparison): void {
    const most = answer.groups.reduce((widest, group) => Math.max(widest, group.first_bytes, group.second_bytes), 1);
    const head = el(
      "tr",
      {},
      el("th", { class: "number" }, "A"),
      el("th", { class: "number" }, "B"),
      el("th", { class: "number" }, "B − A"),
      el("th", { class: "bars" }, "A (top), B (bottom)"),
      el("th", {}, BY_LABELS[this.by]),
    );
    const sum = el(
      "tr",
      { class: "sum", "data-testid": "compare-sum", "data-first": answer.first_bytes, "data-second": answer.second_bytes },
      el("td", { class: "number" }, format.bytes(answer.first_bytes)),
      el("td", { class: "number" }, format.bytes(answer.second_bytes)),
      el("td", { class: "number" }, format.signedBytes(answer.second_bytes - answer.first_bytes)),
      el("td", { class: "bars" }),
      el("td", {}, this.first.from === undefined ? "total allocated" : "total allocated in the range"),
    );
    replace(
      this.table,
      isSameSide(this.first, this.second) ? el("p", { class: "empty", "data-testid": "same-sides" }, "Both sides are the same moment: choose another one for A or B.") : null,
      answer.first_bytes + answer.second_bytes === 0 ? el("p", { class: "empty" }, "Nothing is allocated at either moment.") : null,
      el("table", { class: "compared" }, el("thead", {}, head), el("tbody", {}, sum, ...answer.groups.flatMap((group) => this.rows(group, most)))),
      answer.groups_left_out === 0 ? null : el("p", { class: "muted" }, `${format.counted(answer.groups_left_out, "more group")} with smaller differences`),
    );
  }

  private rows(group: ComparedGroup, most: number): Node[] {
    const difference = group.second_bytes - group.first_bytes;
    const bar = (bytes: number, name: string) => {
      const line = el("i", { class: bytes === 0 ? `${name} none` : name });
      line.style.width = `${(100 * bytes) / most}%`;
      return line;
    };
    const row = el(
      "tr",
      { "data-first": group.first_bytes, "data-second": group.second_bytes },
      el("td", { class: "number" }, group.first_bytes === 0 ? "–" : format.bytes(group.first_bytes)),
      el("td", { class: "number" }, group.second_bytes === 0 ? "–" : format.bytes(group.second_bytes)),
      el("td", { class: `number ${difference > 0 ? "more" : difference < 0 ? "less" : "muted"}` }, difference === 0 ? "0" : format.signedBytes(difference)),
      el("td", { class: "bars" }, bar(group.first_bytes, "first"), bar(group.second_bytes, "second")),
      el("td", { class: "what", title: group.label }, this.by === "source" ? sourceLabel(group.label) : format.shortPlace(group.label)),
    );
    if (group.frames === undefined) return [row];
    const detail = el("tr", { class: "detail", hidden: true }, el("td", { colspan: 5 }, stackList(group.frames)));
    row.classList.add("opens");
    row.tabIndex = 0;
    row.setAttribute("aria-expanded", "false");
    const toggle = () => {
      detail.hidden = !detail.hidden;
      row.setAttribute("aria-expanded", String(!detail.hidden));
    };
    row.addEventListener("click", toggle);
    onActivate(row, toggle);
    return [row, detail];
  }
}
