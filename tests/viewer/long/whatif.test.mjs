// What if, other settings and long ranges of a recording that is too long for memory. Remedies are tried on the steps
// around its peak, as gpumemprof advise and simulate try them: every figure is theirs.
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { asked, until } from "../suite.mjs";
import { folder, gpumemprof, inHash, openBrowser, openPage, root, serve, settled, stopAll } from "../support.mjs";
import { asLong } from "./as_long.mjs";

const WINDOW = 1500;
// Its twelfth step is the largest.
const SCRIPT = `
import torch
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(256), nn.Linear(256, 1024), nn.Linear(1024, 256)
    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))
model = nn.Sequential(*[Block() for _ in range(6)]).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(24):
    model(torch.randn(96 if step == 11 else 64, 128, 256, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
`;
const recording = join(folder, "long_whatif.gmp");
const TRACE = join(root, "tests/data/traces/cpu_training.gmp");
const json = (...words) => asLong(() => JSON.parse(gpumemprof(...words)), WINDOW);

describe("what if of a recording that is too long for memory", () => {
  let browser, server;
  before(async () => {
    const script = join(folder, "long_whatif.py");
    writeFileSync(script, SCRIPT);
    const estimated = join(folder, "long_whatif_estimated.gmp");
    gpumemprof("estimate", "--gpu", "a100-80gb", "--steps", "all", "-o", estimated, script);
    // A recorder writes blocks as time passes, and stretches begin and end with blocks: a copy always has the same.
    gpumemprof("convert", "--to", "gmp", estimated, recording);
    browser = await openBrowser();
    server = await asLong(() => serve(recording), WINDOW);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
    stopAll();
  });
  const on = async (hash, body, at = server) => {
    const page = await openPage(browser, at.url + hash);
    try {
      await body(page);
      assert.deepEqual(page.problems, []);
    } finally {
      await page.close();
    }
  };

  it("has the figures of advise --json, and says which steps they are about", () =>
    on("#view=whatif", async (page) => {
      const advice = await json("advise", "--json", recording);
      const [part] = advice.completeness.excerpt;
      await page.getByTestId("remedies").waitFor();
      const rows = await page.locator("[data-testid=remedies] tbody tr").evaluateAll((list) => list.map(({ dataset }) => [dataset.name, Number(dataset.bytes)]));
      assert.deepEqual(rows, advice.remedies.filter(({ predicted_peak_allocated_bytes: bytes }) => bytes !== null).map(({ name, predicted_peak_allocated_bytes: bytes }) => [name, bytes]));
      const note = page.getByTestId("whatif-part");
      assert.equal(Number(await note.getAttribute("data-from")), part.from_event);
      assert.equal(Number(await note.getAttribute("data-to")), part.to_event);
      assert.match(await note.innerText(), part.first_step === part.last_step ? new RegExp(`step ${part.first_step} `) : new RegExp(`steps ${part.first_step}–${part.last_step} `));
    }));

  it("draws the predicted run over the steps it is about, which fill the view", () =>
    on("#view=whatif&axis=event&with=checkpointing+autocast_bf16", async (page) => {
      const advice = await json("advise", "--json", "--together", "checkpointing+autocast_bf16", recording);
      const [part] = advice.completeness.excerpt;
      const wanted = advice.remedies.find(({ name }) => name === "checkpointing+autocast_bf16");
      const card = page.locator("[data-testid=together][data-remedies='checkpointing+autocast_bf16']");
      await card.waitFor();
      assert.equal(Number(await card.getAttribute("data-bytes")), wanted.predicted_peak_allocated_bytes);
      assert.equal(Number(await card.getAttribute("data-reserved")), wanted.predicted_peak_reserved_bytes);
      assert.equal(await page.locator(".predicted").getAttribute("data-part"), `${part.from_event}-${part.to_event}`);
      assert.ok(Number(await page.locator(".predicted").getAttribute("data-points")) > 100);
      const [from, to] = [Number((await inHash(page, "from")) ?? 0), Number((await inHash(page, "to")) ?? 1)];
      const shares = [part.from_event, part.to_event].map((event) => event / part.events_of_run);
      assert.ok(from <= shares[0] && to >= shares[1] - 0.001, `${from} to ${to} shows ${shares}`);
      const answer = await asked(page, "together?file=0&device=0&remedies=checkpointing");
      assert.equal(answer.first_event, part.from_event);
      let level = 0;
      assert.equal(Math.max(...answer.most_bytes.map((difference) => (level += difference))), answer.remedy.predicted_peak_allocated_bytes);
    }));

  it("finds what fits as advise --fit does", () =>
    on("#view=whatif&fit=0.5", async (page) => {
      const { fit } = await json("advise", "--json", "--fit", "0.5GiB", recording);
      const card = page.getByTestId("fit");
      await card.waitFor();
      assert.equal(await card.getAttribute("data-found"), String(fit.is_found));
      if (fit.is_found) assert.equal(await card.locator("[data-remedies]").getAttribute("data-remedies"), fit.remedies.join("+"));
    }));

  it("is in a standalone page too, with every two remedies", async () => {
    const path = join(folder, "long_whatif.html");
    await asLong(() => gpumemprof("report", "--html", path, recording), WINDOW);
    const advice = await json("advise", "--json", "--together", "batch_x2+checkpointing", recording);
    const wanted = advice.remedies.find(({ name }) => name === "batch_x2+checkpointing");
    await on("#view=whatif&with=checkpointing+batch_x2", async (page) => {
      const card = page.locator("[data-testid=together][data-remedies='checkpointing+batch_x2']");
      await card.waitFor();
      assert.equal(Number(await card.getAttribute("data-bytes")), wanted.predicted_peak_allocated_bytes);
      assert.equal(Number(await page.getByTestId("whatif-part").getAttribute("data-from")), advice.completeness.excerpt[0].from_event);
      assert.ok(Number(await page.locator(".predicted").getAttribute("data-points")) > 100);
    }, { url: pathToFileURL(path).href });
  });

  it("simulates other settings as simulate does", () =>
    on("#view=segments&settings=on", async (page) => {
      const confs = ["expandable_segments:True", "max_split_size_mb:128", "garbage_collection_threshold:0.8", "roundup_power2_divisions:8"];
      const { devices } = await json("simulate", "--json", recording, ...confs.flatMap((conf) => ["--alloc-conf", conf]));
      await page.locator("[data-testid=settings] tbody tr").first().waitFor();
      const rows = await page.locator("[data-testid=settings] tbody tr").evaluateAll((list) => list.map(({ dataset }) => Number(dataset.bytes)));
      assert.deepEqual(rows, devices[0].runs.map((run) => run.peak_reserved_bytes));
      assert.match(await page.getByTestId("settings-part").innerText(), /around the peak of this run/);
    }));

  it("says what happened in a range of any length, as the whole recording does", async () => {
    const events = (await json("report", "--json", TRACE)).devices[0].events;
    const hash = `#axis=event&range=${Math.floor(events / 10)}-${Math.floor(events * 0.9)}`;
    const figures = async (page) => {
      await page.getByTestId("range-allocated").waitFor();
      await settled(page);
      return page.evaluate(() => ({
        all: ["allocated", "freed", "survived"].map((part) => ({ ...document.querySelector(`[data-testid=range-${part}]`).dataset })),
        lines: [...document.querySelectorAll("[data-testid=range-lines] [data-label]")].map((row) => ({ ...row.dataset })),
        sources: [...document.querySelectorAll("[data-testid=range-sources] [data-label]")].map((row) => ({ ...row.dataset })),
        moves: [...document.querySelectorAll("[data-testid=range-moves] li")].map((row) => ({ ...row.dataset })),
      }));
    };
    const found = {};
    const [long, short] = [await asLong(() => serve(TRACE), 100), await serve(TRACE)];
    await on(hash, async (page) => (found.long = await figures(page)), long);
    await on(hash, async (page) => (found.whole = await figures(page)), short);
    await long.stop();
    await short.stop();
    assert.deepEqual(found.long, found.whole);
    assert.ok(found.long.lines.length > 3);
  });

  it("asks again while an answer is computed, and stops when another view is shown", () =>
    on("", async (page) => {
      // A server that is not ready yet, twice.
      let waits = 0;
      let isStopped = false;
      await page.route("**/api/advice?*", async (route) => {
        waits++;
        if (isStopped) return route.abort();
        if (waits <= 2) return route.fulfill({ status: 202, contentType: "application/json", body: JSON.stringify({ what: "trying remedies", done: waits, total: 24, so_far: null }) });
        await route.fulfill({ status: 202, contentType: "application/json", body: JSON.stringify({ what: "trying remedies", done: 3, total: 24, so_far: null }) });
      });
      await page.locator("nav button[data-view=whatif]").click();
      await until(page, () => document.querySelector(".whatif .result").dataset.busy === "Trying remedies: 3 of 24…");
      await page.locator("nav button[data-view=timeline]").click();
      await until(page, () => document.querySelector(".whatif .result").dataset.busy === undefined);
      const before = waits;
      isStopped = true;
      await page.unroute("**/api/advice?*");
      await page.locator("nav button[data-view=whatif]").click();
      await page.getByTestId("remedies").waitFor();
      assert.ok(waits <= before + 1, `${waits} questions, ${before} before another view was shown`);
    }));

  it("says how far it is with two long ranges, and stops when another view is shown", () =>
    on("", async (page) => {
      for (const [question, hash] of [["range", ""], ["range_flame", "&as=flame"]]) {
        let asks = 0;
        await page.route(`**/api/${question}?*`, (route) => {
          asks++;
          return route.fulfill({ status: 202, contentType: "application/json", body: JSON.stringify({ what: "reading the range", done: 3, total: 10, so_far: null }) });
        });
        await page.goto(`${page.url().split("#")[0]}#view=compare&a=0.0.10-2000&b=0.0.2000-4000${hash}`);
        const says = (text) => until(page, (wanted) => [...document.querySelectorAll(".view.compare [data-busy]")].map((part) => part.dataset.busy).join() === wanted, text);
        await says("Reading the range: 3 of 10…");
        await page.locator("nav button[data-view=steps]").click();
        await says("");
        await page.unroute(`**/api/${question}?*`);
        const before = asks;
        // Back in the view, they are read after all.
        await page.locator("nav button[data-view=compare]").click();
        await page.locator(hash === "" ? "[data-testid=compare-sum]" : "[data-testid=difference-total]").waitFor();
        assert.equal(asks, before);
      }
      page.problems = page.problems.filter((problem) => !/ERR_FAILED|ERR_ABORTED/.test(problem));
    }));

  it("shows what survived a long range while the rest is read, and can be stopped", () =>
    on("", async (page) => {
      const known = { from: 10, to: 2000, from_bytes: 1 << 20, to_bytes: 3 << 20, survived_bytes: 2 << 20, survived_blocks: 4, lines: [{ label: "f (train.py:7)", bytes: 2 << 20, blocks: 4 }], lines_left_out: 0, sources: [] };
      await page.route("**/api/range?*", (route) => route.fulfill({ status: 202, contentType: "application/json", body: JSON.stringify({ what: "reading the range", done: 3, total: 10, so_far: known }) }));
      await page.goto(`${page.url().split("#")[0]}#axis=event&range=10-2000`);
      await page.getByTestId("range-working").waitFor();
      assert.match(await page.getByTestId("range-working").innerText(), /Reading the range: 3 of 10/);
      assert.equal(Number(await page.getByTestId("range-survived").getAttribute("data-bytes")), 2 << 20);
      await page.getByRole("button", { name: "Stop" }).click();
      await page.getByTestId("range-stopped").waitFor();
      await page.unroute("**/api/range?*");
      await page.getByRole("button", { name: "Read it" }).click();
      await page.getByTestId("range-allocated").waitFor();
      page.problems = page.problems.filter((problem) => !/ERR_FAILED|ERR_ABORTED/.test(problem));
    }));
});
