// The address restores what was shown, and Back and Forward move through it.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { complete, expectExact, inHash, showView, snapshot, written } from "./support.mjs";
import { suite, until } from "./suite.mjs";

const { on } = suite();
const training = snapshot("gpt2_b4_fp32_adamw");

/** Everything on the page that a user set. */
const settings = (page) =>
  page.evaluate(() => ({
    view: document.querySelector("nav [aria-selected=true]").dataset.view,
    scope: document.querySelector(".allocations [aria-pressed=true]")?.dataset.value,
    sort: document.querySelector("[aria-sort=ascending], [aria-sort=descending]")?.textContent,
    highlighted: document.querySelector(".groups [aria-pressed=true] .label")?.textContent,
    by: document.querySelector(".legend select")?.value,
    search: document.querySelector("input[type=search]").value,
    first: document.querySelector("[aria-label='first moment']")?.value,
    second: document.querySelector("[aria-label='second moment']")?.value,
    compareBy: document.querySelector("[aria-label='Compare by']")?.value,
    focus: document.querySelector(".flame canvas").dataset.focus,
    zoom: document.querySelector(".segments canvas").dataset.zoom,
  }));

async function survives(page) {
  await written(page);
  const before = await settings(page);
  await page.reload();
  await complete(page);
  await page.waitForFunction((wanted) => document.querySelector("nav [aria-selected=true]")?.dataset.view === wanted, before.view);
  // Some parts are drawn later than others.
  for (let round = 0; round < 100 && !isDeepStrictEqual(await settings(page), before); round++) await page.waitForTimeout(100);
  assert.deepEqual(await settings(page), before);
  return before;
}

describe("a reload", () => {
  it("keeps grouping, highlight, scope and order of the table", () =>
    on(training, "#view=allocations", async (page) => {
      await page.locator(".legend select").selectOption("line");
      await page.locator(".groups li button").nth(2).click();
      await page.getByRole("button", { name: "Live at the cursor" }).click();
      await page.getByRole("button", { name: "Sort by lifetime" }).click();
      await page.getByRole("button", { name: "Sort by lifetime" }).click();
      const kept = await survives(page);
      assert.equal(kept.by, "line");
      assert.equal(kept.scope, "cursor");
      assert.equal(kept.sort, "Lifetime ↑");
      assert.ok(kept.highlighted.length > 3);
    }));

  it("keeps the sides that are compared", () =>
    on(training, "#view=compare&at=3000", async (page) => {
      await page.getByLabel("first moment").selectOption("3000");
      await page.getByLabel("Compare by").selectOption("stack");
      await page.getByRole("button", { name: "Swap the sides" }).click();
      const kept = await survives(page);
      assert.equal(kept.second, "3000");
      assert.equal(kept.compareBy, "stack");
    }));

  it("keeps the focus of the flame graph", () =>
    on(training, "#view=flame", async (page) => {
      await page.waitForSelector(".flame canvas[data-boxes]");
      await page.locator(".flame canvas").click({ position: { x: 60, y: 110 } });
      await until(page, () => document.querySelector(".flame canvas").dataset.focus.length > 8);
      const kept = await survives(page);
      assert.ok(kept.focus.length > 8);
    }));

  it("keeps the zoom of segments", () =>
    on(training, "#view=segments", async (page) => {
      await page.getByTestId("map-reserved").waitFor();
      await page.getByRole("button", { name: "Zoom in" }).click();
      await page.getByRole("button", { name: "Zoom in" }).click();
      assert.equal((await survives(page)).zoom, "4");
    }));
});

describe("Back and Forward", () => {
  it("move through what was shown", () =>
    on(training, "", async (page) => {
      await showView(page, "flame");
      await written(page);
      await showView(page, "allocations");
      await written(page);
      await page.getByRole("button", { name: "Live at the cursor" }).click();
      await written(page);
      await page.goBack();
      await until(page, () => document.querySelector(".allocations [aria-pressed=true]")?.dataset.value === "all");
      await page.goBack();
      await until(page, () => document.querySelector("nav [aria-selected=true]").dataset.view === "flame");
      await page.goBack();
      await until(page, () => document.querySelector("nav [aria-selected=true]").dataset.view === "timeline");
      await page.goForward();
      await until(page, () => document.querySelector("nav [aria-selected=true]").dataset.view === "flame");
    }));

  it("take a turn of the wheel as one step", () =>
    on(training, "", async (page) => {
      // Turns that follow each other at once, however busy the machine is.
      await page.locator(".view.timeline canvas").evaluate((canvas) => {
        for (let turn = 0; turn < 10; turn++) canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -200, clientX: 600, clientY: 400, bubbles: true, cancelable: true }));
      });
      await complete(page);
      assert.ok(Number(await inHash(page, "to")) < 1);
      await page.goBack();
      await until(page, () => !location.hash.includes("from="));
      await expectExact(page, "cursor-where", Number(await page.getByTestId("cursor-where").getAttribute("data-position")), "position");
    }));
});
