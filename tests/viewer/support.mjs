// What every viewer test needs: a browser, a server on a recording, the report's figures.
import { execFileSync, spawn } from "node:child_process";
import { createRequire } from "node:module";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(new URL("../../viewer/package.json", import.meta.url));
const { chromium } = require("playwright-core");

export const root = fileURLToPath(new URL("../..", import.meta.url));
export const folder = mkdtempSync(join(tmpdir(), "gpumemprof-viewer-"));
export const snapshot = (name) => join(root, "tests/data/snapshots", `${name}.pickle.gz`);
const python = process.env.GPUMEMPROF_PYTHON ?? "python3";

/** A browser with further arguments; the first may be options of Playwright. */
export async function openBrowser(...more) {
  const [options, args] = typeof more[0] === "object" ? [more[0], more.slice(1)] : [{}, more];
  return chromium.launch({ executablePath: process.env.GPUMEMPROF_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", ...args], ...options });
}

/** The output of `gpumemprof`. */
export function gpumemprof(...words) {
  return execFileSync(python, ["-m", "gpumemprof", ...words], { encoding: "utf8", maxBuffer: 1 << 28 });
}

export function runPython(program, ...words) {
  return execFileSync(python, ["-c", program, ...words], { encoding: "utf8" });
}

export const report = (file) => JSON.parse(gpumemprof("report", "--json", file));

const running = new Set();

/** Stops what failed tests left running. */
export function stopAll() {
  for (const child of running) child.kill("SIGINT");
}

/** `gpumemprof view` on some files; stop() ends it as Ctrl-C does and returns its exit code. */
export async function serve(...files) {
  const child = spawn(python, ["-m", "gpumemprof", "view", "--no-browser", ...files]);
  let printed = "";
  child.stdout.on("data", (text) => (printed += text));
  child.stderr.on("data", (text) => (printed += text));
  running.add(child);
  const ended = new Promise((resolve) => child.on("close", resolve)).finally(() => running.delete(child));
  while (!/token=\w+\n/.test(printed)) {
    await Promise.race([new Promise((resolve) => setTimeout(resolve, 20)), ended]);
    if (child.exitCode !== null) throw new Error(`gpumemprof view ended: ${printed}`);
  }
  return {
    url: printed.match(/http:\S+/)[0],
    printed: () => printed,
    stop: async () => {
      child.kill("SIGINT");
      return ended;
    },
  };
}

/** A page at an address, with everything that went wrong on it. */
export async function openPage(browser, url, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, ...options });
  page.problems = [];
  page.asked = [];
  page.setDefaultTimeout(30000);
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  page.on("pageerror", (error) => page.problems.push(error.message));
  page.on("request", (request) => page.asked.push(request.url()));
  await slowDown(page);
  await page.goto(url);
  await settled(page);
  return page;
}

/** GPUMEMPROF_THROTTLE=6: pages compute six times slower, as on a machine with other work; no test may notice. */
async function slowDown(page) {
  const rate = Number(process.env.GPUMEMPROF_THROTTLE ?? 1);
  if (rate > 1) await (await page.context().newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate });
}

/** Waits until the visible timeline is drawn from its own level of detail; one that was never drawn says nothing of it. */
export async function complete(page) {
  await page.waitForFunction(() => {
    const isSeen = (element) => element.offsetParent !== null;
    const drawings = [...document.querySelectorAll(".timeline canvas, .strip canvas")].filter(isSeen);
    if (drawings.length > 0) return drawings.every((drawing) => drawing.dataset.complete === "true");
    return [...document.querySelectorAll(".view.summary")].some((summary) => isSeen(summary) && summary.childElementCount > 0);
  });
}

/** Waits until a drawing is complete, and everything beside it is about the same moment: what is waited for says so. */
export async function settled(page) {
  await complete(page);
  await page.waitForFunction(() => [...document.querySelectorAll("[aria-busy=true]")].every((busy) => busy.offsetParent === null));
}

/** A click on the timeline, once there is something to click at; then waits until all of the page shows the new moment. */
export async function clickTimeline(page, x, y) {
  await settled(page);
  await page.mouse.click(x, y);
  await settled(page);
}

export async function showView(page, name) {
  await page.locator(`nav button[data-view=${name}]`).click();
}

/** The exact figure behind a rounded one. */
export async function exact(page, id, name = "bytes") {
  const value = await page.getByTestId(id).getAttribute(`data-${name}`);
  return Number(value);
}

/** Waits for a figure; fails with the value it has instead. */
export async function expectExact(page, id, wanted, name = "bytes") {
  await page.waitForFunction(
    ([test, attribute, value]) => document.querySelector(`[data-testid=${test}]`)?.getAttribute(`data-${attribute}`) === String(value),
    [id, name, wanted],
  ).catch(async () => {
    throw new Error(`${id} is ${await exact(page, id, name)}, not ${wanted}`);
  });
}

export const hash = (page) => page.evaluate(() => new URLSearchParams(location.hash.slice(1)));
/** Waits until the address says what is shown: a timer of the page writes it; one that starts later and takes longer ends after it. */
export const written = (page) => page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 200)));
export async function inHash(page, name) {
  await written(page);
  return page.evaluate((key) => new URLSearchParams(location.hash.slice(1)).get(key), name);
}
