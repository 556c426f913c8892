// Drawings in SVG files: real shapes and text, as many as the view draws, that look as the view does.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { load } from "../sources.mjs";
import { settled, snapshot } from "../support.mjs";
import { suite } from "../suite.mjs";

const { on } = suite();
const file = snapshot("leak_loss_history");

async function savedSvg(page) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator("[data-save=svg]").click()]);
  return readFileSync(await download.path(), "utf8");
}

const countOf = (text, pattern) => [...text.matchAll(pattern)].length;
const VIEWS = { "#axis=event": 10, "#axis=event&by=allocation": 30, "#view=flame": 20, "#view=segments": 20, "#view=compare&as=flame": 5, "#view=whatif&with=checkpointing": 10 };

for (const [hash, least] of Object.entries(VIEWS)) {
  test(`${hash}: shapes and text, no image`, () =>
    on(file, hash, async (page) => {
      await settled(page);
      const svg = await savedSvg(page);
      assert.equal(countOf(svg, /<im(g|age)\b/g), 0);
      assert.ok(countOf(svg, /<(path|rect)\b/g) >= least, `${countOf(svg, /<(path|rect)\b/g)} shapes`);
      assert.ok(countOf(svg, /<text\b/g) >= 3);
      // It opens, and has no names that are defined twice.
      const names = [...svg.matchAll(/ id="(g\d+-[^"]+)"/g)].map(([, name]) => name);
      assert.equal(new Set(names).size, names.length);
      for (const [, used] of svg.matchAll(/url\(#(g[^)]+)\)/g)) assert.ok(names.includes(used), used);
      const size = await page.evaluate(async (text) => {
        const image = new Image();
        image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
        await image.decode();
        return [image.width, image.height];
      }, svg);
      const box = await page.locator("main").boundingBox();
      assert.deepEqual(size, [Math.round(box.width), Math.round(box.height)]);
    }));
}

test("the shapes look as the canvas does", () =>
  on(file, "#axis=event", async (page) => {
    await settled(page);
    const canvas = await page.locator(".view.timeline canvas").evaluate((element) => ({ width: element.width, height: element.height }));
    const svg = (await savedSvg(page)).match(new RegExp(`<svg [^>]*viewBox="0 0 ${canvas.width} ${canvas.height}".*?</svg>`, "s"))[0];
    // Of tiles of 16 by 16 pixels, the share whose mean colour differs by more than antialiasing does.
    const share = await page.evaluate(async (text) => {
      const shown = document.querySelector(".view.timeline canvas");
      const image = new Image();
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
      await image.decode();
      const drawn = document.createElement("canvas");
      [drawn.width, drawn.height] = [shown.width, shown.height];
      drawn.getContext("2d").drawImage(image, 0, 0);
      const means = (canvas) => {
        const small = document.createElement("canvas");
        [small.width, small.height] = [Math.floor(canvas.width / 16), Math.floor(canvas.height / 16)];
        const context = small.getContext("2d");
        context.imageSmoothingQuality = "high";
        context.fillStyle = "#fff";
        context.fillRect(0, 0, small.width, small.height);
        context.drawImage(canvas, 0, 0, small.width, small.height);
        return context.getImageData(0, 0, small.width, small.height).data;
      };
      const [one, two] = [means(shown), means(drawn)];
      let other = 0;
      for (let at = 0; at < one.length; at += 4) if ([0, 1, 2].some((part) => Math.abs(one[at + part] - two[at + part]) > 24)) other++;
      return other / (one.length / 4);
    }, svg);
    assert.ok(share < 0.02, `${share} of the drawing differs`);
  }));

test("every box of the flame graph is a shape", () =>
  on(file, "#view=flame", async (page) => {
    await settled(page);
    const boxes = Number(await page.locator(".flame canvas").getAttribute("data-boxes"));
    const svg = await savedSvg(page);
    assert.ok(countOf(svg, /<rect\b/g) >= boxes, `${countOf(svg, /<rect\b/g)} of ${boxes}`);
  }));

test("too many shapes are refused, so that the file says that it is a picture", async () => {
  globalThis.document ??= { createElement: () => ({ getContext: () => ({ measureText: () => ({ width: 1 }) }) }) };
  const { VectorContext } = await load("ui/vectors.ts");
  const vectors = new VectorContext(100, 100);
  for (let at = 0; at < 20_000; at++) vectors.fillRect(at, 0, 1, 1);
  assert.equal(vectors.isTooMuch, false);
  vectors.fillRect(0, 0, 1, 1);
  assert.equal(vectors.isTooMuch, true);
});

test("text from a recording stays text", async () => {
  globalThis.document ??= { createElement: () => ({ getContext: () => ({ measureText: () => ({ width: 1 }) }) }) };
  const { VectorContext } = await load("ui/vectors.ts");
  const vectors = new VectorContext(100, 100);
  vectors.fillText('</text><script>alert(1)</script>&"', 1, 2);
  vectors.fillStyle = '"/><script>';
  vectors.fillRect(0, 0, 1, 1);
  assert.ok(!vectors.svg().includes("<script"));
  assert.ok(vectors.svg().includes("&lt;/text&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;&quot;"));
});
