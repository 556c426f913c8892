// Every view at three widths in both themes looks as its reference does (tests/viewer/visual/references).
//
// After a wanted change: GPUMEMPROF_UPDATE_PICTURES=1 node --test tests/viewer/visual/pictures.test.mjs
import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join, relative } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { JOB } from "../../../viewer/example_job.mjs";
import { folder, gpumemprof, openBrowser, openPage, root, runPython, serve, settled, snapshot, stopAll } from "../support.mjs";
import { comparer, isUpdate, stillPicture } from "./compared.mjs";

const FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
const SIZES = [[360, 740], [1280, 720], [2560, 1440]];
const THEMES = ["light", "dark"];

// Pages show file names as they were given.
process.chdir(root);
const given = (name) => relative(root, snapshot(name));
const [failed, leaking, training] = ["oom_fragmented", "leak_loss_history", "gpt2_b4_fp32_adamw"].map(given);
const VIEWS = [
  { name: "landing", files: [failed], hash: "#axis=event", wait: "[data-testid=verdict-text]" },
  { name: "timeline", files: [training], hash: "#axis=time&by=line", wait: "[data-testid=verdict-text]" },
  { name: "every-allocation", files: [leaking], hash: "#axis=event&by=allocation", wait: "[data-testid=verdict-text]" },
  { name: "flame", files: [training], hash: "#view=flame", wait: ".flame canvas[data-boxes]" },
  { name: "segments", files: [failed], hash: "#view=segments", wait: "[data-testid=map-allocated]" },
  { name: "allocations", files: [leaking], hash: "#view=allocations", wait: ".rows .row" },
  { name: "summary", files: [leaking], hash: "#view=summary", wait: "[data-testid=live-stacks]" },
  { name: "compare", files: [leaking], hash: "#view=compare", wait: ".compared" },
  { name: "steps", files: [leaking], hash: "#view=steps", wait: "[data-testid=steps]" },
  { name: "whatif", files: [training], hash: "#view=whatif&with=checkpointing&fit=24", wait: "[data-testid=together]" },
];

let browser;
let pictures;
const servers = new Map();
before(async () => {
  assert.ok(existsSync(FONT), `${FONT} is missing: tools/debian-packages viewer installs it`);
  const env = { ...process.env, FONTCONFIG_FILE: fileURLToPath(new URL("fonts.conf", import.meta.url)) };
  browser = await openBrowser({ env }, "--disable-lcd-text", "--font-render-hinting=none", "--force-color-profile=srgb", "--hide-scrollbars");
  pictures = await comparer(browser);
});
after(async () => {
  await browser.close();
  for (const server of servers.values()) await (await server).stop();
  stopAll();
});

async function open({ files, hash, wait }, colorScheme) {
  const key = files.join();
  if (!servers.has(key)) servers.set(key, serve(...files));
  const page = await openPage(browser, (await servers.get(key)).url + hash, { colorScheme, reducedMotion: "reduce", viewport: { width: 1280, height: 720 } });
  await page.locator(wait).first().waitFor();
  return page;
}

async function atSize(page, [width, height]) {
  // A window that has this size already draws nothing again: it gets another one first, and draws that. Of a few pixels
  // fewer the panel takes some, and the drawing the others.
  await page.setViewportSize({ width: width - 9, height });
  await page.waitForFunction((wanted) => innerWidth === wanted, width - 9);
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
  await page.evaluate(() => document.querySelectorAll("canvas[data-complete]").forEach((canvas) => (canvas.dataset.complete = "")));
  await page.setViewportSize({ width, height });
  if (await page.evaluate(() => document.querySelector("nav[role=tablist]") !== null)) await settled(page);
  return stillPicture(page);
}

async function sameAtAllSizes(page, name) {
  const problems = [];
  for (const size of SIZES) problems.push(await pictures.check(`${name}-${size[0]}`, await atSize(page, size)));
  assert.deepEqual(problems.filter((problem) => problem !== null), []);
}

for (const theme of THEMES) {
  for (const view of VIEWS) {
    test(`${view.name}, ${theme}`, async () => {
      const page = await open(view, theme);
      await sameAtAllSizes(page, `${view.name}-${theme}`);
      await page.close();
    });
  }

  test(`ranks, ${theme}`, async () => {
    const [job, html] = [join(folder, `job-${theme}`), join(folder, `ranks-${theme}.html`)];
    mkdirSync(job);
    runPython(JOB, join(root, "tests/python"), job);
    gpumemprof("ranks", job, "--html", html, "--force");
    const page = await browser.newPage({ colorScheme: theme, reducedMotion: "reduce", viewport: { width: 1280, height: 720 } });
    await page.goto(pathToFileURL(html).href);
    await page.waitForFunction(() => document.querySelector(".heatmap canvas")?.dataset.complete === "true");
    // When it was made is as long as the hour has digits.
    await page.evaluate(() => [...document.querySelectorAll("header span")].filter((word) => word.textContent.startsWith("as of ")).forEach((word) => (word.textContent = "as of 11/17/2026, 11:42:07 PM")));
    await sameAtAllSizes(page, `ranks-${theme}`);
    await page.close();
  });
}

/** Changes that people see, each to a page that is otherwise the same. */
const CHANGES = {
  "another colour of one button": () => (document.querySelector("[data-way=peak]").style.backgroundColor = "#e8d8f0"),
  "a button that moved by half its height": () => (document.querySelector("[data-way=help]").style.transform = "translateY(14px)"),
  "a panel that is wider": () => (document.querySelector(".panel").style.width = "350px"),
  "larger text": () => (document.querySelector("[data-testid=verdict-text]").style.fontSize = "17px"),
  "a missing row": () => document.querySelector(".groups li:last-child").remove(),
  "another colour in the drawing": () => {
    const canvas = document.querySelector(".view.timeline canvas");
    const context = canvas.getContext("2d");
    context.fillStyle = "rgb(128 128 128 / 30%)";
    context.fillRect(300, 300, 24, 24);
  },
};
for (const [what, change] of Object.entries(CHANGES)) {
  test(`${what} is noticed`, { skip: isUpdate }, async () => {
    const page = await open(VIEWS[0], "light");
    const reference = await pictures.reduced(await atSize(page, SIZES[1]));
    assert.equal((await pictures.compare(await stillPicture(page), reference)).problem, null);
    await page.evaluate(change);
    assert.match((await pictures.compare(await stillPicture(page), reference)).problem ?? "nothing", /places .* differ/);
    await page.close();
  });
}

test("what browsers draw a little differently is not", { skip: isUpdate }, async () => {
  const page = await open(VIEWS[0], "light");
  const reference = await pictures.reduced(await atSize(page, SIZES[1]));
  // Letters with other edges: blurred by a third of a pixel, and every pixel off by up to 6 of 255.
  const noisy = await page.evaluate(async (base64) => {
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    context.filter = "blur(0.35px)";
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
    let chance = 7;
    for (let at = 0; at < pixels.data.length; at++) {
      chance = (chance * 1103515245 + 12345) % 2147483648;
      if (at % 4 !== 3) pixels.data[at] += (chance % 13) - 6;
    }
    context.putImageData(pixels, 0, 0);
    return canvas.toDataURL("image/png").split(",")[1];
  }, (await stillPicture(page)).toString("base64"));
  assert.equal((await pictures.compare(Buffer.from(noisy, "base64"), reference)).problem, null);
  await page.close();
});
