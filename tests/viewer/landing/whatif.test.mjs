// What if: the advisor's remedies as switches. Every figure is that of gpumemprof advise --json.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { folder, gpumemprof, inHash, snapshot } from "../support.mjs";
import { suite, until } from "../suite.mjs";

const { on, withPage } = suite();
const file = snapshot("gpt2_b4_fp32_adamw");
const advise = (...more) => JSON.parse(gpumemprof("advise", "--json", file, ...more));
const switched = (page, name) => page.locator(`[data-remedy="${name}"]`).click();
const together = (page, names) => page.locator(`[data-testid=together][data-remedies="${names}"]`);

test("every remedy has the figures of advise --json", () =>
  on(file, "#view=whatif", async (page) => {
    await page.getByTestId("remedies").waitFor();
    const { remedies, baseline } = advise();
    const rows = await page.locator("[data-testid=remedies] tbody tr").evaluateAll((list) => list.map(({ dataset }) => [dataset.name, Number(dataset.bytes)]));
    const wanted = remedies.filter(({ predicted_peak_allocated_bytes: bytes }) => bytes !== null).map(({ name, predicted_peak_allocated_bytes: bytes }) => [name, bytes]);
    assert.deepEqual(rows, wanted);
    assert.equal(Number(await page.getByTestId("baseline").getAttribute("data-bytes")), baseline.peak_allocated_bytes);
  }));

test("remedies together are predicted as advise --together predicts them, and drawn over the run", () =>
  on(file, "#view=whatif", async (page) => {
    await page.getByTestId("remedies").waitFor();
    for (const name of ["checkpointing", "autocast_bf16", "batch_x2"]) {
      await switched(page, name);
      await page.locator(`[data-remedy="${name}"]:checked`).waitFor();
      await inHash(page, "with"); // Changes that follow each other at once are one step back.
    }
    const names = "checkpointing+autocast_bf16+batch_x2";
    const card = together(page, names);
    await card.waitFor();
    const wanted = advise("--together", names).remedies.find(({ name }) => name === names);
    assert.equal(Number(await card.getAttribute("data-bytes")), wanted.predicted_peak_allocated_bytes);
    assert.equal(Number(await card.getAttribute("data-reserved")), wanted.predicted_peak_reserved_bytes);
    assert.match(await card.innerText(), new RegExp(`\\b${wanted.provenance}\\b`));
    assert.match(await card.innerText(), /Predicted peak .* allocated \(.* to .*\)/);
    assert.equal(await card.locator("pre").first().innerText(), wanted.how);
    assert.ok(Number(await page.locator(".predicted").getAttribute("data-points")) > 100);
    assert.equal(await inHash(page, "with"), "checkpointing autocast_bf16 batch_x2");
    await page.reload();
    await together(page, names).waitFor();
    await page.goBack();
    await together(page, "checkpointing+autocast_bf16").waitFor();
  }));

test("the predicted curve reaches the predicted peak, and without a change it is the recorded one", () =>
  on(file, "#view=whatif&with=foreach_off", async (page) => {
    const { most, peak } = await page.evaluate(async () => {
      const token = sessionStorage.getItem("gpumemprof-token");
      const answer = await (await fetch(`/api/together?file=0&device=0&remedies=checkpointing&token=${token}`)).json();
      let level = 0;
      const most = Math.max(...answer.most_bytes.map((difference) => (level += difference)));
      return { most, peak: answer.remedy.predicted_peak_allocated_bytes };
    });
    assert.equal(most, peak);
  }));

test("of two remedies that exclude each other, the one switched on last stays", () =>
  on(file, "#view=whatif&with=autocast_bf16", async (page) => {
    await together(page, "autocast_bf16").waitFor();
    await switched(page, "autocast_fp16");
    await together(page, "autocast_fp16").waitFor();
    assert.equal(await page.locator("[data-remedy=autocast_bf16]:checked").count(), 0);
  }));

test("what fits into a card is what advise --fit finds", async () => {
  const limit = 2; // GiB: less than the run takes
  const { fit } = advise("--fit", `${limit}GiB`);
  await on(file, `#view=whatif&fit=${limit}`, async (page) => {
    const card = page.getByTestId("fit");
    await card.waitFor();
    assert.equal(await card.getAttribute("data-found"), String(fit.is_found));
    if (!fit.is_found) return assert.match(await card.innerText(), /Nothing that is known here fits/);
    assert.equal(await card.locator("[data-remedies]").getAttribute("data-remedies"), fit.remedies.join("+"));
    assert.equal(await card.locator("pre").first().innerText(), fit.code[0].how);
    await card.getByRole("button", { name: "Show it on the timeline" }).click();
    await together(page, fit.remedies.join("+")).waitFor();
  });
});

test("a recording without training steps to change says why nothing can be tried", () =>
  on(snapshot("stress_s_default_mixed_cap"), "#view=whatif", async (page) => {
    await until(page, () => document.querySelector(".whatif [data-testid]") !== null);
    const text = await page.locator(".view.whatif").innerText();
    assert.ok(text.length > 80, text);
  }));

test("a standalone page has every remedy and every two of them, and says how to get others", () => {
  const path = join(folder, "whatif.html");
  gpumemprof("report", "--html", path, file);
  return withPage(`${pathToFileURL(path)}#view=whatif&with=checkpointing&fit=24`, async (page) => {
    const advice = advise("--together", "batch_x2+checkpointing");
    const wanted = (names) => advice.remedies.find(({ name }) => name === names);
    await together(page, "checkpointing").waitFor();
    assert.equal(Number(await together(page, "checkpointing").getAttribute("data-bytes")), wanted("checkpointing").predicted_peak_allocated_bytes);
    await page.getByTestId("fit").waitFor();
    await switched(page, "batch_x2");
    // Whichever was switched on first.
    const pair = together(page, "checkpointing+batch_x2");
    await pair.waitFor();
    assert.equal(Number(await pair.getAttribute("data-bytes")), wanted("batch_x2+checkpointing").predicted_peak_allocated_bytes);
    assert.equal(Number(await pair.getAttribute("data-reserved")), wanted("batch_x2+checkpointing").predicted_peak_reserved_bytes);
    assert.ok(Number(await page.locator(".predicted").getAttribute("data-points")) > 100);
    await switched(page, "autocast_bf16");
    const three = together(page, "checkpointing+batch_x2+autocast_bf16");
    await three.waitFor();
    assert.match(await three.innerText(), /not tried together when this page was written/);
    assert.match(await three.innerText(), /gpumemprof advise \S+ --together checkpointing\+batch_x2\+autocast_bf16/);
  });
});

test("a standalone page answers for every switch and every two that do not exclude each other", () => {
  const path = join(folder, "whatif_pairs.html");
  gpumemprof("report", "--html", path, file);
  return withPage(`${pathToFileURL(path)}#view=whatif`, async (page) => {
    await page.getByTestId("remedies").waitFor();
    const names = await page.locator("[data-remedy]").evaluateAll((boxes) => boxes.map(({ dataset }) => dataset.remedy));
    assert.ok(names.length > 8, String(names));
    // Each is switched on by the address, beside the one before it in the list: of two of a family, both cannot be.
    for (let at = 0; at + 1 < names.length; at++) {
      await page.evaluate((words) => (location.hash = `#view=whatif&with=${words}`), `${names[at]}+${names[at + 1]}`);
      const card = together(page, `${names[at]}+${names[at + 1]}`);
      await card.waitFor();
      const text = await card.innerText();
      assert.doesNotMatch(text, /not tried together/, `${names[at]} ${names[at + 1]}: ${text}`);
    }
  });
});
