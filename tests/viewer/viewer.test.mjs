// The viewer in a real browser, on recordings of real runs.
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { complete, exact, expectExact, folder, gpumemprof, inHash, openBrowser, openPage, report, runPython, serve, settled, showView, snapshot, stopAll } from "./support.mjs";

const training = snapshot("gpt2_b4_fp32_adamw");
let browser;
let server;
let figures;

before(async () => {
  browser = await openBrowser();
  server = await serve(training);
  figures = report(training).devices[0];
});

after(async () => {
  await browser.close();
  const code = await server.stop();
  stopAll();
  assert.equal(code, 0);
});

async function withPage(address, body, options = {}) {
  const page = await openPage(browser, address, options);
  try {
    await body(page);
    assert.deepEqual(page.problems, []);
  } finally {
    await page.close();
  }
}
const onTraining = (hash, body, options) => withPage(server.url + hash, body, options);

describe("the views of a training run", () => {
  it("opens on the timeline with the cursor at the peak", () =>
    onTraining("", async (page) => {
      await expectExact(page, "cursor-allocated", figures.peak.allocated_bytes);
      await expectExact(page, "cursor-reserved", figures.peak.reserved_bytes);
      await expectExact(page, "cursor-where", figures.peak.event_index + 1, "position");
    }));

  it("shows the sources of the report at the peak", () =>
    onTraining("", async (page) => {
      await page.waitForSelector(".groups li[data-bytes]:not([data-bytes=''])");
      const shown = await page.locator(".groups li").evaluateAll((rows) => rows.map((row) => [row.title, Number(row.dataset.bytes)]));
      const bytes = Object.fromEntries(shown);
      const sources = figures.sources ?? {};
      assert.ok(Object.keys(sources).length > 5);
      for (const [name, figure] of Object.entries(sources)) assert.equal(bytes[name], figure.bytes_at_peak, name);
      assert.equal(shown.reduce((sum, [, value]) => sum + value, 0), figures.peak.allocated_bytes);
    }));

  it("draws the flame graph of exactly what is live", () =>
    onTraining("#view=flame", async (page) => {
      await expectExact(page, "flame-total", figures.peak.allocated_bytes);
      const boxes = await page.locator(".flame canvas").getAttribute("data-boxes");
      assert.ok(Number(boxes) > 20);
      await page.getByRole("button", { name: "By module" }).click();
      await page.waitForFunction(() => location.hash.includes("flame=module"));
      await expectExact(page, "flame-total", figures.peak.allocated_bytes);
    }));

  it("maps every segment and block", () =>
    onTraining("#view=segments", async (page) => {
      await expectExact(page, "map-reserved", figures.peak.reserved_bytes);
      await expectExact(page, "map-allocated", figures.peak.allocated_bytes);
      await expectExact(page, "map-free", figures.at.free.free_bytes);
      await page.locator(".segments canvas").click({ position: { x: 30, y: 40 } });
      await page.getByTestId("selected").waitFor();
    }));

  it("lists every allocation", () =>
    onTraining("#view=allocations", async (page) => {
      await expectExact(page, "table-facts", figures.counters.allocations, "matches");
      const first = await page.locator(".rows .row").first().getAttribute("data-bytes");
      assert.equal(Number(first), 411705344);
    }));

  it("sums the report up", () =>
    onTraining("#view=summary", async (page) => {
      await expectExact(page, "summary-peak", figures.peak.allocated_bytes);
      await expectExact(page, "summary-peak-reserved", figures.peak_reserved_bytes);
      await expectExact(page, "summary-end", figures.end.allocated_bytes);
      const stacks = await page.locator("[data-testid=live-stacks] tr").evaluateAll((rows) => rows.map((row) => Number(row.dataset.bytes)));
      assert.deepEqual(stacks, figures.live_at_peak.slice(0, 12).map((stack) => stack.bytes));
      for (const [name, value] of Object.entries(figures.counters)) {
        assert.equal(Number(await page.locator(`tr[data-key=${name}]`).getAttribute("data-value")), value, name);
      }
      const text = await page.getByTestId("report-text").textContent();
      assert.match(text, /cuda:0: peak 4\.78 GiB allocated/);
    }));

  it("compares two moments of a run", () =>
    onTraining("#view=compare", async (page) => {
      await expectExact(page, "compare-sum", figures.peak.allocated_bytes, "first");
      await expectExact(page, "compare-sum", figures.end.allocated_bytes, "second");
      await page.getByLabel("Compare by").selectOption("stack");
      await page.locator("tr.opens").first().click();
      await page.locator("tr.detail [data-testid=stack]").first().waitFor();
    }));
});

describe("moving about", () => {
  it("zooms at the mouse with the wheel, in ever finer levels, and back", () =>
    onTraining("#axis=event", async (page) => {
      const canvas = page.locator(".view.timeline canvas");
      const level = async () => Number(await canvas.getAttribute("data-level"));
      const before = await level();
      await page.mouse.move(600, 400);
      for (let turn = 0; turn < 8; turn++) await page.mouse.wheel(0, -400);
      await complete(page);
      const [from, to] = [Number(await inHash(page, "from")), Number(await inHash(page, "to"))];
      assert.ok(from > 0 && to < 1 && to - from < 0.2);
      // What was under the mouse still is.
      const share = (600 - 66) / (960 - 66 - 12);
      assert.ok(Math.abs(from + share * (to - from) - share) < 0.01);
      assert.ok((await level()) > before);
      await page.mouse.dblclick(600, 400);
      assert.equal(await inHash(page, "from"), null);
    }));

  it("pans by dragging with Alt and zooms to a stretch with Shift", () =>
    onTraining("#from=0.4&to=0.6", async (page) => {
      await page.mouse.move(600, 400);
      await page.keyboard.down("Alt");
      await page.mouse.down();
      await page.mouse.move(400, 400, { steps: 4 });
      await page.mouse.up();
      await page.keyboard.up("Alt");
      const from = Number(await inHash(page, "from"));
      assert.ok(from > 0.43 && from < 0.46);
      await page.keyboard.down("Shift");
      await page.mouse.move(300, 400);
      await page.mouse.down();
      await page.mouse.move(500, 400, { steps: 4 });
      await page.mouse.up();
      await page.keyboard.up("Shift");
      const width = Number(await inHash(page, "to")) - Number(await inHash(page, "from"));
      assert.ok(Math.abs(width - (0.2 * 200) / (960 - 66 - 12)) < 0.002);
    }));

  it("names what lies under the mouse", () =>
    onTraining("#axis=time", async (page) => {
      const tooltip = page.getByRole("tooltip");
      // The mouse may have arrived before its target was drawn: it keeps moving, as a hand would.
      for (let turn = 0; turn < 16 && !(await tooltip.isVisible()); ++turn) {
        await page.mouse.move(700 + (turn % 2), 685);
        await page.waitForTimeout(100 * turn);
      }
      assert.match(await tooltip.textContent(), /parameters.*of.*allocated/);
      await showView(page, "flame");
      await page.waitForSelector(".flame canvas[data-boxes]");
      const flame = await page.locator(".flame canvas").boundingBox();
      await page.mouse.move(100, flame.y + 30);
      assert.match(await tooltip.textContent(), /case\.py.*blocks/);
    }));

  it("names single allocations and shows the stack of the one clicked", () =>
    onTraining("#by=allocation&axis=time", async (page) => {
      await page.waitForSelector(".view.timeline canvas[data-complete=true]");
      await page.mouse.click(930, 640);
      await page.getByTestId("selected").waitFor();
      const size = await exact(page, "selected");
      assert.ok(size > 0);
      assert.ok(Number(await inHash(page, "allocation")) >= 0);
    }));

  it("goes everywhere by keyboard", () =>
    onTraining("#axis=time", async (page) => {
      await page.keyboard.press("w");
      assert.ok(Number(await inHash(page, "to")) - Number(await inHash(page, "from")) < 0.75);
      await page.keyboard.press("d");
      const from = Number(await inHash(page, "from"));
      await page.keyboard.press("a");
      assert.ok(Number(await inHash(page, "from")) < from);
      await page.keyboard.press("0");
      assert.equal(await inHash(page, "from"), null);
      const at = Number(await inHash(page, "at"));
      await page.keyboard.press("ArrowRight");
      assert.ok(Number(await inHash(page, "at")) > at);
      await page.keyboard.press("e");
      await expectExact(page, "cursor-allocated", figures.end.allocated_bytes);
      await page.keyboard.press("p");
      await expectExact(page, "cursor-allocated", figures.peak.allocated_bytes);
      await page.keyboard.press("t");
      assert.equal(await inHash(page, "axis"), "event");
      await page.keyboard.press("4");
      await page.locator(".rows .row").first().waitFor();
      await page.keyboard.press("ArrowDown");
      await page.getByTestId("selected").waitFor();
      await page.keyboard.press("Escape");
      assert.equal(await inHash(page, "allocation"), null);
      await page.keyboard.press("?");
      await page.getByRole("dialog").waitFor();
      await page.keyboard.press("Escape");
      await page.keyboard.press("/");
      await page.keyboard.type("layer_norm");
      await page.waitForFunction(() => location.hash.includes("layer_norm"));
    }));

  it("leads back to the same view, range and allocation by its address", () =>
    onTraining("#view=allocations&axis=event&from=0.25&to=0.5&at=4000&allocation=17&search=adam", async (page) => {
      await expectExact(page, "selected", 17, "row");
      await expectExact(page, "cursor-where", 4000, "position");
      assert.equal(await page.getByRole("searchbox").inputValue(), "adam");
      await page.keyboard.press("1");
      await complete(page);
      assert.equal(Number(await inHash(page, "from")), 0.25);
      assert.equal(await inHash(page, "allocation"), "17");
    }));

  it("takes an address that makes no sense for the beginning", () =>
    onTraining("#view=nothing&file=9&at=1e99&from=7&to=-1&allocation=99999999&by=colour", async (page) => {
      await page.locator(".view.timeline canvas").waitFor();
      assert.equal(await inHash(page, "allocation"), "99999999");
    }));
});

describe("the table", () => {
  it("searches by words, size and lifetime", () =>
    onTraining("#view=allocations", async (page) => {
      const facts = page.getByTestId("table-facts");
      await page.locator(".rows .row").first().waitFor();
      const matches = async (words) => {
        await page.getByRole("searchbox").fill(words);
        await page.waitForFunction((text) => new URLSearchParams(location.hash.slice(1)).get("search") === text, words);
        await settled(page);
        return Number(await facts.getAttribute("data-matches"));
      };
      const adam = await matches("adam");
      assert.ok(adam > 0 && adam < figures.counters.allocations);
      assert.match(await page.locator(".rows .row .label").first().textContent(), /adam\.py/);
      const large = await matches("size>100MiB");
      assert.ok(large > 0 && large < 100);
      assert.ok((await matches("size>100MiB life<5ms")) < large);
      assert.equal(await matches("no such function"), 0);
      await page.getByText("Nothing matches this search.").waitFor();
    }));

  it("sorts, and shows the stack of the row clicked", () =>
    onTraining("#view=allocations", async (page) => {
      await page.getByRole("columnheader", { name: "Lifetime" }).click();
      await page.getByRole("columnheader", { name: "Allocated at" }).click();
      await page.getByRole("columnheader", { name: "Allocated at" }).click();
      await page.waitForFunction(() => document.querySelector(".rows .row")?.dataset.row === "0");
      await page.locator(".rows .row").first().click();
      await page.getByTestId("stack").waitFor();
      assert.match(await page.getByTestId("stack").textContent(), /case\.py:100/);
    }));

  it("holds to what is live at the cursor", () =>
    onTraining("#view=allocations", async (page) => {
      await page.getByRole("button", { name: "Live at the cursor" }).click();
      await expectExact(page, "table-facts", figures.peak.allocated_bytes);
    }));
});

describe("two recordings", () => {
  it("are compared at their peaks, by source and by stack", async () => {
    const other = snapshot("gpt2_b4_fp32_adamw_expandable");
    const both = await serve(training, other);
    await withPage(`${both.url}#view=compare`, async (page) => {
      await expectExact(page, "compare-sum", figures.peak.allocated_bytes, "first");
      await expectExact(page, "compare-sum", report(other).devices[0].peak.allocated_bytes, "second");
      assert.match(await page.locator("table.compared").textContent(), /activations/);
      await page.getByLabel("Compare by").selectOption("stack");
      await page.locator("tr.opens").first().waitFor();
    });
    assert.equal(await both.stop(), 0);
  });
});

describe("the standalone file", () => {
  it("shows the same from file://, and asks nobody", async () => {
    const file = join(folder, "run.html");
    gpumemprof("report", "--html", file, training);
    await withPage(pathToFileURL(file).href, async (page) => {
      await expectExact(page, "cursor-allocated", figures.peak.allocated_bytes);
      await showView(page, "flame");
      await expectExact(page, "flame-total", figures.peak.allocated_bytes);
      await showView(page, "segments");
      await expectExact(page, "map-reserved", figures.peak.reserved_bytes);
      await showView(page, "allocations");
      await expectExact(page, "table-facts", figures.counters.allocations, "matches");
      await page.locator(".rows .row").first().click();
      await page.getByTestId("stack").waitFor();
      await page.getByRole("searchbox").fill("adam");
      await page.waitForFunction((all) => {
        const matches = Number(document.querySelector("[data-testid=table-facts]").dataset.matches);
        return matches > 0 && matches < all;
      }, figures.counters.allocations);
      await showView(page, "summary");
      await expectExact(page, "summary-peak", figures.peak.allocated_bytes);
      await showView(page, "compare");
      await expectExact(page, "compare-sum", figures.end.allocated_bytes, "second");
      await showView(page, "timeline");
      await page.mouse.move(600, 400);
      for (let turn = 0; turn < 20; turn++) await page.mouse.wheel(0, -400);
      await complete(page);
      assert.ok(page.asked.every((url) => url.startsWith("file:") || url.startsWith("data:")), page.asked.join());
      assert.equal(await page.locator(".notes").textContent(), "");
    });
  });
});

describe("safety", () => {
  it("keeps the token out of the address, and still answers when the page is loaded again", async () => {
    const page = await openPage(browser, server.url);
    assert.doesNotMatch(page.url(), /token/);
    const asked = page.asked.length;
    await page.reload();
    await page.waitForFunction(() => document.querySelector("canvas") !== null);
    assert.ok(page.asked.length > asked);
    assert.deepEqual(page.problems, []);
    await page.close();
  });
  it("refuses to answer without the token, and says what to do", async () => {
    const page = await browser.newPage();
    const response = await page.goto(server.url.replace(/token=\w+/, "token=wrong"));
    assert.equal(response.status(), 403);
    assert.match(await page.textContent("body"), /open the URL that gpumemprof view printed/);
    await page.close();
  });

  it("lets no foreign script run and nothing foreign be asked", () =>
    onTraining("", async (page) => {
      const policy = (await page.request.get(server.url)).headers()["content-security-policy"];
      assert.match(policy, /^default-src 'none'; script-src 'sha256-[^']+'; /);
      assert.doesNotMatch(policy, /unsafe|https?:|\*/);
      await page.evaluate(() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
      });
      assert.equal(await page.evaluate(() => window.hacked), undefined);
      const origin = new URL(server.url).origin;
      assert.ok(page.asked.every((url) => url.startsWith(origin) || url.startsWith("data:")));
      page.problems = page.problems.filter((text) => !text.includes("Content Security Policy"));
    }));

  it("says so when the server is gone", async () => {
    const short = await serve(snapshot("mlp_b64_fp32_adam"));
    const page = await openPage(browser, short.url);
    await short.stop();
    await page.keyboard.press("2");
    await page.getByRole("alert").waitFor();
    assert.match(await page.getByRole("alert").textContent(), /no longer answers: start it again/);
    await page.close();
  });
});

describe("looks", () => {
  it("follows the browser's light or dark, and can be switched", async () => {
    for (const colorScheme of ["light", "dark"]) {
      await onTraining(
        "",
        async (page) => {
          assert.equal(await page.locator("html").getAttribute("data-theme"), colorScheme);
          await page.getByRole("button", { name: "Switch between light and dark" }).click();
          assert.notEqual(await page.locator("html").getAttribute("data-theme"), colorScheme);
        },
        { colorScheme },
      );
    }
  });

  it("fits 1280 by 720 without scrolling the page", () =>
    onTraining("", async (page) => {
      for (const view of ["timeline", "flame", "segments", "allocations", "summary", "compare"]) {
        await showView(page, view);
        const { width, height } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight }));
        assert.ok(width <= 1280 && height <= 720, `${view}: ${width} × ${height}`);
      }
    }));
});

describe("unusual recordings", () => {
  for (const name of ["oom_fragmented", "cudagraph", "stress_s_expandable_streams_cap"]) {
    it(`shows ${name}`, async () => {
      const file = snapshot(name);
      const one = await serve(file);
      const wanted = report(file).devices[0];
      await withPage(one.url, async (page) => {
        for (const view of ["flame", "segments", "allocations", "summary", "compare", "timeline"]) await showView(page, view);
        await showView(page, "segments");
        await expectExact(page, "map-reserved", wanted.at.reserved_bytes);
        await expectExact(page, "map-allocated", wanted.at.allocated_bytes);
      });
      await one.stop();
    });
  }

  it("says where a truncated file ends", async () => {
    const cut = join(folder, "cut.pickle");
    runPython(
      "import gzip, sys; data = gzip.open(sys.argv[1]).read(); open(sys.argv[2], 'wb').write(data[: len(data) // 2])",
      training,
      cut,
    );
    const broken = await serve(cut);
    await withPage(broken.url, async (page) => assert.match(await page.locator(".notes").textContent(), /is incomplete/));
    await broken.stop();
  });
});
