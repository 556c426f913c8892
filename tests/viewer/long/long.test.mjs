// A recording that is too long for memory: drawn from its index, every moment read when it is asked for. Here a short
// one is treated as if it were: GPUMEMPROF_WINDOW_EVENTS says how long its stretches are.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { asLong } from "./as_long.mjs";
import { complete, folder, gpumemprof, inHash, openBrowser, openPage, root, serve, stopAll } from "../support.mjs";

const RECORDING = join(root, "tests/data/traces/cpu_training.gmp");

/** Asks the server as the page does. */
const ask = (page, question) =>
  page.evaluate(async (text) => {
    const response = await fetch(`/api/${text}${text.includes("?") ? "&" : "?"}token=${sessionStorage.getItem("gpumemprof-token")}`);
    return response.json();
  }, question);

describe("a recording that is too long for memory", () => {
  let browser, server, page, whole, wholePage;
  before(async () => {
    browser = await openBrowser();
    server = await asLong(() => serve(RECORDING));
    page = await openPage(browser, server.url);
    whole = await serve(RECORDING);
    wholePage = await openPage(browser, whole.url);
  });
  after(async () => {
    await page?.close();
    await wholePage?.close();
    await server?.stop();
    await whole?.stop();
    stopAll();
    await browser.close();
  });

  it("says what it does not show at once", async () => {
    const note = await page.locator(".notes summary").textContent();
    assert.match(note, /too many to be held in memory/);
    assert.match(note, /comes from the recording's index/);
    assert.match(await page.locator(".notes").textContent(), /of every 1,024 events/);
  });

  it("has the same peak, moments and flame graphs as the whole", async () => {
    const device = "file=0&device=0";
    const { events, peak_position } = (await ask(wholePage, "meta")).files[0].devices[0];
    assert.equal((await ask(page, "meta")).files[0].devices[0].peak_position, peak_position);
    for (const position of [0, 1, Math.floor(events / 3), peak_position, events]) {
      for (const question of [`moment?${device}&position=${position}`, `flame?${device}&position=${position}&by=stack`]) {
        assert.deepEqual(await ask(page, question), await ask(wholePage, question), question);
      }
    }
  });

  it("draws the timeline and moves the cursor", async () => {
    const canvas = page.locator(".view.timeline canvas");
    assert.equal(await canvas.getAttribute("data-complete"), "true");
    const box = await canvas.boundingBox();
    await page.mouse.click(box.x + box.width * 0.6, box.y + box.height * 0.7);
    await page.waitForFunction(() => location.hash.includes("at="));
    const at = Number(await inHash(page, "at"));
    assert.ok(at > 0);
    const cursor = await ask(page, `moment?file=0&device=0&position=${at}`);
    assert.deepEqual(cursor, await ask(wholePage, `moment?file=0&device=0&position=${at}`));
  });

  it("lists what is live at the cursor, and follows an allocation to its end", async () => {
    await page.keyboard.press("4");
    await page.waitForFunction(() => document.querySelector("[data-row]") !== null);
    const scopes = await page.locator(".view.allocations button[data-value]:visible").allTextContents();
    assert.equal(scopes.length, 2, `all of a long run cannot be listed: ${scopes}`);
    await page.locator("[data-row]").first().click();
    await page.waitForSelector("[data-testid=selected]");
    const facts = await page.locator(".facts-list").textContent();
    assert.match(facts, /freed(event [\d,]+|never)/);
    assert.match(facts, /allocated(event [\d,]+|before the recording)/);
    await page.keyboard.press("1");
  });

  it("divides into lines of code where it is read from the recording", async () => {
    await page.goto(`${page.url().split("#")[0]}#by=line&axis=event&from=0.5&to=0.52`);
    await page.reload();
    await complete(page);
    const { groups } = await ask(page, "groups?file=0&device=0&by=line");
    assert.equal(groups.at(-1).is_undivided, true);
    assert.equal(groups.at(-1).label, "not divided at this zoom");
    const tile = await ask(page, "tile?file=0&device=0&by=line&axis=event&level=6&index=32");
    assert.ok(tile.groups.at(-1).every((bytes) => bytes === 0));
    assert.ok(tile.groups.flat().some((bytes) => bytes > 0));
  });

  it("has no problems on its page", () => assert.deepEqual(page.problems, []));

  it("is written to one file that says what it leaves out", async () => {
    const path = join(folder, "long.html");
    const printed = await asLong(() => gpumemprof("report", "--html", path, RECORDING));
    assert.match(printed, /Left out: .*around its peak/);
    assert.doesNotMatch(printed, /devices with lower peaks/);
    const alone = await openPage(browser, `file://${path}`);
    assert.match(await alone.locator(".notes").textContent(), /Left out of this file/);
    // Deeper than the file goes: the coarser timeline stands in.
    await alone.goto(`file://${path}#axis=event&from=0.5&to=0.5001`);
    await alone.reload();
    await complete(alone);
    assert.deepEqual(alone.problems, []);
    await alone.close();
  });

  it("grows with a recording that is still written", async () => {
    const bytes = readFileSync(RECORDING);
    const path = join(folder, "long_growing.gmp");
    writeFileSync(path, bytes.subarray(0, Math.floor(bytes.length * 0.6)));
    // The server reads it again when it has grown, so the setting stays.
    process.env.GPUMEMPROF_WINDOW_EVENTS = "100";
    const growing = await serve(path);
    delete process.env.GPUMEMPROF_WINDOW_EVENTS;
    const live = await openPage(browser, growing.url);
    const events = () => live.evaluate(() => Number(document.querySelector(".view.timeline canvas").dataset.events));
    const before = await events();
    appendFileSync(path, bytes.subarray(Math.floor(bytes.length * 0.6)));
    await live.waitForFunction((count) => Number(document.querySelector(".view.timeline canvas").dataset.events) > count, before);
    await live.waitForFunction(() => document.querySelector("[data-testid=live]").textContent === "the recording has ended");
    assert.deepEqual(live.problems, []);
    await live.close();
    await growing.stop();
  });
});
