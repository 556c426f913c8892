// What people come for, in clicks from opening.
import assert from "node:assert/strict";
import { test } from "node:test";
import { training } from "../recordings.mjs";
import { gpumemprof, report, snapshot } from "../support.mjs";
import { suite } from "../suite.mjs";

const { on } = suite();

/** A page that counts clicks and keys. */
const counted = (file, most, body) =>
  on(file, "", async (page) => {
    await page.evaluate(() => {
      window.inputs = 0;
      for (const kind of ["pointerdown", "keydown"]) window.addEventListener(kind, () => window.inputs++, true);
    });
    await body(page);
    const inputs = await page.evaluate(() => window.inputs);
    assert.ok(inputs <= most, `${inputs} clicks, not ${most}`);
  });

test("why did it fail: no click", () => {
  const file = snapshot("oom_fragmented");
  return counted(file, 0, async (page) => {
    await page.getByTestId("verdict-text").waitFor();
    const { cause, wanted_bytes: wanted } = report(file).devices[0].oom_reports[0];
    assert.equal(cause, "fragmentation");
    assert.ok(wanted > 0);
    assert.match(await page.getByTestId("verdict-text").innerText(), /ran out of memory: probably fragmentation: .* in use and .* more would have fit, but not in one piece, at \S+\.py:\d+/);
  });
});

test("which line holds most: one click", () => {
  const file = snapshot("gpt2_b4_fp32_adamw");
  return counted(file, 1, async (page) => {
    await page.locator("[data-way=line]").click();
    const chosen = page.locator(".groups button[aria-pressed=true]");
    await chosen.waitFor();
    assert.match(await chosen.innerText(), /\.py:\d+/);
  });
});

test("what grew: one click", () => {
  const file = snapshot("leak_loss_history");
  return counted(file, 1, async (page) => {
    await page.locator("[data-way=growth]").click();
    await page.getByTestId("growing-lines").waitFor();
    const [site] = report(file).devices[0].leaks.sites;
    const row = page.locator("[data-testid=growing-lines] tbody tr").first();
    assert.equal(Number(await row.getAttribute("data-bytes")), site.bytes_per_step);
    assert.match(await row.innerText(), new RegExp(`:${site.line}\\b`));
  });
});

test("what would make it fit in 24 GiB: two clicks", () => {
  const file = training("28GiB", { steps: 8, layers: 12, unit_kib: 1 << 20 });
  const { fit, remedies } = JSON.parse(gpumemprof("advise", "--json", "--fit", "24GiB", file));
  assert.ok(fit.remedies.length > 0);
  return counted(file, 2, async (page) => {
    await page.locator("[data-way=help]").click();
    await page.locator("[data-fit='24']").click();
    await page.getByTestId("fit").waitFor();
    const text = await page.getByTestId("fit").innerText();
    for (const name of fit.remedies) assert.ok(text.includes(remedies.find((remedy) => remedy.name === name).title), text);
    assert.ok(text.includes(fit.code[0].how), text);
  });
});

test("a run that shows too little to say what fits says so, in two clicks", () => {
  const file = snapshot("gpt2_b32_fp32_adamw_oom");
  return counted(file, 2, async (page) => {
    await page.locator("[data-way=help]").click();
    await page.locator("[data-fit='24']").click();
    await page.getByTestId("fit").waitFor();
    assert.match(await page.getByTestId("fit").innerText(), /is not known: The run ran out of memory in its first forward pass/);
  });
});
