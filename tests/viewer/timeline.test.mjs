// The timeline: steps at any scale, steps about a pixel wide, single allocations, failed ones.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { complete, expectExact, inHash, snapshot } from "./support.mjs";
import { training } from "./recordings.mjs";
import { suite, until } from "./suite.mjs";

const { on } = suite();
const canvas = (page) => page.locator(".view.timeline canvas");
const data = async (page, name) => Number(await canvas(page).getAttribute(`data-${name}`));

/** Where the lane of steps is. */
const laneY = async (page) => (await canvas(page).boundingBox()).y + 11;

/** Moves the mouse until a tooltip appears, as a hand would. */
async function tooltipAt(page, x, y) {
  const tooltip = page.getByRole("tooltip");
  for (let turn = 0; turn < 20; ++turn) {
    await page.mouse.move(x + (turn % 2) * 0.4, y);
    await page.waitForTimeout(30);
    if (await tooltip.isVisible()) return tooltip.textContent();
  }
  throw new Error(`no tooltip at ${x}, ${y}`);
}

describe("steps", () => {
  const STEPS = 2500;
  const long = training("long", { steps: STEPS });

  it("are all there, merged and said to be so where they are too narrow", () =>
    on(long, "#axis=event", async (page) => {
      // Each step has three phases: 10,000 spans, of which only 3,000 were once sent to the page.
      assert.equal(await data(page, "spans"), 4 * STEPS);
      assert.ok((await data(page, "merged")) > 0);
      assert.match(await tooltipAt(page, 500, await laneY(page)), /1,250 steps: step 1 to step 1250.*zoom in/);
    }));

  it("are drawn one by one when zoomed in, anywhere in the run", () =>
    on(long, "#axis=event&from=0.5&to=0.504", async (page) => {
      await complete(page);
      assert.equal(await data(page, "merged"), 0);
      // 1/250 of the run: ten steps and those at the edges.
      const spans = await data(page, "spans");
      assert.ok(spans >= 40 && spans <= 52, `${spans}`);
      assert.match(await tooltipAt(page, 500, await laneY(page)), /step 125\d/);
    }));

  it("do not count an evaluation between them", () => {
    const file = training("evaluated", { steps: 12, evaluate_every: 4 });
    return on(file, "#axis=event", async (page) => {
      const kinds = [];
      const y = await laneY(page);
      for (let x = 70; x < 948; x += 2) {
        await page.mouse.move(x, y);
        if (!(await page.getByRole("tooltip").isVisible())) continue;
        const text = await page.getByRole("tooltip").textContent();
        const kind = /^evaluation|^step \d+/.exec(text)?.[0];
        if (kind !== undefined && kind !== kinds[kinds.length - 1]) kinds.push(kind);
      }
      assert.deepEqual(kinds.slice(0, 6), ["step 1", "evaluation", "step 2", "step 3", "step 4", "step 5"]);
      assert.equal(kinds.filter((kind) => kind === "evaluation").length, 3);
    });
  });
});

describe("steps of about a pixel's width", () => {
  it("draw no waves, and their least as a band", () => {
    const file = training("waves", { steps: 947, jitter: 1 });
    return on(file, "#axis=event", async (page) => {
      const rows = await page.evaluate(() => {
        const canvas = document.querySelector(".view.timeline canvas");
        const { width, height } = canvas;
        const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
        const at = (x, y) => [...pixels.slice(4 * (y * width + x), 4 * (y * width + x) + 3)];
        const tops = [];
        const surface = at(100, 120).join();
        const floors = [];
        for (let x = 100; x < width - 40; x++) {
          let y = 130;
          while (y < height - 30 && at(x, y).join() === surface) y++;
          tops.push(y);
          // Nothing is paler below the minimum: the lowest band keeps a single colour.
          floors.push(at(x, height - 40).join());
        }
        return { tops, floors: new Set(floors).size };
      });
      const [least, most] = [Math.min(...rows.tops), Math.max(...rows.tops)];
      assert.ok(most - least <= 3, `the top of the bands lies between ${least} and ${most}`);
    });
  });
});

describe("single allocations", () => {
  it("are all drawn or counted", () =>
    on(snapshot("gpt2_b4_fp32_adamw"), "#by=allocation", async (page) => {
      await until(page, () => Number(document.querySelector(".view.timeline canvas").dataset.bands) > 300);
      const text = await page.getByTestId("allocation-bands").textContent();
      const [all, drawn, more] = text.match(/[\d,]+(?= (allocations visible|drawn|too small))/g).map((figure) => Number(figure.replace(/,/g, "")));
      assert.equal(drawn + more, all);
      assert.equal(drawn, await data(page, "bands"));
      assert.match(text, /combined by colour on top \(.*B at most\)/);
    }));

  it("keep their colour where they are narrow", () => {
    const file = training("narrow", { steps: 100, layers: 6, segment_mib: 32 });
    return on(file, "#by=allocation&axis=event", async (page) => {
      await until(page, () => Number(document.querySelector(".view.timeline canvas").dataset.bands) > 300);
      // Bands of forwards, a few pixels wide and 50 high: mostly colour, not the white of an edge.
      const white = await page.evaluate(() => {
        const canvas = document.querySelector(".view.timeline canvas");
        const { width, height } = canvas;
        const pixels = canvas.getContext("2d").getImageData(100, height - 200, width - 200, 20).data;
        let count = 0;
        for (let at = 0; at < pixels.length; at += 4) if (pixels[at] > 240 && pixels[at + 1] > 240 && pixels[at + 2] > 240) count++;
        return count / (pixels.length / 4);
      });
      assert.ok(white < 0.75, `${white}`);
    });
  });
});

describe("an allocation that failed", () => {
  const failed = training("failed", { steps: 3, oom: true });
  it("says what was requested, where, and what was free; a click goes there", () =>
    on(failed, "#axis=event", async (page) => {
      const events = await data(page, "events");
      const x = 66 + ((events + 0.5) / (events + 1)) * (960 - 66 - 12);
      const text = await tooltipAt(page, x, 400);
      assert.match(text, /Out of memory: 1\.00 GiB requested/);
      assert.match(text, /model\.py:7/);
      assert.match(text, /4\.00 MiB allocated, 64\.0 MiB reserved, 60\.0 MiB of it free/);
      await page.mouse.click(x, 400);
      // It is the last event.
      await expectExact(page, "cursor-where", events, "position");
    }));
});

describe("axes", () => {
  it("keep what is visible when time becomes events and back", () =>
    on(snapshot("gpt2_b4_fp32_adamw"), "#from=0.5&to=0.6", async (page) => {
      await complete(page);
      await page.keyboard.press("t");
      await until(page, () => location.hash.includes("axis=event"));
      const width = Number(await inHash(page, "to")) - Number(await inHash(page, "from"));
      assert.ok(width > 0 && width < 0.9);
      await complete(page);
      await page.keyboard.press("t");
      await until(page, () => !location.hash.includes("axis=event"));
      assert.ok(Math.abs(Number(await inHash(page, "from")) - 0.5) < 1e-9);
      assert.ok(Math.abs(Number(await inHash(page, "to")) - 0.6) < 1e-9);
    }));
});
