// A recording that a program is still writing: the page extends by itself and keeps the zoom.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { complete, folder, inHash, openBrowser, openPage, root, serve, stopAll } from "./support.mjs";

const BYTES = readFileSync(join(root, "tests/data/traces/cpu_training.gmp"));
const canvas = (page) => page.locator(".view.timeline canvas");
const events = async (page) => Number(await canvas(page).getAttribute("data-events"));

describe("a recording that grows", () => {
  let browser;
  before(async () => (browser = await openBrowser()));
  after(async () => {
    stopAll();
    await browser.close();
  });

  /** A part of a recording, the server and the page on it. */
  async function grow(name, hash, test) {
    const path = join(folder, `${name}.gmp`);
    let written = Math.floor(BYTES.length * 0.6);
    const until = (share) => BYTES.subarray(written, (written = Math.floor(BYTES.length * share)));
    writeFileSync(path, BYTES.subarray(0, written));
    const server = await serve(path);
    const page = await openPage(browser, server.url + hash);
    try {
      await test(page, (share = 1) => appendFileSync(path, until(share)));
      assert.deepEqual(page.problems, []);
    } finally {
      await page.close();
      await server.stop();
    }
  }

  const extended = (page, before) =>
    page.waitForFunction((count) => Number(document.querySelector(".view.timeline canvas").dataset.events) > count, before);

  it("says so, extends by itself, and says when it has ended", () =>
    grow("extends", "", async (page, more) => {
      more(0.7); // Just now: the page may have taken long to open.
      await page.waitForFunction(() => /recording… \(live\)/.test(document.querySelector("[data-testid=live]").textContent));
      const before = await events(page);
      more();
      await extended(page, before);
      await page.waitForFunction(() => document.querySelector("[data-testid=live]").textContent === "the recording has ended");
      await complete(page);
      // Everything was visible, so everything still is.
      assert.equal(await inHash(page, "from"), null);
    }));

  it("keeps the part of the run that the user zoomed to", () =>
    grow("zoomed", "#axis=event&from=0.25&to=0.5&at=40", async (page, more) => {
      const before = await events(page);
      more();
      await extended(page, before);
      await complete(page);
      const now = await events(page);
      const shrunk = (before + 1) / (now + 1);
      const near = (value, wanted) => assert.ok(Math.abs(value - wanted) < 1e-6, `${value} is not ${wanted}`);
      await page.waitForFunction((from) => Math.abs(Number(new URLSearchParams(location.hash.slice(1)).get("from")) - from) < 1e-6, 0.25 * shrunk);
      near(Number(await inHash(page, "to")), 0.5 * shrunk);
      assert.equal(await inHash(page, "at"), "40");
    }));
});
