// Steps: figures are those of gpumemprof report --json, equal ones are folded, growth is marked.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { training } from "../recordings.mjs";
import { exact, folder, gpumemprof, inHash, report, root, snapshot } from "../support.mjs";
import { asked, suite, until } from "../suite.mjs";

const { on } = suite();
const trained = snapshot("gpt2_b4_fp32_adamw");
const growing = training("growing", { steps: 14, leak_kib: 512 });
const leaking = snapshot("leak_loss_history");
const equal = training("equal", { steps: 20 });

const rowsOf = (page) =>
  page.locator("[data-testid=steps] tbody tr:not(.phase):not(.single)").evaluateAll((rows) =>
    rows.map((row) => ({ step: Number(row.dataset.step), count: Number(row.dataset.count), peak: Number(row.dataset.peak), floor: Number(row.dataset.floor), live: Number(row.dataset.live), kept: Number(row.dataset.kept), grows: row.dataset.grows })),
  );

for (const [name, file] of [["a real run", trained], ["a run that grows", growing], ["a real run that grows", leaking]]) {
  test(`every figure of ${name} is that of report --json`, () =>
    on(file, "#view=steps", async (page) => {
      await page.getByTestId("steps").waitFor();
      const steps = report(file).devices[0].steps;
      const rows = await rowsOf(page);
      assert.equal(rows.reduce((sum, { count }) => sum + count, 0), steps.length);
      for (const row of rows) {
        const step = steps.find(({ step: number }) => number === row.step);
        assert.deepEqual([row.peak, row.floor, row.live, row.kept], [step.peak_bytes, step.floor_bytes, step.live_bytes, step.saved_for_backward_bytes]);
      }
      const first = steps.find(({ step }) => step === 1);
      await page.locator(`tr[data-step="1"] .toggle`).first().click();
      const phases = await page.locator(`tr.phase:visible`).evaluateAll((list) => list.map(({ dataset }) => [dataset.phase, Number(dataset.peak)]));
      assert.deepEqual(phases, first.phases.map(({ phase, peak_bytes }) => [phase, peak_bytes]));
    }));
}

test("steps that look the same are one row, which opens to each of them", () =>
  on(equal, "#view=steps", async (page) => {
    await page.getByTestId("steps").waitFor();
    const rows = await rowsOf(page);
    const fold = rows.find(({ count }) => count > 1);
    assert.ok(fold !== undefined && rows.length < 8, JSON.stringify(rows));
    await page.locator(`tr.folded .toggle`).first().click();
    assert.equal(await page.locator("tr.single:visible").count(), fold.count);
    // What is open is part of what is shown: the address has it, and Back closes it.
    assert.equal(await inHash(page, "open"), String(fold.step));
    await page.reload();
    await page.getByTestId("steps").waitFor();
    assert.equal(await page.locator("tr.single:visible").count(), fold.count);
    await page.goBack();
    await until(page, () => [...document.querySelectorAll("tr.single")].every((row) => row.offsetParent === null));
  }));

test("a click on a step zooms the timeline to it, and Back returns to the table", () =>
  on(trained, "#view=steps&axis=event", async (page) => {
    const device = report(trained).devices[0];
    const step = device.steps.find(({ step: number }) => number === 1);
    await page.locator(`tr[data-step="1"] button.link`).first().click();
    await until(page, () => location.hash.includes("view=timeline") && location.hash.includes("from="));
    const { from, to } = await page.evaluate(() => Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
    const positions = device.events + 1;
    assert.ok(Math.abs(from * positions - (step.first_event + 1)) < 1 && Math.abs(to * positions - (step.last_event + 2)) < 1, `${from} ${to}`);
    assert.equal(await exact(page, "cursor-allocated"), step.peak_bytes);
    await page.goBack();
    await until(page, () => document.querySelector(".view.steps")?.offsetParent !== null);
  }));

test("growth is marked, by step and by line, with the figures of the report", () =>
  on(growing, "#view=steps", async (page) => {
    await page.getByTestId("growing-lines").waitFor();
    const { growth, leaks } = report(growing).devices[0];
    assert.equal(growth.is_growing, true);
    const rates = await page.locator("[data-testid=growing-lines] tbody tr").evaluateAll((rows) => rows.map(({ dataset }) => Number(dataset.bytes)));
    const sites = leaks.sites.length > 0 ? leaks.sites : growth.lines;
    assert.deepEqual(rates, sites.map(({ bytes_per_step }) => bytes_per_step));
    const marked = (await rowsOf(page)).filter(({ grows }) => grows === "yes");
    assert.ok(marked.length >= 5, `${marked.length} steps are marked`);
    assert.ok(marked.every(({ step }) => step >= growth.since_step));
  }));

test("a run that does not grow says so", () =>
  on(equal, "#view=steps", async (page) => {
    await page.getByTestId("growth").waitFor();
    assert.match(await page.getByTestId("growth").innerText(), /does not grow from step to step/);
    assert.equal(await page.locator("tr[data-grows=yes]").count(), 0);
  }));

test("of a part of a run, steps have the numbers of the run and the places of the part", () => {
  const part = join(folder, "part.gmp");
  gpumemprof("convert", join(root, "tests/data/traces/cpu_training.gmp"), "--to", "gmp", part, "--steps", "2:3");
  return on(part, "#view=steps", async (page) => {
    await page.getByTestId("steps").waitFor();
    const answer = await asked(page, "steps?file=0&device=0");
    const meta = await asked(page, "meta?file=0");
    const { events } = meta.files[0].devices[0];
    assert.ok(answer.steps.some(({ step }) => step === 3));
    for (const step of answer.steps) {
      assert.ok(step.first_event <= step.last_event && step.last_event < events, JSON.stringify(step));
      assert.ok(step.from_ns !== null && step.from_ns <= step.to_ns);
    }
  });
});
