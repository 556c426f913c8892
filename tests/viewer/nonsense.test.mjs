// What a page says when its address makes no sense, or when the recording behind it is gone: a sentence, never a blank
// page, and no error that nobody sees.
import assert from "node:assert/strict";
import { copyFileSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { asLong } from "./long/as_long.mjs";
import { folder, openBrowser, openPage, root, runPython, serve, settled, snapshot, stopAll } from "./support.mjs";
import { suite, until } from "./suite.mjs";

const { on } = suite();
const TRACE = join(root, "tests/data/traces/cpu_training.gmp");

describe("an address that makes no sense", () => {
  const ADDRESSES = [
    "#%%%",
    "#view=nonsense&file=9&device=-1&axis=up&by=7&at=1e99&from=0.9&to=0.1&range=9-2&allocation=1.5&group=99&search=%E0%A4%A",
    "#file=0.5&device=NaN&at=-5&from=-1&to=2&allocation=-1&group=-1",
    "#from=0&to=1e-300",
    "#axis=time&from=0.5&to=0.50000000000001",
    "#axis=event&from=0.9999999&to=1",
    "#view=allocations&allocation=99999999&sort=%00&direction=sideways&scope=moon",
    "#view=allocations&group=15&by=line&search=size%3E%3E%3Elife%3C%3C-",
    `#view=allocations&search=${"x".repeat(20_000)}`,
    "#view=flame&flame=colour&focus=9.9.9&shape=sandwich&around=%F0%9F%92%A5",
    "#view=flame&range=0-99999999999999999999&of=survived",
    "#view=segments&zoom=1e9&history=on&settings=maybe&at=NaN",
    "#view=compare&a=0.0.99999999999&b=7.7.7&compare=colour&as=flame",
    "#view=compare&a=0.0.5-3&b=0.0.1-4&compare=module",
    "#view=steps&open=1,2,x,-3,999999999,",
    "#view=whatif&with=nonsense+checkpointing&fit=1e300",
    "#view=whatif&fit=-1",
  ];
  for (const address of ADDRESSES) {
    it(`${address.slice(0, 60)} shows a view, and no error`, () =>
      on(snapshot("leak_loss_history"), address, async (page) => {
        await settled(page);
        const shown = await page.evaluate(() => [...document.querySelectorAll("main > .view")].filter((view) => view.offsetParent !== null && view.getBoundingClientRect().height > 100).length);
        assert.equal(shown, 1);
        await page.waitForFunction(() => document.querySelector("main").innerText.trim().length > 0 || document.querySelector("main canvas[data-complete=true]") !== null);
      }));
  }
});

describe("a long recording behind an open page", () => {
  let browser;
  before(async () => (browser = await openBrowser()));
  after(async () => {
    stopAll();
    await browser.close();
  });

  /** A page on a copy that something happens to after its index was read: no moment can be read from it any more. */
  async function opened(change, name, told) {
    const path = join(folder, `${name}.gmp`);
    copyFileSync(TRACE, path);
    const server = await asLong(() => serve(path));
    change(path);
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    const problems = [];
    page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
    page.on("pageerror", (error) => problems.push(error.message));
    try {
      await page.goto(server.url);
      await page.locator(".gone").waitFor();
      // What the index knows is there.
      assert.match(await page.getByTestId("verdict-text").innerText(), /peak/);
      assert.match(await page.locator(".gone").innerText(), told);
      // Figures of the moment before are not left there as if they were of this one.
      await page.getByTestId("cursor-unknown").waitFor();
      for (const view of ["flame", "segments", "allocations", "summary", "compare", "steps", "whatif", "timeline"]) {
        await page.locator(`nav button[data-view=${view}]`).click();
        await until(page, (shown) => document.querySelector(`.view.${shown}`).offsetParent !== null, view);
        await page.waitForFunction(() => document.querySelector("main").innerText.trim() !== "" || document.querySelector("main canvas[data-complete]") !== null);
      }
      assert.equal(await page.locator(".gone").count(), 1);
      // The browser lists answers that are no success; an exception is something else.
      assert.deepEqual(problems.filter((problem) => !/^Failed to load resource/.test(problem)), []);
    } finally {
      await page.close();
      await server.stop();
    }
  }

  it("says that it was cut", () => opened((path) => truncateSync(path, Math.floor(readFileSync(path).length / 3)), "cut", /is not what its index was made of/));
  it("says that it was removed", () => opened((path) => rmSync(path), "removed", /cannot be opened|no such file|does not exist/i));
  it("says that it is another one", () => opened((path) => writeFileSync(path, Buffer.alloc(readFileSync(path).length, 7)), "other", /not a gpumemprof trace/));
});

describe("a file that is no recording", () => {
  const refused = async (path) => {
    const error = await serve(path).then(
      (server) => server.stop().then(() => assert.fail("it was opened")),
      (failure) => failure,
    );
    const said = error.message.replace(/^gpumemprof view ended: /, "").trim();
    assert.equal(said.split("\n").length, 1, said);
    assert.doesNotMatch(said, /Traceback|terminate called/);
    return said;
  };

  it("ends in one sentence in the terminal", async () => {
    const empty = join(folder, "empty.gmp");
    writeFileSync(empty, "");
    assert.match(await refused(empty), /empty\.gmp/);
    const noise = join(folder, "noise.pickle");
    writeFileSync(noise, Buffer.from(Array.from({ length: 4096 }, (_, at) => (at * 131) % 251)));
    assert.match(await refused(noise), /noise\.pickle/);
    const nothing = join(folder, "nothing_here");
    assert.match(await refused(nothing), /nothing_here/);
    const head = join(folder, "head.gmp");
    writeFileSync(head, readFileSync(TRACE).subarray(0, 9));
    assert.match(await refused(head), /head\.gmp/);
  });
});

describe("a folder of chapters", () => {
  const CHAPTERS = `
import sys, torch, gpumemprof
with gpumemprof.record(sys.argv[1], cpu=True, keep="64MiB"):
    kept = []
    for step in range(3000):
        kept.append(torch.zeros(256))
        kept = kept[-20:]
`;
  it("opens like a file, whole and as if it were long", async () => {
    const path = join(folder, "chapters.gmp");
    runPython(CHAPTERS, path);
    const check = async (page) => {
      await settled(page);
      assert.match(await page.getByTestId("verdict-text").innerText(), /peak/);
      for (const view of ["flame", "allocations", "summary", "compare", "steps", "whatif"]) await page.locator(`nav button[data-view=${view}]`).click();
      await settled(page);
    };
    await on(path, "", check);
    const server = await asLong(() => serve(path), 500);
    const browser = await openBrowser();
    const page = await openPage(browser, server.url);
    await check(page);
    assert.deepEqual(page.problems, []);
    await browser.close();
    await server.stop();
  });
});
