// Every allocation, ranges, differences, and what pins segments: each with the figures of the report.
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { complete, exact, expectExact, gpumemprof, inHash, report, root, settled, snapshot } from "./support.mjs";
import { training } from "./recordings.mjs";
import { asked, suite, until } from "./suite.mjs";

const { on } = suite();
const RUN = snapshot("gpt2_b4_fp32_adamw");
const figures = report(RUN).devices[0];
const canvas = (page) => page.locator(".view.timeline canvas");
const data = async (page, name) => Number(await canvas(page).getAttribute(`data-${name}`));
const sum = (list) => list.reduce((total, value) => total + value, 0);

/** The colours in a part of the timeline. */
const pixels = (page) =>
  canvas(page).evaluate((drawn) => [...drawn.getContext("2d").getImageData(100, drawn.height / 2, drawn.width - 200, 2).data].join());

/** Drags from one place of the plot to another. */
async function drag(page, from, to) {
  const box = await canvas(page).boundingBox();
  const y = box.y + box.height / 2;
  await page.mouse.move(from, y);
  await page.mouse.down();
  await page.mouse.move((from + to) / 2, y, { steps: 3 });
  await page.mouse.move(to, y, { steps: 3 });
  await page.mouse.up();
}

describe("every allocation", () => {
  it("adds up to what is allocated, at the peak and at every zoom", () =>
    on(RUN, "#by=allocation", async (page) => {
      await page.waitForSelector(".view.timeline canvas[data-complete=true]");
      assert.equal(await data(page, "drawn-bytes"), figures.peak.allocated_bytes);
      assert.equal(await data(page, "matches"), figures.counters.allocations);
      const device = "file=0&device=0";
      for (const position of [figures.peak.event_index + 1, 900, 5000, figures.events]) {
        const { allocated_bytes } = await asked(page, `moment?${device}&position=${position}`);
        const found = await asked(page, `singles?${device}&from=${position}&to=${position + 1}&by=source&axis=event`);
        assert.equal(sum(found.size), allocated_bytes, `at ${position}`);
        assert.equal(found.matches, found.size.length);
      }
      // Zoomed in, every visible one has a band of its own.
      await page.evaluate(() => (location.hash = "by=allocation&axis=event&from=0.43&to=0.4302"));
      await until(page, () => location.hash.includes("0.43") && document.querySelector(".view.timeline canvas").dataset.complete === "true");
      const [from, to] = [Math.floor(0.43 * (figures.events + 1)), Math.ceil(0.4302 * (figures.events + 1))];
      let most = 0;
      for (let position = from; position < to; position++) most = Math.max(most, (await asked(page, `moment?${device}&position=${position}`)).allocated_bytes);
      assert.equal(await data(page, "drawn-bytes"), most);
    }));

  it("says of one its size, age, code, source and step, and a click pins it", () =>
    on(RUN, "#by=allocation&axis=event&colour=source", async (page) => {
      const [x, y] = [500, 650];
      const tooltip = page.getByRole("tooltip");
      await until(page, () => Number(document.querySelector(".view.timeline canvas").dataset.bands) > 100);
      for (let turn = 0; turn < 40; turn++) {
        await page.mouse.move(x + (turn % 2) * 0.4, y);
        await page.waitForTimeout(50);
        if ((await tooltip.isVisible()) && /click to pin/.test(await tooltip.textContent())) break;
      }
      const text = await tooltip.textContent();
      assert.match(text, /[KMG]iB/);
      assert.match(text, /events? old here/);
      assert.match(text, /case\.py:\d+/);
      assert.match(text, /optimizer state/);
      assert.match(text, /in step 1;/);
      await page.mouse.click(x, y);
      await page.getByTestId("selected").waitFor();
      const row = Number(await inHash(page, "allocation"));
      assert.equal(Number(await page.getByTestId("selected").getAttribute("data-row")), row);
      const allocation = await asked(page, `allocation?file=0&device=0&row=${row}`);
      assert.equal(await exact(page, "selected"), allocation.size);
      await page.goBack();
      await until(page, () => !location.hash.includes("allocation="));
      await page.getByTestId("selected").waitFor({ state: "detached" });
    }));

  it("has colours by source, module, line, stream and age, in light and dark, kept in the address", () =>
    on(RUN, "#by=allocation", async (page) => {
      const seen = new Set([await pixels(page)]);
      for (const colour of ["module", "line", "stream", "age"]) {
        await page.getByLabel("Colour by").selectOption(colour);
        await until(page, (value) => location.hash.includes(`colour=${value}`), colour);
        await settled(page);
        seen.add(await pixels(page));
        assert.equal(await data(page, "drawn-bytes"), figures.peak.allocated_bytes, colour);
      }
      assert.equal(seen.size, 5);
      await page.getByLabel("Switch between light and dark").click();
      await page.waitForTimeout(200);
      seen.add(await pixels(page));
      assert.equal(seen.size, 6);
      await page.reload();
      await complete(page);
      assert.equal(await page.getByLabel("Colour by").inputValue(), "age");
    }));
});

describe("a selected range", () => {
  it("of the whole run has the report's counts, and what survives is live at the end", () =>
    on(RUN, "#axis=event", async (page) => {
      await drag(page, 60, 955);
      await expectExact(page, "range-allocated", figures.counters.allocations, "blocks");
      await expectExact(page, "range-freed", figures.counters.frees, "blocks");
      await expectExact(page, "range-where", figures.events, "to");
      const allocated = await exact(page, "range-allocated");
      assert.equal(allocated - (await exact(page, "range-freed")), figures.end.allocated_bytes);
      assert.equal(await exact(page, "range-survived"), figures.end.allocated_bytes);
    }));

  it("says by line and source what was allocated, freed and survived, and where it was freed", () =>
    on(RUN, "#axis=event&range=1000-4000", async (page) => {
      await page.getByTestId("range-lines").waitFor();
      const found = await asked(page, "range?file=0&device=0&from=1000&to=4000");
      // The same from the list of allocations itself.
      const rows = [];
      for (let offset = 0; ; offset += 1000) {
        const part = await asked(page, `allocations?file=0&device=0&from=1000&to=4001&order=birth&direction=up&limit=1000&offset=${offset}`);
        part.row.forEach((_, at) => rows.push({ size: part.size[at], birth: part.birth[at], death: part.death[at] ?? Infinity, source: part.source[at] }));
        if (offset + 1000 >= part.matches) break;
      }
      const born = rows.filter(({ birth }) => birth > 1000 && birth <= 4000);
      const died = rows.filter(({ birth, death }) => birth <= 4000 && death > 1000 && death <= 4000);
      assert.equal(found.all.allocated_bytes, sum(born.map(({ size }) => size)));
      assert.equal(found.all.allocated_blocks, born.length);
      assert.equal(found.all.freed_bytes, sum(died.map(({ size }) => size)));
      assert.equal(found.all.survived_bytes, sum(born.filter(({ death }) => death > 4000).map(({ size }) => size)));
      assert.equal(found.from_bytes + found.all.allocated_bytes - found.all.freed_bytes, found.to_bytes);
      for (const list of [found.lines, found.sources]) assert.equal(sum(list.map((group) => group.allocated_bytes)), found.all.allocated_bytes);
      assert.equal(sum(found.moves.map(({ bytes }) => bytes)), found.all.freed_bytes);
      await expectExact(page, "range-allocated", found.all.allocated_bytes);
      const shown = await page.locator("[data-testid=range-sources] tr[data-label]").evaluateAll((list) => list.map((row) => [row.dataset.label, Number(row.dataset.allocated), Number(row.dataset.survived)]));
      assert.deepEqual(shown, found.sources.slice(0, 12).map((group) => [group.label, group.allocated_bytes, group.survived_bytes]));
      assert.ok((await page.locator("[data-testid=range-moves] li").count()) > 0);
    }));

  it("is made with the keyboard, kept in the address, and removed by Back and Escape", () =>
    on(RUN, "#axis=event&at=1000", async (page) => {
      await canvas(page).focus();
      await page.keyboard.press("[");
      await page.keyboard.press("p");
      await page.keyboard.press("]");
      await until(page, (peak) => location.hash.includes(`range=1000-${peak}`), figures.peak.event_index + 1);
      await expectExact(page, "range-where", 1000, "from");
      await page.goBack();
      await until(page, (peak) => !location.hash.includes(`-${peak}`), figures.peak.event_index + 1);
      await page.goForward();
      await expectExact(page, "range-where", figures.peak.event_index + 1, "to");
      await page.keyboard.press("Escape");
      await until(page, () => !location.hash.includes("range="));
      assert.equal(await page.getByTestId("range-where").count(), 0);
    }));

  it("is a flame graph of what it allocated or what survived", () =>
    on(RUN, "#axis=event&range=1000-4000", async (page) => {
      const found = await asked(page, "range?file=0&device=0&from=1000&to=4000");
      await page.getByRole("button", { name: "Survivors" }).click();
      await expectExact(page, "flame-total", found.all.survived_bytes);
      await page.getByLabel("Flame graph of").selectOption("allocated");
      await expectExact(page, "flame-total", found.all.allocated_bytes);
      assert.equal(await inHash(page, "of"), "allocated");
    }));
});

describe("shapes of the flame graph", () => {
  it("inverted: what allocated comes first, and the total stays", () =>
    on(RUN, "#view=flame&shape=inverted", async (page) => {
      await expectExact(page, "flame-total", figures.peak.allocated_bytes);
      await page.locator(".flame canvas").focus();
      await page.keyboard.press("ArrowDown");
      const text = await page.getByTestId("flame-active").textContent();
      // Not the program's outermost call, which is in every stack.
      assert.doesNotMatch(text, /<module>/);
      await page.goto(page.url().replace("shape=inverted", "shape=calls"));
    }));

  it("sandwich: all that leads to a call and all it leads to", () =>
    on(RUN, "#view=flame", async (page) => {
      const flame = await asked(page, `flame?file=0&device=0&position=${figures.peak.event_index + 1}&by=stack`);
      const frame = flame.frames.findIndex((one) => one !== null && one[0] === "_call_impl");
      const [name, file, line] = flame.frames[frame];
      const isOutermost = (node) => {
        for (let at = flame.parent[node]; at >= 0; at = flame.parent[at]) if (flame.frame[at] === frame) return false;
        return flame.frame[node] === frame;
      };
      const wanted = sum(flame.bytes.filter((_, node) => isOutermost(node)));
      await page.evaluate((key) => (location.hash = `view=flame&shape=sandwich&around=${encodeURIComponent(key)}`), `${file}:${line} ${name}`);
      await expectExact(page, "flame-around", wanted);
      assert.ok(wanted > 0 && wanted < figures.peak.allocated_bytes);
      await page.getByRole("button", { name: "Callers first" }).click();
      await until(page, () => !location.hash.includes("around="));
      await expectExact(page, "flame-total", figures.peak.allocated_bytes);
    }));
});

describe("the difference of two sides as a flame graph", () => {
  it("has the totals of two moments", () =>
    on(RUN, "#view=compare", async (page) => {
      await page.getByRole("button", { name: "Flame graph", exact: true }).last().click();
      await expectExact(page, "difference-total", figures.peak.allocated_bytes, "first");
      await expectExact(page, "difference-total", figures.end.allocated_bytes, "second");
      const drawn = page.locator(".difference canvas");
      await drawn.focus();
      await page.keyboard.press("ArrowDown");
      assert.match(await page.getByTestId("difference-active").textContent(), /from A to B · A: .* · B: /);
      await page.keyboard.press("Enter");
      await until(page, () => location.hash.includes("focus="));
      await page.goBack();
      await until(page, () => !location.hash.includes("focus="));
    }));

  it("has the totals of what two ranges allocated, as a table too", () =>
    on(RUN, "#axis=event&range=500-2000", async (page) => {
      const ranges = [];
      for (const [from, to] of [[500, 2000], [4000, 6000]]) ranges.push((await asked(page, `range?file=0&device=0&from=${from}&to=${to}`)).all.allocated_bytes);
      await page.getByRole("button", { name: "Set as A" }).click();
      assert.equal(await inHash(page, "a"), "0.0.500-2000");
      await page.evaluate(() => (location.hash = "axis=event&range=4000-6000&a=0.0.500-2000"));
      await expectExact(page, "range-where", 6000, "to");
      await page.getByRole("button", { name: "Compare with A" }).click();
      await expectExact(page, "compare-sum", ranges[0], "first");
      await expectExact(page, "compare-sum", ranges[1], "second");
      await page.locator("[aria-label='Show as'] button[data-value=flame]").click();
      await expectExact(page, "difference-total", ranges[0], "first");
      await expectExact(page, "difference-total", ranges[1], "second");
    }));
});

describe("tasks, in clicks from opening", () => {
  it("compare step 3 with step 30: 3 clicks", () => {
    const file = training("forty_steps", { steps: 40, jitter: 900 });
    return on(file, "", async (page) => {
      let clicks = 0;
      const click = async (target) => {
        clicks++;
        await target.click();
      };
      await click(page.locator("nav button[data-view=compare]"));
      await click(page.getByLabel("first step"));
      await page.keyboard.type("3");
      await page.keyboard.press("Tab");
      await page.keyboard.type("30");
      await click(page.getByRole("button", { name: "Compare steps" }));
      await until(page, () => /[#&]a=/.test(location.hash) && /[#&]b=/.test(location.hash));
      assert.equal(clicks, 3);
      const { steps } = report(file).devices[0];
      const peaks = [3, 30].map((number) => steps.find((step) => step.step === number).peak_bytes);
      await expectExact(page, "compare-sum", peaks[0], "first");
      await expectExact(page, "compare-sum", peaks[1], "second");
    });
  });

  it("who pins the largest free segment: 2 clicks", () => {
    const file = snapshot("oom_fragmented");
    return on(file, "", async (page) => {
      const { at } = report(file).devices[0];
      await page.locator("nav button[data-view=segments]").click();
      await page.getByTestId("largest-free").click();
      const [largest] = at.pins.segments.sort((a, b) => b.free_bytes - a.free_bytes);
      await expectExact(page, "largest-free", largest.free_bytes);
      await page.getByTestId("selected").waitFor();
      const stack = await page.locator("[data-testid=stack] li").allTextContents();
      assert.match(stack[0], new RegExp(`scenarios\\.py:${largest.pin_stack[0].line}`));
      await expectExact(page, "empty-cache", at.free.whole_segment_bytes);
      const lines = await page.locator(".pin-line").evaluateAll((all) => all.map((line) => [Number(line.dataset.segments), Number(line.dataset.bytes)]));
      assert.deepEqual(lines, at.pins.lines.slice(0, 4).map((line) => [line.segments, line.free_bytes]));
    });
  });
});

describe("segments", () => {
  const file = snapshot("frag_pinned_segments");

  it("over time: the reserved bytes of every sampled moment, and a click goes there", () =>
    on(file, "#view=segments&axis=event", async (page) => {
      await page.getByRole("button", { name: "Over time" }).click();
      assert.equal(await inHash(page, "history"), "on");
      const strip = page.locator(".segment-history canvas");
      await page.waitForSelector(".segment-history canvas[data-lines]");
      const { reserved, positions } = await strip.evaluate(({ dataset }) => ({ reserved: dataset.reserved.split(",").map(Number), positions: dataset.positions.split(",").map(Number) }));
      assert.equal(reserved.length, positions.length);
      for (const sample of [0, Math.floor(positions.length / 2), positions.length - 1]) {
        assert.equal(reserved[sample], (await asked(page, `moment?file=0&device=0&position=${positions[sample]}`)).reserved_bytes);
      }
      const box = await strip.boundingBox();
      await page.mouse.click(box.x + box.width - 20, box.y + 4);
      await expectExact(page, "cursor-where", positions[positions.length - 1], "position");
      await page.goBack();
      await page.goBack();
      await until(page, () => !location.hash.includes("history="));
      assert.ok(await page.locator(".segment-history").isHidden());
    }));

  it("under other settings: what the simulator says", () =>
    on(file, "#view=segments&settings=on", async (page) => {
      await page.waitForSelector("[data-testid=settings] tr[data-conf]");
      const shown = await page.locator("[data-testid=settings] tr[data-conf]").evaluateAll((rows) => rows.map((row) => [row.dataset.conf, Number(row.dataset.bytes)]));
      const confs = shown.slice(1).flatMap(([conf]) => ["--alloc-conf", conf]);
      const simulated = JSON.parse(gpumemprof("simulate", file, ...confs, "--json")).devices[0];
      assert.deepEqual(shown, simulated.runs.map((run) => [run.alloc_conf, run.peak_reserved_bytes]));
      assert.match(await page.getByTestId("settings").textContent(), /Simulated: .* equals the recording to the byte/);
    }));
});

describe("a long run", () => {
  it("adds up to its peak, read from stretches, at every zoom", async () => {
    process.env.GPUMEMPROF_WINDOW_EVENTS = "100";
    const file = join(root, "tests/data/traces/cpu_training.gmp");
    const { peak } = report(file).devices[0];
    try {
      await on(file, "#by=allocation&axis=event", async (page) => {
        assert.equal((await asked(page, "meta?x=0")).files[0].devices[0].is_long, true);
        assert.equal(await data(page, "drawn-bytes"), peak.allocated_bytes);
        const share = (peak.event_index + 1) / ((await data(page, "events")) + 1);
        const before = await data(page, "bands");
        await page.evaluate(([from, to]) => (location.hash = `by=allocation&axis=event&from=${from}&to=${to}`), [share - 0.004, share + 0.004]);
        await until(page, (count) => Number(document.querySelector(".view.timeline canvas").dataset.bands) !== count, before);
        await complete(page);
        assert.equal(await data(page, "drawn-bytes"), peak.allocated_bytes);
      });
    } finally {
      delete process.env.GPUMEMPROF_WINDOW_EVENTS;
    }
  });
});
