// The viewer at scale, in headless Chromium: when the first complete drawing is there, how long zoom
// and hover take, and what the server needs. PyTorch's memory_viz on the same file, if it is given.
//
// usage: node bench/viewer_scale.mjs RECORDING [--memory-viz MemoryViz.js --d3 FOLDER_WITH_NODE_MODULES]
//                                              [--json OUT] [--gpumemprof PROGRAM]
//
// Ends with each bar of a recording of this length, its figure, and pass or FAIL (exit code 1).
//
// "cpu" is the time that the server's thread spent on an answer, as the server itself says; it means
// something on a busy machine too. A recording longer than a few million events is indexed when it is
// opened first: that run says how long it took, the next one how long opening takes with the index.
//
// Make recordings with bench/make_snapshot.py, long ones with build/bench/make_long_run. memory_viz loads d3 from a CDN; here it is given d3
// as npm installs it (npm install d3@7), bundled by the viewer's own esbuild. Needs npm ci in
// viewer/, Debian's chromium, and gpumemprof installed for the python3 on PATH.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";

const require = createRequire(new URL("../viewer/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const python = process.env.GPUMEMPROF_PYTHON ?? "python3";
const figures = {};
const words = process.argv.slice(2);
const option = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : null);
const file = words[0];
// Another build than the installed one: a program that takes the same arguments.
const command = option("--gpumemprof") === null ? [python, "-m", "gpumemprof"] : [option("--gpumemprof")];

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const most = (values) => Math.max(...values);
const nearlyAll = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.95)];
/** Bars for a recording of some length: what is measured, the most it may be, and the figure. */
const bars = [];
const bar = (what, figure, most, unit) => bars.push({ what, figure, most, unit });
const ms = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

function memoryOf(pid, name) {
  const line = readFileSync(`/proc/${pid}/status`, "utf8").match(new RegExp(`${name}:\\s+(\\d+)`));
  return Number(line[1]) / 1024;
}

/** Of the whole process until now, user and system. */
function cpuSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const launch = () =>
  chromium.launch({ executablePath: process.env.GPUMEMPROF_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--enable-precise-memory-info"] });

async function startServer() {
  const began = performance.now();
  const child = spawn(command[0], [...command.slice(1), "view", "--no-browser", file]);
  let printed = "";
  child.stdout.on("data", (text) => (printed += text));
  child.stderr.on("data", (text) => process.stderr.write(text));
  while (!/token=\w+\n/.test(printed)) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    if (child.exitCode !== null) throw new Error("gpumemprof view ended");
  }
  const opened = performance.now() - began;
  return { child, url: printed.match(/http:\S+/)[0], opened, openedCpu: cpuSeconds(child.pid) };
}

/** From an action to the frame that shows its effect ("zoom": from what is there; "detail": all of it). */
function responses(page, action, turns) {
  return page.evaluate(
    async ([name, count]) => {
      const canvas = document.querySelector(".view.timeline canvas");
      const box = canvas.getBoundingClientRect();
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const times = [];
      for (let turn = 0; turn < count; turn++) {
        const x = box.left + box.width * (0.3 + (0.4 * ((turn * 7) % 10)) / 10);
        const y = box.top + box.height * (0.5 + 0.4 * ((turn % 5) / 5));
        const began = performance.now();
        if (name === "hover") {
          document.querySelector(".tooltip").hidden = true;
          canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
          while (document.querySelector(".tooltip").hidden && performance.now() - began < 1000) await frame();
        } else {
          const deltaY = turn % 12 < 8 ? -100 : 150;
          canvas.dataset.complete = "";
          canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: x, clientY: y, bubbles: true, cancelable: true }));
          do await frame();
          while ((name === "zoom" ? canvas.dataset.complete === "" : canvas.dataset.complete !== "true") && performance.now() - began < 5000);
        }
        times.push(performance.now() - began);
        await frame();
      }
      return times;
    },
    [action, turns],
  );
}

async function measureViewer() {
  const { child, url, opened, openedCpu } = await startServer();
  const browser = await launch();
  try {
    const firsts = [];
    let page;
    for (let turn = 0; turn < 3; turn++) {
      await page?.close();
      page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
      await page.goto(url);
      await page.waitForFunction(() => performance.getEntriesByName("complete").length > 0, null, { timeout: 120_000 });
      firsts.push(await page.evaluate(() => performance.getEntriesByName("complete")[0].startTime));
    }
    figures.open = { seconds: opened / 1000, cpu_seconds: openedCpu, first_complete_ms: firsts };
    console.log(`server: ready after ${(opened / 1000).toFixed(1)} s (${openedCpu.toFixed(1)} s of CPU), ${memoryOf(child.pid, "VmHWM").toFixed(0)} MiB at most`);
    console.log(`first complete drawing: ${ms(firsts[0])} after the page was asked for, then ${ms(firsts[1])}, ${ms(firsts[2])}`);
    for (const action of ["detail", "zoom", "hover"]) {
      await page.keyboard.press("0");
      await page.waitForTimeout(500);
      const times = await responses(page, action, 48);
      figures[action] = { median_ms: median(times), p95_ms: nearlyAll(times), most_ms: most(times) };
      console.log(`${action}: ${ms(median(times))} median, 95 % within ${ms(nearlyAll(times))}, ${ms(most(times))} at most, of 48`);
    }
    await measureGroupings(page);
    await measureSingles(page);
    for (const view of ["flame", "segments", "allocations"]) {
      const { times, cpu } = await viewTimes(page, view);
      figures[view] = { median_ms: median(times), most_ms: most(times), median_cpu_ms: median(cpu), most_cpu_ms: most(cpu) };
      console.log(`${view} at another moment: ${ms(median(times))} median, ${ms(most(times))} at most, of ${times.length}; cpu ${ms(median(cpu))} median, ${ms(most(cpu))} at most`);
    }
    for (const [axis, found] of Object.entries(await tileTimes(page))) {
      figures[`tiles ${axis}`] = found;
      for (const { level, cpu, wall } of found) console.log(`tile on the axis of ${axis}, level ${level}: cpu ${ms(cpu[0])} first, ${ms(cpu[1])} again; ${ms(wall[0])} and ${ms(wall[1])}`);
    }
    await measureRanges(page, child.pid);
    await measureWhatIf(page, child.pid);
    const heap = await page.evaluate(() => performance.memory.usedJSHeapSize / 2 ** 20);
    figures.events = await page.evaluate(async () => {
      const meta = await (await fetch(`/api/meta?token=${sessionStorage.getItem("gpumemprof-token")}`)).json();
      return meta.files[0].devices[0].events;
    });
    figures.memory = { page_mib: heap, server_mib: memoryOf(child.pid, "VmHWM") };
    console.log(`page: ${heap.toFixed(0)} MiB of JavaScript heap; server ${memoryOf(child.pid, "VmHWM").toFixed(0)} MiB at most`);
  } finally {
    await browser.close();
    child.kill("SIGINT");
    await once(child, "close");
  }
}

/** The processor time that the page's main thread used during something, in ms: on a busy machine it says more than a clock. */
async function cpuOfPage(page, body) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const spent = async () => (await session.send("Performance.getMetrics")).metrics.find(({ name }) => name === "TaskDuration").value * 1000;
  const before = await spent();
  const result = await body();
  const cpu = (await spent()) - before;
  await session.detach();
  return { result, cpu };
}

const complete = (page) => page.waitForFunction(() => document.querySelector(".view.timeline canvas").dataset.complete === "true", null, { timeout: 120_000 });

/** Every grouping, twice: until it is drawn, and the longest time for which the page did not answer meanwhile. */
async function measureGroupings(page) {
  await page.keyboard.press("0");
  await complete(page);
  const groupings = await page.locator("[aria-label='Group by'] option").evaluateAll((all) => all.map((option) => option.value));
  for (const by of [...groupings, ...groupings]) {
    const { result: found, cpu } = await cpuOfPage(page, () => page.evaluate(async (value) => {
      const canvas = document.querySelector(".view.timeline canvas");
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const select = document.querySelector("[aria-label='Group by']");
      let longest = 0;
      const observer = new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => (longest = Math.max(longest, duration))));
      observer.observe({ entryTypes: ["longtask"] });
      const began = performance.now();
      canvas.dataset.complete = "";
      select.value = value;
      select.dispatchEvent(new Event("change"));
      do await frame();
      while (canvas.dataset.complete !== "true" && performance.now() - began < 30_000);
      const took = performance.now() - began;
      await new Promise((resolve) => setTimeout(resolve, 100));
      observer.disconnect();
      return { took, longest };
    }, by));
    (figures.groupings ??= []).push({ by, cpu, ...found });
    console.log(`grouping by ${by}: drawn after ${ms(found.took)}, cpu of the page ${ms(cpu)}; longest task of the page ${found.longest === 0 ? "below 50 ms" : ms(found.longest)}`);
  }
}

const LONGEST_RANGE_MS = 60_000;

/** Ranges of growing length: until the page says something of it, until it says what survived, and until it says all; longer ones are stopped. */
async function measureRanges(page, pid) {
  await page.keyboard.press("0");
  await complete(page);
  const events = Number(await page.locator(".view.timeline canvas").getAttribute("data-events"));
  figures.ranges = [];
  for (const width of [1e4, 1e5, 1e6, 1e7, 1e8, 1e9].filter((one) => one < events)) {
    for (const place of [0.2, 0.6]) {
      const from = Math.floor((events - width) * place);
      const before = cpuSeconds(pid);
      const found = await page.evaluate(
        async ([first, last, limit]) => {
          const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
          const panel = document.querySelector("[data-testid=range]");
          const times = { said: null, survived: null, all: null, longest: 0 };
          const observer = new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => (times.longest = Math.max(times.longest, duration))));
          observer.observe({ entryTypes: ["longtask"] });
          const began = performance.now();
          const words = new URLSearchParams(location.hash.slice(1));
          words.set("range", `${first}-${last}`);
          location.hash = words.toString();
          const now = () => performance.now() - began;
          const isOf = () => panel.querySelector("[data-testid=range-where]")?.dataset.to === String(last);
          do {
            await frame();
            if (times.said === null && (isOf() || panel.querySelector("[data-testid=range-working]") !== null)) times.said = now();
            if (times.survived === null && isOf()) times.survived = now();
            if (isOf() && panel.getAttribute("aria-busy") !== "true") times.all = now();
          } while (times.all === null && now() < limit);
          if (times.all === null) [...panel.querySelectorAll("button")].find((button) => button.textContent === "Stop")?.click();
          await new Promise((resolve) => setTimeout(resolve, 100));
          observer.disconnect();
          return times;
        },
        [from, from + width, LONGEST_RANGE_MS],
      );
      figures.ranges.push({ width, ...found });
      const after = (time) => (time === null ? `not within ${LONGEST_RANGE_MS / 1000} s` : ms(time));
      console.log(`range of ${width.toLocaleString("en")} events: something said after ${after(found.said)}, what survived ${after(found.survived)}, all ${after(found.all)}; server's cpu ${(cpuSeconds(pid) - before).toFixed(2)} s; longest task of the page ${found.longest === 0 ? "below 50 ms" : ms(found.longest)}`);
    }
  }
  await page.keyboard.press("Escape");
}

/** From the click on What if until the remedies are listed, and a set of two until it is drawn. */
async function measureWhatIf(page, pid) {
  const before = cpuSeconds(pid);
  const began = performance.now();
  await page.locator("nav button[data-view=whatif]").click();
  await page.locator("[data-testid=remedies], [data-testid=no-advice]").first().waitFor({ timeout: 300_000 });
  figures["what if"] = { listed_ms: performance.now() - began, server_cpu_s: cpuSeconds(pid) - before };
  const part = (await page.getByTestId("whatif-part").count()) > 0 ? await page.getByTestId("whatif-part").innerText() : "";
  console.log(`what if: listed after ${ms(performance.now() - began)}, ${(cpuSeconds(pid) - before).toFixed(1)} s of the server's CPU; server ${memoryOf(pid, "VmHWM").toFixed(0)} MiB at most. ${part}`);
  await page.locator("nav button[data-view=timeline]").click();
}

/** Zooming among single allocations: until something is drawn, until all detail is there; and what the server needs. */
async function measureSingles(page) {
  await page.getByLabel("Group by").selectOption("allocation");
  await complete(page);
  for (const action of ["zoom", "detail"]) {
    await page.keyboard.press("0");
    await page.waitForTimeout(500);
    await complete(page);
    const { result: times, cpu } = await cpuOfPage(page, () => responses(page, action, 48));
    figures[`singles ${action}`] = { median_ms: median(times), p95_ms: nearlyAll(times), most_ms: most(times), page_cpu_ms: cpu / 48 };
    console.log(`single allocations, ${action}: cpu of the page ${ms(cpu / 48)} each; ${ms(median(times))} median, 95 % within ${ms(nearlyAll(times))}, ${ms(most(times))} at most, of 48`);
  }
  const found = await page.evaluate(async () => {
    const token = sessionStorage.getItem("gpumemprof-token");
    const { events, group_bys, peak_bytes } = (await (await fetch(`/api/meta?token=${token}`)).json()).files[0].devices[0];
    const all = [];
    for (let zoom = 1; zoom <= events / 200; zoom *= 8) {
      const [width, cpu, wall] = [Math.floor(events / zoom), [], []];
      const from = Math.floor((events - width) * 0.4);
      let bands = 0;
      for (let turn = 0; turn < 2; turn++) {
        const began = performance.now();
        const response = await fetch(`/api/singles?file=0&device=0&from=${from}&to=${from + width}&by=${group_bys[0]}&axis=event&least_bytes=${Math.floor((0.75 * peak_bytes) / 550)}&least_length=${Math.floor((1.5 * width) / 880)}&most=6000&token=${token}`);
        bands = (await response.json()).row.length;
        wall.push(performance.now() - began);
        cpu.push(Number(response.headers.get("server-timing")?.match(/dur=([\d.]+)/)?.[1] ?? 0));
      }
      all.push({ width, bands, cpu, wall });
    }
    return all;
  });
  figures.singles = found;
  for (const { width, bands, cpu, wall } of found) {
    console.log(`single allocations of ${width} events: ${bands} bands, cpu ${ms(cpu[0])} first, ${ms(cpu[1])} again; ${ms(wall[0])} and ${ms(wall[1])}`);
  }
}

/** From a click on the small timeline to the answer for that moment. */
async function viewTimes(page, view) {
  await page.locator(`nav button[data-view=${view}]`).click();
  await page.waitForTimeout(500);
  const { named, events } = await page.evaluate(async () => {
    const token = sessionStorage.getItem("gpumemprof-token");
    const meta = await (await fetch(`/api/meta?token=${token}`)).json();
    return { named: "file=0&device=0", events: meta.files[0].devices[0].events };
  });
  return page.evaluate(
    async ([name, device, last]) => {
      const token = sessionStorage.getItem("gpumemprof-token");
      const [times, cpu] = [[], []];
      for (let turn = 1; turn <= 15; turn++) {
        const at = Math.floor((last * ((turn * 37) % 101)) / 101);
        const question = { flame: `flame?${device}&position=${at}&by=stack`, segments: `segments?${device}&position=${at}&by=line`, allocations: `allocations?${device}&live_at=${at}&limit=100` }[name];
        const began = performance.now();
        const response = await fetch(`/api/${question}&token=${token}`);
        await response.json();
        times.push(performance.now() - began);
        cpu.push(Number(response.headers.get("server-timing")?.match(/dur=([\d.]+)/)?.[1] ?? 0));
      }
      return { times, cpu };
    },
    [view, named, events],
  );
}

/** One tile of every second level, each twice: what is read for it stays open. */
function tileTimes(page) {
  return page.evaluate(async () => {
    const token = sessionStorage.getItem("gpumemprof-token");
    const { deepest_level: deepest, group_bys } = (await (await fetch(`/api/meta?token=${token}`)).json()).files[0].devices[0];
    const found = { event: [], time: [] };
    for (const axis of ["event", "time"]) {
      for (let level = 0; level <= deepest; level += 2) {
        const index = Math.floor(2 ** level * (0.1 + (0.37 * level) % 0.8));
        const [cpu, wall] = [[], []];
        for (let turn = 0; turn < 2; turn++) {
          const began = performance.now();
          const response = await fetch(`/api/tile?file=0&device=0&by=${group_bys[0]}&axis=${axis}&level=${level}&index=${index}&token=${token}`);
          await response.json();
          wall.push(performance.now() - began);
          cpu.push(Number(response.headers.get("server-timing")?.match(/dur=([\d.]+)/)?.[1] ?? 0));
        }
        found[axis].push({ level, cpu, wall });
      }
    }
    return found;
  });
}

/** What the viewer has to reach at this length, on a machine with two cores that has nothing else to do. */
function judge(events) {
  const isLong = events > 10_000_000;
  const isEndless = events > 500_000_000;
  if (isLong) bar("open, until the first complete drawing", figures.open.seconds + figures.open.first_complete_ms[0] / 1000, isEndless ? 5 : 10, "s");
  else bar("first complete drawing, the slowest of three", most(figures.open.first_complete_ms), 1000, "ms");
  bar("zoom, 95 % within", figures.zoom.p95_ms, 50, "ms");
  bar("hover, 95 % within", figures.hover.p95_ms, 50, "ms");
  if (isEndless) bar("zoom, until what is read from the recording is drawn, 95 % within", figures.detail.p95_ms, 400, "ms");
  if (!isLong) {
    bar("regrouping, the slowest until it is drawn", most(figures.groupings.map(({ took }) => took)), 300, "ms");
    bar("regrouping, the longest task of the page", most(figures.groupings.map(({ longest }) => longest)), 50, "ms");
  }
  bar("single allocations, zoom, 95 % within", figures["singles zoom"].p95_ms, isLong ? 100 : 50, "ms");
  bar("server's memory at most", figures.memory.server_mib, 1024, "MiB");
  console.log(`\nbars for ${events.toLocaleString("en")} events:`);
  for (const { what, figure, most: limit, unit } of bars) {
    console.log(`${figure <= limit ? "pass" : "FAIL"}  ${what}: ${figure === 0 ? `below ${limit}` : figure.toFixed(figure < 20 ? 1 : 0)} ${unit} (bar ${limit} ${unit})`);
  }
  figures.bars = bars.map((one) => ({ ...one, is_met: one.figure <= one.most }));
  if (bars.some(({ figure, most: limit }) => figure > limit)) process.exitCode = 1;
}

/** memory_viz as PyTorch's own page uses it, the snapshot served instead of written into the page. */
async function measureMemoryViz(script, d3Folder) {
  const { build } = require("esbuild");
  const bundled = await build({ stdin: { contents: 'export * from "d3"', resolveDir: d3Folder }, bundle: true, write: false, format: "esm", minify: true });
  const d3 = bundled.outputFiles[0].text;
  // Its own modules lie beside it; whatever comes from a CDN is d3.
  const source = (name) => readFileSync(join(dirname(script), name), "utf8").replace(/(from\s+["'])https?:[^"']+(["'])/g, "$1/d3.js$2");
  const html = `<!doctype html><body><script type="module">
import {add_local_files} from "/${basename(script)}";
const blob = await (await fetch("/snapshot")).blob();
const reader = new FileReader();
await new Promise((resolve) => { reader.onload = resolve; reader.readAsDataURL(blob); });
const base64 = reader.result.slice(reader.result.indexOf(",") + 1);
add_local_files([{name: "snapshot.pickle", base64}], "Active Memory Timeline");
</script>`;
  const answers = { "/": ["text/html", html], "/d3.js": ["text/javascript", d3] };
  const server = createServer((request, response) => {
    if (request.url === "/snapshot") {
      response.writeHead(200, { "content-length": statSync(file).size });
      createReadStream(file).pipe(response);
    } else {
      const [type, body] = answers[request.url] ?? (request.url.endsWith(".js") ? ["text/javascript", source(basename(request.url))] : ["text/plain", ""]);
      response.writeHead(200, { "content-type": type });
      response.end(body);
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const browser = await launch();
  try {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    page.setDefaultTimeout(300_000);
    page.on("pageerror", (error) => console.log(`memory_viz: ${error.message}`));
    const began = performance.now();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await page.waitForSelector("svg path, svg polygon", { state: "attached" });
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));
    console.log(`memory_viz: drawn after ${((performance.now() - began) / 1000).toFixed(1)} s`);
    const times = await page.evaluate(async () => {
      const target = document.querySelector("svg");
      const box = target.getBoundingClientRect();
      const under = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2) ?? target;
      const found = [];
      for (let turn = 0; turn < 3; turn++) {
        const start = performance.now();
        under.dispatchEvent(new WheelEvent("wheel", { deltaY: -300, clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, cancelable: true }));
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        found.push(performance.now() - start);
      }
      return found;
    });
    console.log(`memory_viz: zoom ${times.map((time) => `${(time / 1000).toFixed(1)} s`).join(", ")}`);
  } finally {
    await browser.close();
    server.close();
  }
}

figures.file = { path: file, mib: statSync(file).size / 2 ** 20 };
console.log(`${file}: ${(statSync(file).size / 2 ** 20).toFixed(0)} MiB`);
await measureViewer();
judge(figures.events);
if (option("--memory-viz") !== null) await measureMemoryViz(option("--memory-viz"), option("--d3"));
if (option("--json") !== null) writeFileSync(option("--json"), `${JSON.stringify(figures, null, 1)}\n`);
