// The page inside a cell of a notebook: a frame that can reach neither the notebook nor the network.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { folder, openBrowser, runPython, snapshot } from "./support.mjs";

const SHOWN = `
import sys
from gpumemprof.integrations.notebook.viewer import Viewer
print(Viewer(sys.argv[1], 500)._repr_html_())
`;

describe("the viewer in a cell", () => {
  let browser;
  before(async () => {
    browser = await openBrowser();
  });
  after(() => browser.close());

  it("shows its views without an error, and asks nobody for anything", async () => {
    const shown = runPython(SHOWN, snapshot("gpt2_b32_fp32_adamw_oom"));
    const notebook = join(folder, "notebook.html");
    writeFileSync(notebook, `<!doctype html><meta charset="utf-8"><body>${shown}</body>`);
    const page = await browser.newPage({ viewport: { width: 1200, height: 700 } });
    const problems = [];
    const requests = [];
    page.on("pageerror", (error) => problems.push(error.message));
    page.on("console", (message) => problems.push(message.text()));
    page.on("request", (request) => requests.push(request.url()));
    await page.goto(pathToFileURL(notebook).href);
    const frame = page.frameLocator("iframe");
    await frame.getByText("At the peak").first().waitFor();
    for (const view of ["Flame graph", "Segments", "Allocations", "Summary", "Timeline"]) {
      await frame.getByText(view, { exact: true }).first().click();
      await page.waitForTimeout(500); // the address is written a moment later
    }
    assert.deepEqual(problems, []);
    assert.deepEqual(requests.filter((url) => !url.startsWith("data:")), [pathToFileURL(notebook).href]);
    await page.close();
  });
});
