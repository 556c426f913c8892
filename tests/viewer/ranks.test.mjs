// The page about all ranks: as a file, and served, where a click opens the recording of a rank.
import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { seriousFindings } from "./axe.mjs";
import { VISIONS, lab, linear, seen } from "./colour.mjs";
import { load } from "./sources.mjs";
import { folder, gpumemprof, openBrowser, root, serve, stopAll } from "./support.mjs";

const { SHARE_LIGHT, SHARE_DARK, DIFFERENCE_LIGHT, DIFFERENCE_DARK, ramp } = await load("ranks/scale.ts");
const { makeRows, firstUnfolded, labelsWithRoom, visibleRows } = await load("ranks/rows.ts");
const { quoted } = await load("ranks/open_rank.ts");
const { nearestWords } = await load("ranks/report.ts");
const { median } = await load("ranks/matrix.ts");

const summaries = join(root, "tests/data/ranks");
const trace = (name) => join(root, "tests/data/traces", name);

/** The lightness of each step along a ramp, as one kind of vision sees it. */
function lightness(colors, vision) {
  const table = ramp(colors, 32);
  return Array.from({ length: 32 }, (_, step) => {
    const hex = `#${[0, 1, 2].map((part) => table[step * 3 + part].toString(16).padStart(2, "0")).join("")}`;
    return lab(seen(linear(hex), vision))[0];
  });
}

describe("the colours of the heat map", () => {
  for (const vision of VISIONS) {
    it(`only get darker or only lighter for ${vision} vision`, () => {
      for (const [colors, sign] of [[SHARE_LIGHT, -1], [SHARE_DARK, 1]]) {
        const light = lightness(colors, vision);
        light.slice(1).forEach((now, at) => assert.ok(sign * (now - light[at]) > 0.5, `${colors[0]}: step ${at + 1}`));
      }
    });
    it(`get further from the middle on both sides for ${vision} vision`, () => {
      for (const [colors, sign] of [[DIFFERENCE_LIGHT, -1], [DIFFERENCE_DARK, 1]]) {
        const light = lightness(colors, vision);
        light.slice(17).forEach((now, at) => assert.ok(sign * (now - light[at + 16]) > 0, `step ${at + 17}`));
        light.slice(1, 16).forEach((now, at) => assert.ok(sign * (now - light[at]) < 0, `step ${at + 1}`));
      }
    });
  }
});

/** A job of a mesh pp × dp. */
function made(stages, replicas) {
  const ranks = Array.from({ length: stages * replicas }, (_, rank) => rank);
  return {
    dimensions: ["pp"],
    groups: Array.from({ length: stages }, (_, stage) => ({ name: `pp ${stage}`, coordinates: [stage] })),
    ranks: { rank: ranks, name: ranks.map((rank) => `rank ${rank}`), group: ranks.map((rank) => Math.floor(rank / replicas)) },
  };
}
const inOrder = () => 0;

describe("the rows", () => {
  it("are all ranks where they fit a screen", () => {
    const rows = makeRows(made(4, 8));
    assert.equal(visibleRows(rows, firstUnfolded(rows), [], inOrder).length, 4 + 32);
  });
  it("are groups where the ranks do not fit, with the marked ranks below them", () => {
    const rows = makeRows(made(64, 256));
    const shown = visibleRows(rows, firstUnfolded(rows), [300], inOrder);
    assert.equal(shown.length, 64 + 1);
    assert.equal(shown[2].place, 300);
  });
  it("are ranges of ranks where a group is large", () => {
    const job = made(1, 16384);
    const rows = makeRows(job);
    assert.ok(rows.length <= 64);
    assert.equal(rows.flatMap((row) => row.places).length, 16384);
    assert.equal(rows[0].label, "ranks 0 to 255");
  });
  it("are ranks where a group has only one", () => {
    const rows = makeRows(made(4, 1));
    assert.deepEqual(rows.map((row) => row.place), [0, 1, 2, 3]);
  });
  it("name every stage where rows are lower than text, also above marked ranks", () => {
    const job = made(64, 256);
    job.dimensions = ["pp", "tp"];
    job.groups = job.groups.map((_, group) => ({ name: `pp ${group >> 3} · tp ${group & 7}`, coordinates: [group >> 3, group & 7] }));
    const rows = makeRows(job);
    const symbolsOf = { 1: "●", 2050: "▲", 2051: "✕▲", 16383: "↗" };
    const shown = visibleRows(rows, new Set(rows.slice(2).map(({ key }) => key)), Object.keys(symbolsOf).map(Number), inOrder);
    const labels = shown.map((row, at) => ({ row, y: at * 7, symbols: symbolsOf[row.place] ?? "" }));
    const named = labelsWithRoom(labels, 11);
    const headings = named.filter(({ row }) => row.place === null && row.depth === 0);
    assert.deepEqual(headings.map(({ row }) => row.label), rows.map(({ label }) => label));
    for (const [at, one] of named.entries()) for (const other of named.slice(at + 1)) assert.ok(Math.abs(one.y - other.y) >= 11);
    const said = named.map(({ symbols }) => symbols).join("");
    for (const symbol of "●▲✕↗") assert.ok(said.includes(symbol), symbol);
  });
  it("can be unfolded one by one", () => {
    const rows = makeRows(made(64, 256));
    assert.equal(visibleRows(rows, new Set([rows[3].key]), [], inOrder).length, 64 + 256);
  });
});

describe("the marked rank with the largest peak", () => {
  it("is near a limit only where its card is known", () => {
    const words = (headroom) => nearestWords({ marks: { nearest: 1 }, ranks: { headroom_bytes: [5, headroom] } });
    assert.equal(words(null), "largest peak");
    assert.equal(words(0), "nearest to its limit");
  });
});

describe("what is typed in a shell", () => {
  it("is one word, whatever the path", () => {
    assert.equal(quoted("runs/job.rank3.gmp"), "runs/job.rank3.gmp");
    assert.equal(quoted("a b'c.gmp"), `'a b'"'"'c.gmp'`);
  });
  it("has a median like the report's", () => {
    assert.equal(median([4, 1, 9]), 4);
    assert.equal(median([4, 1, 9, 6]), 5);
  });
});

describe("the page", () => {
  let browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(async () => {
    await browser.close();
    stopAll();
  });

  async function open(url, options = {}) {
    const page = await browser.newPage({ viewport: { width: 1400, height: 900 }, ...options });
    page.problems = [];
    page.asked = [];
    page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
    page.on("pageerror", (error) => page.problems.push(error.message));
    page.on("request", (request) => page.asked.push(request.url()));
    page.setDefaultTimeout(30000);
    await page.goto(url);
    await page.waitForFunction(() => document.querySelector(".heatmap canvas")?.dataset.complete === "true");
    return page;
  }

  /** A written page about the ranks of the test data. */
  function written() {
    const out = join(folder, "ranks.html");
    gpumemprof("ranks", summaries, "--html", out, "--force");
    return `file://${out}`;
  }

  /** The middle of a row; -1 is in the names on the left, 0 to 1 along the steps. */
  async function point(page, row, share) {
    const box = await page.locator(".heatmap canvas").boundingBox();
    const gutter = Math.min(230, Math.max(110, box.width * 0.24));
    return { x: share < 0 ? box.x + 40 : box.x + gutter + share * (box.width - gutter - 4), y: box.y + 22 + row * 22 + 11 };
  }

  it("says what the text report says, and asks nobody", async () => {
    const page = await open(written());
    const job = JSON.parse(gpumemprof("ranks", "--json", summaries)).jobs[0];
    const text = gpumemprof("ranks", summaries).replace(/\s+/g, " ");
    for (const said of await page.locator(".verdict p:not(.note), .ranks-panel section:nth-of-type(2) p").allTextContents()) assert.ok(text.includes(said), said);
    assert.match(await page.getByTestId("verdict").textContent(), new RegExp(`rank ${job.nearest_rank} `));
    assert.match(await page.getByTestId("worst").textContent(), /model\.py:88 forward/);
    assert.deepEqual(page.problems, []);
    assert.ok(page.asked.every((url) => url.startsWith("file:") || url.startsWith("data:")), page.asked.join());
    await page.close();
  });

  it("tells what is under the mouse", async () => {
    const page = await open(written());
    const { x, y } = await point(page, 8, 0.99); // rank 6, after the rows of its group
    await page.mouse.move(x, y);
    const told = await page.locator(".tooltip").innerText();
    for (const part of [/rank 6 /, /node0 · cuda:/, /step 12/, /peak: 5\.76 GiB \(72\.0 % of 8\.00 GiB\)/, /floor: not known/, /retries in the whole run: 0/, /\+1\.86 GiB/, /an outlier/, /failed first/]) assert.match(told, part);
    await page.close();
  });

  it("shows how to open a rank, and that its recording is elsewhere", async () => {
    const page = await open(written());
    const { x, y } = await point(page, 8, 0.5);
    await page.mouse.click(x, y);
    assert.match(await page.locator("dialog").innerText(), /Only the summary of this rank is here/);
    await page.keyboard.press("Escape");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.close();
  });

  it("folds and unfolds groups, and remembers it after a reload", async () => {
    const page = await open(written());
    const { x, y } = await point(page, 0, -1);
    await page.mouse.click(x, y);
    // Rank 0 is marked, so it stays: the row below it is the next group.
    const next = await point(page, 2, -1);
    await page.mouse.move(next.x, next.y);
    assert.match(await page.locator(".tooltip").innerText(), /^pp 1: 4 ranks/);
    await page.reload();
    await page.waitForFunction(() => document.querySelector(".heatmap canvas")?.dataset.complete === "true");
    await page.mouse.move(next.x, next.y + 1);
    assert.match(await page.locator(".tooltip").innerText(), /^pp 1: 4 ranks/);
    await page.close();
  });

  it("has what is shown in its address, and Back and Forward move through it", async () => {
    const page = await open(written());
    await page.locator("button[data-value=imbalance]").click();
    await page.locator("select[aria-label='Order of rows']").selectOption("largest");
    await page.getByRole("button", { name: "Fold all" }).click();
    const shared = page.url();
    const shown = (at) => at.evaluate(() => ({ figure: document.querySelector(".segmented [aria-pressed=true]").dataset.value, order: document.querySelector("[aria-label='Order of rows']").value, isFolded: [...document.querySelectorAll("button")].some((button) => button.textContent === "Unfold what fits") }));
    const wanted = { figure: "imbalance", order: "largest", isFolded: true };
    assert.deepEqual(await shown(page), wanted);
    const other = await open(shared);
    assert.deepEqual(await shown(other), wanted);
    await other.close();
    await page.goBack();
    await page.waitForFunction(() => [...document.querySelectorAll("button")].some((button) => button.textContent === "Fold all"));
    assert.deepEqual(await shown(page), { ...wanted, isFolded: false });
    await page.goBack();
    await page.waitForFunction(() => document.querySelector("[aria-label='Order of rows']").value === "mesh");
    await page.goForward();
    await page.waitForFunction(() => document.querySelector("[aria-label='Order of rows']").value === "largest");
    for (const nonsense of ["#figure=colour&order=up&job=7&open=,,x9", "#%%%"]) {
      const strange = await open(page.url().replace(/#.*/, "") + nonsense);
      assert.deepEqual({ ...(await shown(strange)), isFolded: null }, { figure: "peak", order: "mesh", isFolded: null });
      assert.deepEqual(strange.problems, []);
      await strange.close();
    }
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  it("is saved as PNG and SVG, with its names as text", async () => {
    const page = await open(written());
    const saved = async (kind) => {
      const [download] = await Promise.all([page.waitForEvent("download"), page.locator(`[data-save=${kind}]`).click()]);
      assert.equal(download.suggestedFilename(), `gpumemprof-ranks.${kind}`);
      return readFileSync(await download.path());
    };
    const box = await page.locator(".ranks-body").boundingBox();
    const png = await saved("png");
    assert.deepEqual([png.readUInt32BE(16), png.readUInt32BE(20)], [Math.round(box.width), Math.round(box.height)]);
    const svg = (await saved("svg")).toString("utf8");
    assert.match(svg, /<text [^>]*>[^<]*rank 6\b/);
    assert.match(svg, /<image [^>]*image-rendering="pixelated"/);
    // It opens by itself, and its cells have the colours of the page.
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
    }, svg);
    assert.ok(colours > 20, `${colours} colours`);
    // Nothing in it breaks the page's own policy.
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  it("has no serious finding of axe-core, narrow or wide, light or dark", async () => {
    for (const [width, colorScheme] of [[360, "light"], [1280, "dark"], [3840, "light"], [3840, "dark"]]) {
      const page = await open(written(), { viewport: { width, height: width === 3840 ? 2160 : 760 }, colorScheme });
      assert.deepEqual(await seriousFindings(page), [], `${width} ${colorScheme}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), `${width}`);
      await page.close();
    }
  });

  it("shows another figure, another order, and both themes", async () => {
    const page = await open(written());
    const shot = () => page.locator(".heatmap canvas").screenshot();
    const shots = [await shot()];
    await page.locator("button[data-value=imbalance]").click();
    shots.push(await shot());
    await page.locator("select[aria-label='Order of rows']").selectOption("largest");
    shots.push(await shot());
    await page.locator("button[aria-label='Switch between light and dark']").click();
    shots.push(await shot());
    for (let at = 1; at < shots.length; at++) assert.ok(!shots[at].equals(shots[at - 1]), `change ${at}`);
    assert.deepEqual(page.problems, []);
    await page.close();
  });

  it("can be used with the keyboard", async () => {
    const page = await open(written());
    await page.locator(".heatmap canvas").focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
    assert.match(await page.locator(".tooltip").innerText(), /rank 0 /);
    await page.keyboard.press("Enter");
    assert.equal(await page.locator("dialog").count(), 1);
    await page.close();
  });

  it("fits narrow windows", async () => {
    const page = await open(written(), { viewport: { width: 420, height: 800 } });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
    await page.close();
  });

  describe("from the server", () => {
    const ranks = join(folder, "ranks");
    before(() => {
      mkdirSync(ranks, { recursive: true });
      copyFileSync(trace("cpu_training.gmp"), join(ranks, "first.gmp"));
      copyFileSync(trace("everything.gmp"), join(ranks, "second.gmp"));
      copyFileSync(join(root, "tests/data/oom/oom_limit.gmp"), join(ranks, "third.gmp"));
    });

    it("opens the recording of a rank, and goes back", async () => {
      const server = await serve(ranks);
      const page = await open(server.url);
      assert.ok(!page.url().includes("token"), page.url());
      const { x, y } = await point(page, 0, 0.5); // the newest program
      await page.mouse.click(x, y);
      await page.waitForURL(/\/rank\/\d\//);
      await page.waitForSelector("nav button[data-view=flame]");
      assert.match(await page.title(), /(first|second|third)\.gmp/);
      await page.goBack();
      await page.waitForFunction(() => document.querySelector(".heatmap canvas")?.dataset.complete === "true");
      assert.deepEqual(page.problems, []);
      await page.close();
      assert.equal(await server.stop(), 0);
    });

    it("returns by a link of the viewer", async () => {
      const server = await serve(ranks);
      const page = await open(server.url);
      const { x, y } = await point(page, 0, 0.5); // the newest program
      await page.mouse.click(x, y);
      await page.locator("a.all-ranks").click();
      await page.waitForFunction(() => document.querySelector(".heatmap canvas")?.dataset.complete === "true");
      assert.deepEqual(page.problems, []);
      await page.close();
      await server.stop();
    });

    it("sends nothing without the token", async () => {
      const server = await serve(ranks);
      const base = server.url.replace(/\?.*/, "");
      for (const path of ["api/ranks", "rank/0/api/state", "rank/0/api/meta"]) assert.equal((await fetch(base + path)).status, 403, path);
      const shell = await (await fetch(base)).text();
      assert.ok(shell.includes("gpumemprof ranks") && !shell.includes("first.gmp"));
      await server.stop();
    });
  });

  it("is small, also for many ranks", () => {
    written();
    assert.ok(statSync(join(folder, "ranks.html")).size < 200_000);
    assert.ok(readFileSync(join(folder, "ranks.html"), "utf8").includes('data-section="ranks"'));
  });
});
