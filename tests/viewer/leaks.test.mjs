// The lines that leak, in the summary.
import assert from "node:assert/strict";
import { it } from "node:test";
import { suite } from "./suite.mjs";
import { report, snapshot } from "./support.mjs";

const { on } = suite();

it("lists the lines that leak with what they hold and what to change", () => {
  const file = snapshot("leak_loss_history");
  const [{ leaks }] = report(file).devices;
  return on(file, "#view=summary", async (page) => {
    await page.getByTestId("leaks").waitFor();
    const rows = page.locator("[data-testid=leaks] tr");
    const bytes = await rows.evaluateAll((all) => all.map((row) => Number(row.dataset.bytes)));
    assert.deepEqual(bytes, leaks.sites.map((site) => site.bytes_per_step));
    const text = await rows.first().textContent();
    assert.match(text, /1\.50 MiB a step/);
    assert.match(text, /scenarios\.py:27 body/);
    assert.match(text, /since step 1/);
    assert.match(text, /detach/);
  });
});

it("has no such table where nothing leaks", () =>
  on(snapshot("clean_training"), "#view=summary", async (page) => {
    await page.getByTestId("live-stacks").waitFor();
    assert.equal(await page.getByTestId("leaks").count(), 0);
  }));
