// Recordings that lack something: the page says what, and shows nothing as 0 that is not known.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { small } from "../recordings.mjs";
import { expectExact, gpumemprof, inHash, openBrowser, report, root, serve, settled, showView, snapshot } from "../support.mjs";
import { asked, suite, until } from "../suite.mjs";

const { on } = suite();
const MIB = 2 ** 20;
const PYTHON = [["forward", "/train/model.py", 7], ["main", "/train/main.py", 3]];
const ALLOCATOR = [["c10::cuda::CUDACachingAllocator::malloc(unsigned long)", "??", 0], ["at::detail::empty_cuda()", "EmptyTensor.cpp", 0]];
const ENGINE = [["torch::autograd::Engine::thread_main()", "/pytorch/torch/csrc/autograd/engine.cpp", 10], ["start_thread", "libc.so.6", 0]];

test("a failure: what would help begins with what the report advises for it", () => {
  const file = snapshot("oom_fragmented");
  return on(file, "", async (page) => {
    await page.locator("[data-way=help]").click();
    const card = page.getByTestId("failure-remedy");
    await card.waitFor();
    const text = await card.innerText();
    assert.match(text, /With expandable_segments:True, the same run gets past this request/);
    assert.match(text, /export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True/);
    const said = gpumemprof("report", file).replace(/\s+/g, " ");
    assert.ok(said.includes("With expandable_segments:True, the same run gets past this request"));
  });
});

test("a run that did not fail has no advice for a failure", () =>
  on(snapshot("leak_loss_history"), "#view=whatif", async (page) => {
    await page.getByTestId("remedies").waitFor();
    assert.equal(await page.getByTestId("failure-remedy").count(), 0);
  }));

test("a snapshot without history: no moment is called its peak, and what it did not count is unknown", () => {
  const file = small("no_history", [[2, PYTHON]], { history: false });
  return on(file, "", async (page) => {
    assert.match(await page.locator(".panel").innerText(), /When the snapshot was taken\s+no history was recorded/);
    assert.equal(await page.locator("[data-way=peak]").count(), 0);
    await page.locator("[data-way=line]").waitFor();
    // One note is a sentence, not a list to open.
    assert.match(await page.locator(".notes p").innerText(), /has no history/);
    assert.equal(await page.locator(".notes details").count(), 0);
    await showView(page, "flame");
    await page.getByTestId("flame-total").waitFor();
    assert.equal(await page.getByRole("button", { name: "At the peak" }).count(), 0);
    await showView(page, "summary");
    await page.getByTestId("summary-ooms").waitFor();
    assert.equal(report(file).devices[0].counters.ooms, null);
    assert.equal(await page.getByTestId("summary-ooms").innerText(), "unknown");
    assert.ok(!(await page.locator(".view.summary").innerText()).includes("Counters"));
    await showView(page, "compare");
    await page.getByTestId("same-sides").waitFor();
    await showView(page, "whatif");
    await page.getByTestId("no-advice").waitFor();
    assert.match(await page.getByTestId("no-advice").innerText(), /\.$/);
  });
});

test("a run without steps is one row, called the whole run", () =>
  on(snapshot("oom_fragmented"), "#view=steps", async (page) => {
    await page.getByTestId("steps").waitFor();
    assert.deepEqual(await page.locator("[data-testid=steps] tbody th button.link").allInnerTexts(), ["the whole run"]);
  }));

test("a recording of nothing says so, and what to do", async () => {
  const file = small("nothing", [], { history: false, empty: true });
  const [server, browser] = await Promise.all([serve(file), openBrowser()]);
  const page = await browser.newPage();
  await page.goto(server.url);
  const said = page.getByRole("alert");
  await said.waitFor();
  assert.match(await said.innerText(), /contains no memory of any device: .*gpumemprof run/);
  await browser.close();
  await server.stop();
});

test("CPU memory: no figures of segments, which there are not", () =>
  on(join(root, "tests/data/traces/cpu_training.gmp"), "#view=segments", async (page) => {
    await page.getByRole("img", { name: "CPU memory comes straight from the C library: there are no segments." }).waitFor();
    assert.equal(await page.getByTestId("map-allocated").isVisible(), false);
    assert.equal(await page.getByTestId("pins").isVisible(), false);
  }));

test("stacks with native frames: lines are those of the report", () => {
  const file = small("native", [[2, [...ALLOCATOR, ...PYTHON]], [4, [...ALLOCATOR, ...ENGINE]], [8, PYTHON], [16, ENGINE], [32, []]]);
  return on(file, "#by=line", async (page) => {
    const said = gpumemprof("report", file);
    assert.match(said, /52\.0 MiB +3 +no Python stack/);
    assert.match(said, /10\.0 MiB +2 +model\.py:7 forward/);
    await until(page, () => document.querySelectorAll(".groups li").length === 2);
    const rows = await page.locator(".groups [data-bytes]").evaluateAll((all) => all.map((row) => [row.querySelector(".label").textContent, Number(row.dataset.bytes)]));
    assert.deepEqual(rows, [["no Python stack", 52 * MIB], ["model.py:7 forward", 10 * MIB]]);
    const { groups } = await asked(page, "compare?file=0&device=0&position=0&file2=0&device2=0&position2=6&by=line");
    assert.deepEqual(groups.map(({ label, second_bytes: bytes }) => [label, bytes]), rows);
    // The allocator's own frames are in every stack: no line is named by them.
    const { lines } = await asked(page, "range?file=0&device=0&from=0&to=6");
    assert.equal(lines.find(({ label }) => label.startsWith("model.py")).allocated_bytes, 10 * MIB);
    assert.ok(lines.every(({ label }) => !label.includes("→")), JSON.stringify(lines));
    await showView(page, "summary");
    await page.getByTestId("live-stacks").waitFor();
    assert.match(await page.getByTestId("live-stacks").innerText(), /2\.00 MiB\s+train\/model\.py:7 forward/);
  });
});

test("a name that would fill pages is shortened, with its whole in a tooltip", () => {
  const file = small("named", [[2, [["x".repeat(5000), "/train/a.py", 1]]]]);
  return on(file, "#view=summary", async (page) => {
    const cell = page.locator("[data-testid=live-stacks] td").last();
    assert.ok((await cell.innerText()).length < 300);
    assert.ok((await cell.getAttribute("title")).length > 5000);
  });
});

test("a range at the edges has an event, and is kept in the address", () =>
  on(snapshot("leak_loss_history"), "#axis=event", async (page) => {
    const { events } = (await asked(page, "meta?x=0")).files[0].devices[0];
    for (const [key, at, wanted] of [["[", events, `${events - 1}-${events}`], ["]", 0, "0-1"]]) {
      await page.evaluate((position) => (location.hash = `axis=event&at=${position}`), at);
      await expectExact(page, "cursor-where", at, "position");
      await page.keyboard.press(key);
      await page.getByTestId("range-where").waitFor();
      assert.equal(await inHash(page, "range"), wanted);
      await page.reload();
      await settled(page);
      await page.getByTestId("range-where").waitFor();
    }
  }));

test("a range in which nothing happens says so", () =>
  on(small("still", [[2, PYTHON], [2, PYTHON]]), "#axis=event&range=0-1", async (page) => {
    await page.getByTestId("range-nothing").waitFor();
    assert.equal(await page.getByTestId("range-lines").count(), 0);
  }));

test("a finger that scrolls selects nothing", () =>
  on(snapshot("leak_loss_history"), "#axis=event", async (page) => {
    await page.locator(".view.timeline canvas").evaluate((canvas) => {
      const box = canvas.getBoundingClientRect();
      const send = (type, x) => canvas.dispatchEvent(new PointerEvent(type, { pointerId: 1, clientX: box.left + x, clientY: box.top + 100, bubbles: true }));
      canvas.setPointerCapture = () => undefined;
      send("pointerdown", 100);
      send("pointermove", 200);
      send("pointercancel", 200);
      send("pointermove", 400);
      send("pointerup", 400);
    });
    assert.equal(await inHash(page, "range"), null);
  }));

test("headings of pools are whole in a narrow window", () =>
  on(snapshot("cudagraph"), "#view=segments", async (page) => {
    await page.getByTestId("map-allocated").waitFor();
    // Every text that is drawn again ends within the canvas.
    await page.evaluate(() => {
      window.drawn = [];
      const { fillText } = CanvasRenderingContext2D.prototype;
      CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        if (this.canvas.closest(".view.segments .scroll") !== null) window.drawn.push([text, x + this.measureText(text).width, this.canvas.clientWidth]);
        fillText.call(this, text, x, y);
      };
    });
    await page.getByRole("button", { name: "Zoom in" }).click();
    await until(page, () => window.drawn.length > 2);
    const drawn = await page.evaluate(() => window.drawn);
    assert.deepEqual(drawn.filter(([, right, width]) => right > width), []);
    assert.match(drawn.map(([text]) => text).join(" "), /large blocks, default stream: 32\.0 MiB in 1 segment\b/);
  }, { viewport: { width: 360, height: 740 } }));

test("a comparison offers the range that is selected now", () =>
  on(snapshot("leak_loss_history"), "#view=compare&axis=event&range=40-200", async (page) => {
    const offered = () => page.getByLabel("first moment").locator("option").allInnerTexts();
    await until(page, () => /from event 40 to 199/.test(document.querySelector("[aria-label='first moment']")?.textContent ?? ""));
    const strip = await page.locator(".strip canvas").boundingBox();
    await page.mouse.move(strip.x + strip.width * 0.3, strip.y + 30);
    await page.mouse.down();
    await page.mouse.move(strip.x + strip.width * 0.6, strip.y + 30, { steps: 3 });
    await page.mouse.up();
    await until(page, () => !/from event 40 to 199/.test(document.querySelector("[aria-label='first moment']")?.textContent ?? ""));
    assert.ok((await offered()).some((text) => /^allocated from event /.test(text)));
  }));
