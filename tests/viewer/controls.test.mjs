// The page with a keyboard, on narrow screens, and with large amounts of data.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { complete, settled, showView, snapshot } from "./support.mjs";
import { training } from "./recordings.mjs";
import { suite, until } from "./suite.mjs";

const { on } = suite();
const gpt2 = snapshot("gpt2_b4_fp32_adamw");
const facts = (page, name) => page.getByTestId("table-facts").getAttribute(`data-${name}`);

describe("the keyboard", () => {
  it("turns groups of the legend on and off with Enter and Space", () =>
    on(gpt2, "", async (page) => {
      const row = page.locator(".groups li button").nth(1);
      await row.focus();
      await page.keyboard.press("Enter");
      await until(page, () => document.querySelectorAll(".groups li button")[1].getAttribute("aria-pressed") === "true");
      // The keyboard focus stays on the row.
      assert.equal(await page.evaluate(() => [...document.querySelectorAll(".groups li button")].indexOf(document.activeElement)), 1);
      await page.keyboard.press("Space");
      await until(page, () => document.querySelectorAll(".groups li button")[1].getAttribute("aria-pressed") === "false");
    }));

  it("sorts the table with Enter and Space", () =>
    on(gpt2, "#view=allocations", async (page) => {
      await page.getByRole("button", { name: "Sort by lifetime" }).focus();
      await page.keyboard.press("Enter");
      await until(page, () => document.querySelector(".cell.lifetime").getAttribute("aria-sort") === "descending");
      await page.keyboard.press("Space");
      await until(page, () => document.querySelector(".cell.lifetime").getAttribute("aria-sort") === "ascending");
    }));

  it("goes from box to box of the flame graph", () =>
    on(gpt2, "#view=flame", async (page) => {
      await page.waitForSelector(".flame canvas[data-boxes]");
      await page.locator(".flame canvas").focus();
      const active = () => page.getByTestId("flame-active").textContent();
      await page.keyboard.press("ArrowDown");
      const first = await active();
      assert.match(first, /iB in .* block/);
      for (let turn = 0; turn < 5; turn++) await page.keyboard.press("ArrowDown");
      const deeper = await active();
      assert.notEqual(deeper, first);
      const before = await page.locator(".flame canvas").getAttribute("data-focus");
      await page.keyboard.press("Enter");
      await until(page, (was) => document.querySelector(".flame canvas").dataset.focus !== was, before);
      await page.keyboard.press("Escape");
      await until(page, () => document.querySelector(".flame canvas").dataset.focus === "");
      await page.keyboard.press("ArrowUp");
      await page.keyboard.press("ArrowRight");
      assert.notEqual(await active(), "");
    }));

  it("shows where it is", () =>
    on(gpt2, "", async (page) => {
      for (let turn = 0; turn < 30; turn++) {
        await page.keyboard.press("Tab");
        const outline = await page.evaluate(() => {
          const style = getComputedStyle(document.activeElement);
          return document.activeElement === document.body || style.outlineStyle !== "none" || Number(style.opacity) < 1;
        });
        assert.ok(outline);
      }
    }));
});

describe("a narrow screen", () => {
  for (const width of [400, 800, 1206]) {
    it(`reaches every control at ${width} pixels`, () =>
      on(
        gpt2,
        "",
        async (page) => {
          for (const view of ["timeline", "flame", "segments", "allocations", "summary", "compare"]) {
            await showView(page, view);
            await settled(page);
            const outside = await page.evaluate(() =>
              [...document.querySelectorAll("header button, header select, header input, .bar button, .bar select")]
                .filter((control) => control.offsetParent !== null)
                .filter((control) => {
                  const box = control.getBoundingClientRect();
                  return box.left < 0 || box.right > innerWidth + 0.5 || box.top < 0 || box.bottom > innerHeight || box.width === 0;
                })
                .map((control) => control.textContent || control.getAttribute("aria-label")),
            );
            assert.deepEqual(outside, [], view);
            assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
          }
          await showView(page, "timeline");
          // The canvas follows the layout a moment later.
          await until(page, () => {
            const box = document.querySelector(".view.timeline canvas").getBoundingClientRect();
            return box.width >= 200 && box.height >= 120;
          });
        },
        { viewport: { width, height: 720 } },
      ));
  }

  it("lets the panel be resized, and remembers it", () =>
    on(gpt2, "", async (page) => {
      const width = () => page.locator(".panel").evaluate((panel) => panel.getBoundingClientRect().width);
      assert.equal(await width(), 320);
      await page.mouse.move(960, 400);
      await page.mouse.down();
      await page.mouse.move(760, 400, { steps: 4 });
      await page.mouse.up();
      assert.ok(Math.abs((await width()) - 520) < 4, `${await width()}`);
      await page.getByRole("separator").focus();
      await page.keyboard.press("ArrowRight");
      const narrower = await width();
      assert.ok(narrower < 510);
      await page.reload();
      await complete(page);
      assert.equal(await width(), narrower);
      // Until someone chooses, a wide window gives it more room, and a narrow one less.
      await page.getByRole("separator").dblclick();
      for (const [window, wanted] of [[1280, 320], [3840, 560], [2560, 410], [800, 264]]) {
        await page.setViewportSize({ width: window, height: 720 });
        await until(page, (most) => document.querySelector(".panel").getBoundingClientRect().width === most, wanted);
      }
    }));
});

describe("a wrapped segment", () => {
  it("is one segment, open where it goes on", () => {
    const file = training("wrapped", { steps: 2, segment_mib: 64 });
    return on(file, "#view=segments", async (page) => {
      await page.waitForSelector(".segments canvas[data-lines]");
      assert.equal(await page.getByTestId("map-segments").textContent(), "1 segment");
      const data = (name) => page.locator(".segments canvas").getAttribute(`data-${name}`).then(Number);
      assert.ok((await data("lines")) > 5);
      assert.equal(await data("starts"), 1);
      assert.equal(await data("ends"), 1);
    });
  });
});

describe("a zoom of 64", () => {
  it("reaches the last block of the last segment", () =>
    on(gpt2, "#view=segments&zoom=64", async (page) => {
      await page.waitForSelector(".segments canvas[data-lines]");
      const height = await page.locator(".segments .scroll").evaluate((scroll) => scroll.scrollHeight);
      assert.ok(height > 30000, `${height}`);
      await page.locator(".segments .scroll").evaluate((scroll) => (scroll.scrollTop = scroll.scrollHeight));
      await page.waitForTimeout(150);
      // The end of the map is drawn: its lowest lines have colour or stripes.
      const drawn = await page.locator(".segments canvas").evaluate((canvas) => {
        const pixels = canvas.getContext("2d").getImageData(0, canvas.height / 2, canvas.width, canvas.height / 2).data;
        return pixels.some((value, at) => at % 4 === 3 && value > 0);
      });
      assert.ok(drawn);
    }, { viewport: { width: 1280, height: 1500 } }));
});

describe("the search", () => {
  const trained = training("searched", { steps: 20 });
  const matches = async (page, words) => {
    await page.getByRole("searchbox").fill(words);
    await page.waitForFunction((text) => new URLSearchParams(location.hash.slice(1)).get("search") === text, words);
    await until(page, () => document.querySelector("[data-testid=table-facts]").dataset.query?.length > 0);
    await settled(page);
    return Number(await facts(page, "matches"));
  };

  it("finds lines, sources and sizes, and says what it understood", () =>
    on(trained, "#view=allocations", async (page) => {
      await page.locator(".rows .row").first().waitFor();
      const all = Number(await facts(page, "matches"));
      assert.equal(await matches(page, "train.py:19"), all);
      assert.equal(await matches(page, "train.py:20"), 0);
      // Three allocations per forward, and the four parameters are allocated on another line.
      assert.equal(await matches(page, "linear.py:109"), 60);
      assert.match(await page.locator(".meaning").textContent(), /line 109 of linear\.py/);
      assert.equal(await matches(page, "size>=4MiB"), 20);
      assert.match(await page.locator(".meaning").textContent(), /size at least 4\.00 MiB/);
      assert.equal(await matches(page, "size>4MiB"), 0);
      assert.match(await page.getByTestId("table-facts").textContent(), /0 allocations match/);
      assert.equal(await matches(page, "parameters"), 4);
      assert.equal(await matches(page, "-linear.py"), all - 64);
      await page.getByRole("searchbox").fill("size>=lots");
      await page.locator(".chip.bad").waitFor();
    }));
});

describe("a click on a band", () => {
  it("says that the table is filtered, and offers to clear it", () =>
    on(gpt2, "#group=0", async (page) => {
      await showView(page, "allocations");
      await page.getByTestId("group-filter").waitFor();
      await until(page, () => /only parameters/.test(document.querySelector("[data-testid=group-filter]")?.textContent ?? ""));
      await until(page, () => Number(document.querySelector("[data-testid=table-facts]").dataset.matches) > 0);
      const some = Number(await facts(page, "matches"));
      await page.getByRole("button", { name: "Clear the filter by group" }).click();
      await until(page, (few) => Number(document.querySelector("[data-testid=table-facts]").dataset.matches) > few, some);
    }));
});

describe("names that turn text round", () => {
  it("are shown without what turns it", () => {
    const file = training("turned", { steps: 2, name: "\u202e" });
    return on(file, "#view=allocations", async (page) => {
      await page.locator(".rows .row").first().waitFor();
      await page.locator(".rows .row").first().click();
      await page.getByTestId("stack").waitFor();
      const text = await page.evaluate(() => document.body.innerText + document.title);
      assert.ok(!text.includes("\u202e"));
      assert.ok(text.includes("train.py:19"));
    });
  });
});

describe("very many rows", () => {
  it("are reached to the last", () =>
    on(gpt2, "", async (page) => {
      // Three million synthetic rows: a browser's scroll bar cannot reach that far.
      await page.route("**/api/allocations?**", async (route) => {
        const given = new URL(route.request().url()).searchParams;
        const [offset, limit] = [Number(given.get("offset")), Number(given.get("limit"))];
        const row = Array.from({ length: Math.min(limit, 3_000_000 - offset) }, (_, at) => offset + at);
        const zeros = row.map(() => 0);
        await route.fulfill({
          json: {
            matches: 3_000_000, matching_bytes: 0, row, size: zeros, requested: zeros, birth: zeros, death: zeros, birth_ns: zeros,
            lifetime: zeros, source: zeros, stack: zeros, forward_stack: zeros, label: zeros,
            name: row.map(() => null), tag: row.map(() => null), labels: ["x"],
          },
        });
      });
      await showView(page, "allocations");
      await page.locator(".rows .row").first().waitFor();
      const scroll = page.locator(".rows");
      await scroll.evaluate((rows) => (rows.scrollTop = rows.scrollHeight));
      await page.locator(".row[data-row='2999999']").waitFor();
      // From there the wheel moves a few rows, not thousands.
      await scroll.evaluate((rows) => (rows.scrollTop -= 260));
      await page.locator(".row[data-row='2999980']").waitFor();
      await scroll.evaluate((rows) => (rows.scrollTop = rows.scrollHeight / 2));
      await until(page, () => Math.abs(Number(document.querySelector(".rows .row")?.dataset.row) - 1_500_000) < 2000);
    }));
});

describe("what is missing in a recording", () => {
  it("stands above everything else", () =>
    on(gpt2, "", async (page) => {
      assert.equal(await page.getByTestId("incomplete").textContent(), "");
      await page.route("**/api/meta**", async (route) => {
        const answer = await (await route.fetch()).json();
        answer.files[0].completeness = { what_is_missing: ["1,234 events were lost between 2 s and 3 s.", "It was never closed."] };
        await route.fulfill({ json: answer });
      });
      await page.reload();
      await complete(page);
      assert.match(await page.getByTestId("incomplete").textContent(), /1,234 events were lost.*never closed/);
      assert.ok((await page.getByTestId("incomplete").boundingBox()).y < 120);
    }));
});

describe("names and tags of tensors", () => {
  it("are columns of the table where there are any", () =>
    on(gpt2, "", async (page) => {
      await page.route("**/api/allocations?**", async (route) => {
        const answer = await (await route.fetch()).json();
        answer.name = answer.row.map((row) => `blocks.${row}.down.weight`);
        answer.tag = answer.row.map(() => "kv_cache");
        await route.fulfill({ json: answer });
      });
      await showView(page, "allocations");
      await page.getByRole("columnheader", { name: "Tag" }).waitFor();
      assert.match(await page.locator(".rows .row .name").first().textContent(), /blocks\.\d+\.down\.weight/);
      assert.equal(await page.locator(".rows .row .tag").first().textContent(), "kv_cache");
    }));
});

describe("memory of the CPU", () => {
  it("has no pool: nothing is said to be reserved", () =>
    on(gpt2, "", async (page) => {
      await page.route("**/api/meta**", async (route) => {
        const answer = await (await route.fetch()).json();
        Object.assign(answer.files[0].devices[0], { has_pool: false, peak_reserved_bytes: null });
        await route.fulfill({ json: answer });
      });
      await page.reload();
      await complete(page);
      await showView(page, "summary");
      await page.getByTestId("summary-peak").waitFor();
      const text = await page.locator(".view.summary .cards, .view.summary .columns > div:last-child").allTextContents();
      assert.doesNotMatch(text.join(), /reserved|segments taken|out of memory/);
    }));
});

describe("a grouping that takes its time", () => {
  it("leaves what was drawn until it is there, and says so", () =>
    on(gpt2, "", async (page) => {
      await page.route(/api\/(groups|tile)\?.*by=line/, async (route) => {
        await new Promise((resolve) => setTimeout(resolve, 700));
        await route.continue();
      });
      const view = page.locator(".view.timeline");
      await page.locator(".legend select").selectOption("line");
      await page.waitForTimeout(200);
      assert.equal(await view.getAttribute("data-busy"), "Grouping…");
      assert.ok(Number(await view.locator("canvas").getAttribute("data-bands")) > 0);
      await until(page, () => document.querySelector(".view.timeline").dataset.busy === undefined);
      await complete(page);
    }));
});
