// The screenshots of docs/viewer.md, from the recording that ships with the package and the
// training runs of the tests. usage: node viewer/screenshots.mjs [FOLDER] [light|dark]
import { mkdirSync } from "node:fs";
import { join, relative, resolve } from "node:path";
import { complete, openBrowser, openPage, root, serve, showView, snapshot, stopAll } from "../tests/viewer/support.mjs";

const folder = resolve(process.argv[2] ?? join(root, "docs/images"));
const colorScheme = process.argv[3] ?? "light";
mkdirSync(folder, { recursive: true });

// Pages show file names as they were given: do not show where this checkout is.
process.chdir(root);
const demo = "python/gpumemprof/data/demo.pickle.gz";
const training = relative(root, snapshot("gpt2_b4_fp32_adamw"));
const browser = await openBrowser("--disable-lcd-text"); // greyscale text makes smaller files

async function shoot(files, name, hash, prepare = async () => {}, height = 720) {
  const server = await serve(...files);
  const page = await openPage(browser, server.url + hash, { colorScheme, viewport: { width: 1280, height } });
  await prepare(page);
  await complete(page);
  await page.waitForTimeout(400);
  await page.screenshot({ path: join(folder, `viewer-${name}.png`) });
  await page.close();
  await server.stop();
}

await shoot([demo], "timeline", "#axis=event", (page) => page.mouse.move(560, 560));
const failed = relative(root, snapshot("oom_fragmented"));
const leaking = relative(root, snapshot("leak_loss_history"));
await shoot([failed], "landing", "", (page) => page.getByTestId("verdict-text").waitFor());
await shoot([leaking], "steps", "#view=steps", (page) => page.getByTestId("growing-lines").waitFor(), 640);
await shoot([training], "whatif", "#view=whatif&with=checkpointing%20autocast_bf16&fit=24", (page) => page.getByTestId("together").waitFor(), 900);
await shoot([demo], "flame", "#view=flame");
await shoot([demo], "segments", "#view=segments&axis=event");
await shoot([demo], "allocations", "#view=allocations&axis=event", async (page) => {
  await page.locator(".rows .row").nth(1).click();
  await page.getByTestId("stack").waitFor();
}, 600);
await shoot([demo], "summary", "#view=summary", async () => {}, 640);
await shoot([demo, training], "compare", "#view=compare&axis=event", (page) => showView(page, "compare"));
await browser.close();
stopAll();
