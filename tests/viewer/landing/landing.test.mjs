// The landing: the verdict above the timeline, in the report's words, and where its buttons lead.
import assert from "node:assert/strict";
import { test } from "node:test";
import { training } from "../recordings.mjs";
import { exact, expectExact, gpumemprof, inHash, report, settled, snapshot } from "../support.mjs";
import { suite, until } from "../suite.mjs";

const { on } = suite();
const failed = snapshot("oom_fragmented");
const trained = snapshot("gpt2_b4_fp32_adamw");
const plain = (text) => text.replace(/\s+/g, " ");

test("a run that failed says why before anything is clicked, in the words of gpumemprof report", () =>
  on(failed, "", async (page) => {
    const verdict = plain(await page.getByTestId("verdict-text").innerText());
    assert.match(verdict, /ran out of memory: /);
    assert.ok(plain(gpumemprof("report", failed)).includes(verdict), verdict);
    assert.equal(await page.locator(".verdict.bad").count(), 1);
  }));

test("a run that did not fail says its peak, in the words of gpumemprof report", () =>
  on(trained, "", async (page) => {
    const verdict = plain(await page.getByTestId("verdict-text").innerText());
    assert.match(verdict, /^cuda:0: peak .* allocated, .* reserved$/);
    assert.ok(plain(gpumemprof("report", trained)).includes(verdict), verdict);
    assert.equal(await page.locator("[data-way=failure]").count(), 0);
    assert.equal(await page.locator("[data-way=growth]").count(), 0);
  }));

// A step is a fraction of a millisecond; between two of them the program waits.
for (const [pause, axis] of [[0, "time"], [1_000_000, "events"]]) {
  test(`a run that pauses for ${pause / 1e6} s between its steps is first shown by ${axis}, so that every step has room`, () =>
    on(training(`pauses-${pause}`, { steps: 20, pause_us: pause }), "", async (page) => {
      assert.equal(await page.getByRole("button", { name: /^Axis: / }).textContent(), `Axis: ${axis}`);
      const { merged, boxes } = await page.locator(".view.timeline canvas").evaluate(({ dataset }) => dataset);
      assert.equal(Number(merged), 0);
      assert.ok(Number(boxes) >= 20, boxes);
      // By time each step of such a run has less than a pixel.
      if (pause === 0) return;
      await page.keyboard.press("t");
      await until(page, () => location.hash.includes("axis=time"));
      await settled(page);
      const narrow = await page.locator(".view.timeline canvas").evaluate(({ dataset }) => dataset);
      assert.ok(Number(narrow.merged) > 0 || Number(narrow.boxes) < Number(boxes), JSON.stringify(narrow));
    }));
}

test("the failure: the cursor goes to the request that failed, in view", () =>
  on(failed, "", async (page) => {
    const oom = report(failed).devices[0].oom_reports[0];
    await page.locator("[data-way=failure]").click();
    await expectExact(page, "cursor-where", oom.event_index + 1, "position");
    await expectExact(page, "cursor-allocated", oom.allocated_bytes);
    assert.notEqual(await inHash(page, "from"), null);
    await page.goBack();
    assert.equal(await page.evaluate(() => new URLSearchParams(location.hash.slice(1)).get("from")), null);
  }));

test("the peak: the cursor returns to it", () =>
  on(trained, "#at=10", async (page) => {
    await page.locator("[data-way=peak]").click();
    await expectExact(page, "cursor-allocated", report(trained).devices[0].peak.allocated_bytes);
  }));

test("the largest line: one click highlights the line that holds the most at the peak", () =>
  on(trained, "", async (page) => {
    await page.locator("[data-way=line]").click();
    await until(page, () => document.querySelector(".groups button[aria-pressed=true]") !== null);
    const rows = await page.locator(".groups li").evaluateAll((list) =>
      list.map((row) => ({ bytes: Number(row.dataset.bytes), isOn: row.querySelector("[aria-pressed=true]") !== null, isRest: /other/.test(row.innerText) })),
    );
    const most = Math.max(...rows.filter(({ isRest }) => !isRest).map(({ bytes }) => bytes));
    assert.equal(rows.find(({ isOn }) => isOn).bytes, most);
    assert.equal(await exact(page, "cursor-allocated"), report(trained).devices[0].peak.allocated_bytes);
    assert.equal(await inHash(page, "by"), "line");
  }));

test("the failed request is a block on top of what was allocated", () =>
  on(failed, "#axis=event", async (page) => {
    const [oom] = report(failed).devices[0].oom_reports;
    const canvas = page.locator(".view.timeline canvas");
    const share = (oom.event_index + 1.5) / (report(failed).devices[0].events + 1);
    // The colour of danger, striped over the surface, just above what was allocated and beside the mark.
    const red = await canvas.evaluate((element, at) => {
      const scale = window.devicePixelRatio;
      const context = element.getContext("2d");
      const [left, right] = [66, element.clientWidth - 12];
      const x = left + at * (right - left);
      const side = x + 88 > right ? -40 : 40;
      let count = 0;
      for (let y = 60; y < element.clientHeight - 30; y++) {
        const [r, g, b] = context.getImageData(Math.round((x + side) * scale), Math.round(y * scale), 1, 1).data;
        if (r > 200 && r - g > 15 && r - b > 15) count++;
      }
      return count;
    }, share);
    assert.ok(red > 8, `${red} pixels of the block`);
  }));

test("a run that pauses for most of its time is first shown by events, and the switch is kept in the address", async () => {
  const paused = training("paused", { steps: 6, pause_us: 50_000_000 });
  await on(paused, "", async (page) => {
    await until(page, () => document.querySelector("header .axis").textContent === "Axis: events");
    await page.locator("header .axis").click();
    await until(page, () => location.hash.includes("axis=time"));
    await page.reload();
    await until(page, () => document.querySelector("header .axis")?.textContent === "Axis: time");
  });
  await on(trained, "#axis=event", async (page) => {
    assert.equal(await page.locator("header .axis").textContent(), "Axis: events");
  });
});
