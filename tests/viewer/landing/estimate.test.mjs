// An estimate opens like a recording, and every view says that it is predicted.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { expectExact, folder, gpumemprof, report, showView } from "../support.mjs";
import { suite } from "../suite.mjs";

const { on } = suite();
const SCRIPT = `
import torch
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(4):
    model(torch.randn(64, 256, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
`;

test("an estimate says in every view that it is predicted, and has the figures of its report", async () => {
  const script = join(folder, "estimated.py");
  const file = join(folder, "estimated.gmp");
  writeFileSync(script, SCRIPT);
  gpumemprof("estimate", "-o", file, script);
  const [device] = report(file).devices;
  await on(file, "", async (page) => {
    assert.match(await page.getByTestId("verdict-text").innerText(), /^Predicted, not measured: cuda:0: peak/);
    await expectExact(page, "cursor-allocated", device.peak.allocated_bytes);
    for (const view of ["steps", "whatif", "summary", "timeline"]) {
      await showView(page, view);
      assert.equal(await page.getByTestId("computed").innerText(), "predicted, not measured");
    }
    // How long the prediction took is no time of the run: there are only events.
    assert.ok(await page.locator("header button.axis").isHidden());
    assert.match(await page.getByTestId("cursor-where").innerText(), /^event [\d,]+$/);
    await showView(page, "steps");
    const times = await page.locator("[data-testid=steps] tbody tr:not(.phase) td:nth-of-type(5)").allInnerTexts();
    assert.ok(times.length > 0 && times.every((time) => time === "unknown"), times.join());
    await showView(page, "allocations");
    await page.locator(".rows .row").first().waitFor();
    assert.match(await page.locator(".rows .row .cell.lifetime").first().innerText(), /^[\d,]+ events?\b/);
    await showView(page, "whatif");
    await page.getByTestId("baseline").waitFor();
    assert.match(await page.getByTestId("baseline").innerText(), /^Predicted as it is: peak/);
  });
});
