// The screenshot of docs/ranks.md: a made-up job of 32 ranks. usage: node viewer/ranks_screenshot.mjs [OUT.png]
import { join, resolve } from "node:path";
import { folder, gpumemprof, openBrowser, root, runPython } from "../tests/viewer/support.mjs";
import { JOB } from "./example_job.mjs";

const out = resolve(process.argv[2] ?? join(root, "docs/images/ranks.png"));

runPython(JOB, join(root, "tests/python"), folder);
const page = join(folder, "ranks.html");
gpumemprof("ranks", folder, "--html", page, "--force");
const browser = await openBrowser("--disable-lcd-text"); // greyscale text makes smaller files
const tab = await browser.newPage({ viewport: { width: 1400, height: 860 } });
await tab.goto(`file://${page}`);
await tab.waitForFunction(() => document.querySelector(".heatmap canvas")?.dataset.complete === "true");
const box = await tab.locator(".heatmap canvas").boundingBox();
const rowHeight = Math.min(22, Math.floor((box.height + 2 - 26) / 36));
await tab.mouse.move(box.x + 0.8 * box.width, box.y + 22 + rowHeight * 24.5);
await tab.waitForTimeout(300);
await tab.screenshot({ path: out });
await browser.close();
