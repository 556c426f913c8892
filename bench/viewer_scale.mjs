// The viewer at scale, in headless Chromium: when the first complete drawing is there, how long zoom
// and hover take, and what the server needs. PyTorch's memory_viz on the same file, if it is given.
//
// usage: node bench/viewer_scale.mjs RECORDING [--memory-viz MemoryViz.js --d3 FOLDER_WITH_NODE_MODULES]
//
// Make recordings with bench/make_snapshot.py. memory_viz loads d3 from a CDN; here it is given d3
// as npm installs it (npm install d3@7), bundled by the viewer's own esbuild. Needs npm ci in
// viewer/, Debian's chromium, and gpumemprof installed for the python3 on PATH.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";

const require = createRequire(new URL("../viewer/package.json", import.meta.url));
const { chromium } = require("playwright-core");
const python = process.env.GPUMEMPROF_PYTHON ?? "python3";
const words = process.argv.slice(2);
const option = (name) => (words.includes(name) ? words[words.indexOf(name) + 1] : null);
const file = words[0];

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const most = (values) => Math.max(...values);
const nearlyAll = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length * 0.95)];
const ms = (value) => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

function memoryOf(pid, name) {
  const line = readFileSync(`/proc/${pid}/status`, "utf8").match(new RegExp(`${name}:\\s+(\\d+)`));
  return Number(line[1]) / 1024;
}

const launch = () =>
  chromium.launch({ executablePath: process.env.GPUMEMPROF_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--enable-precise-memory-info"] });

async function startServer() {
  const began = performance.now();
  const child = spawn(python, ["-m", "gpumemprof", "view", "--no-browser", file]);
  let printed = "";
  child.stdout.on("data", (text) => (printed += text));
  child.stderr.on("data", (text) => process.stderr.write(text));
  while (!/token=\w+\n/.test(printed)) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    if (child.exitCode !== null) throw new Error("gpumemprof view ended");
  }
  return { child, url: printed.match(/http:\S+/)[0], opened: performance.now() - began };
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
  const { child, url, opened } = await startServer();
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
    console.log(`server: ready after ${(opened / 1000).toFixed(1)} s, ${memoryOf(child.pid, "VmHWM").toFixed(0)} MiB at most`);
    console.log(`first complete drawing: ${ms(firsts[0])} after the page was asked for, then ${ms(firsts[1])}, ${ms(firsts[2])}`);
    for (const action of ["detail", "zoom", "hover"]) {
      await page.keyboard.press("0");
      await page.waitForTimeout(500);
      const times = await responses(page, action, 48);
      console.log(`${action}: ${ms(median(times))} median, 95 % within ${ms(nearlyAll(times))}, ${ms(most(times))} at most, of 48`);
    }
    for (const view of ["flame", "segments", "allocations"]) {
      const times = await viewTimes(page, view);
      console.log(`${view} at another moment: ${ms(median(times))} median, ${ms(most(times))} at most, of ${times.length}`);
    }
    const heap = await page.evaluate(() => performance.memory.usedJSHeapSize / 2 ** 20);
    console.log(`page: ${heap.toFixed(0)} MiB of JavaScript heap; server ${memoryOf(child.pid, "VmHWM").toFixed(0)} MiB at most`);
  } finally {
    await browser.close();
    child.kill("SIGINT");
    await once(child, "close");
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
      const times = [];
      for (let turn = 1; turn <= 15; turn++) {
        const at = Math.floor((last * ((turn * 37) % 101)) / 101);
        const question = { flame: `flame?${device}&position=${at}&by=stack`, segments: `segments?${device}&position=${at}&by=line`, allocations: `allocations?${device}&live_at=${at}&limit=100` }[name];
        const began = performance.now();
        await (await fetch(`/api/${question}&token=${token}`)).json();
        times.push(performance.now() - began);
      }
      return times;
    },
    [view, named, events],
  );
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

console.log(`${file}: ${(statSync(file).size / 2 ** 20).toFixed(0)} MiB`);
await measureViewer();
if (option("--memory-viz") !== null) await measureMemoryViz(option("--memory-viz"), option("--d3"));
