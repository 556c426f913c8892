// Any view as a PNG and an SVG file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { settled, snapshot } from "../support.mjs";
import { suite } from "../suite.mjs";

const { on } = suite();
const file = snapshot("leak_loss_history");

async function saved(page, kind) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-save=${kind}]`).click()]);
  return { name: download.suggestedFilename(), content: readFileSync(await download.path()) };
}

for (const view of ["timeline", "flame", "segments", "allocations", "summary", "compare", "steps", "whatif"]) {
  test(`${view}: a PNG of what is shown, and an SVG with its text`, () =>
    on(file, `#view=${view}`, async (page) => {
      await settled(page);
      const box = await page.locator("main").boundingBox();
      const png = await saved(page, "png");
      assert.equal(png.name, `gpumemprof-${view}.png`);
      assert.deepEqual([...png.content.subarray(1, 4)], [..."PNG"].map((letter) => letter.charCodeAt(0)));
      assert.deepEqual([png.content.readUInt32BE(16), png.content.readUInt32BE(20)], [Math.round(box.width), Math.round(box.height)]);
      const svg = await saved(page, "svg");
      assert.equal(svg.name, `gpumemprof-${view}.svg`);
      // It opens by itself, and is not empty: not one colour all over.
      const colours = await page.evaluate(async (text) => {
        const image = new Image();
        image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
        await image.decode();
        const canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [image.width, image.height];
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
        const found = new Set();
        for (let at = 0; at < data.length; at += 4) found.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
        return found.size;
      }, svg.content.toString("utf8"));
      assert.ok(colours > 20, `${colours} colours`);
    }));
}
