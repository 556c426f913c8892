// The standalone file answers as a server does.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { load } from "./sources.mjs";
import { clickTimeline, exact, expectExact, folder, gpumemprof, showView, snapshot } from "./support.mjs";
import { tagged, training } from "./recordings.mjs";
import { asked, suite, until } from "./suite.mjs";

const { on, withPage } = suite();
const { EmbeddedSource } = await load("data/embedded.ts");
const { questionText } = await load("data/source.ts");

function standaloneFile(file, name) {
  const html = join(folder, `${name}.html`);
  gpumemprof("report", "--html", html, file);
  return pathToFileURL(html).href;
}

/** The file as its own page reads it. */
async function embedded(html) {
  const text = readFileSync(fileURLToPath(html), "utf8");
  const packed = new Map([...text.matchAll(/data-section="([^"]+)">([^<]*)</g)].map(([, name, content]) => [name, content]));
  const first = JSON.parse(gunzipSync(Buffer.from(packed.get("first"), "base64")));
  const source = new EmbeddedSource(first, packed);
  await source.readKnown();
  return source;
}

/** Answers from a standalone file and from a server, for one device. */
function comparer(source, page) {
  const both = async (name, more) => {
    const given = { file: 0, device: 0, ...more };
    return [JSON.parse(JSON.stringify(await source.ask(name, given))), await asked(page, questionText(name, given))];
  };
  const same = async (name, more) => {
    const [mine, theirs] = await both(name, more);
    assert.deepEqual(mine, theirs, questionText(name, more));
  };
  return { both, same };
}

/** The same boxes in any order; those of equal size have none. */
/** Where memory was freed is not in the file. */
async function sameRange({ both }, given) {
  const [mine, { moves, moves_left_out, ...theirs }] = await both("range", given);
  assert.deepEqual(mine, theirs, JSON.stringify(given));
  assert.equal(moves.reduce((sum, { bytes }) => sum + bytes, 0), moves_left_out === 0 ? theirs.all.freed_bytes : NaN);
}

async function sameFlame({ both }, given, name = "flame") {
  const [mine, theirs] = await both(name, given);
  assert.deepEqual(sorted(mine), sorted(theirs));
  for (const figure of ["position", "allocated_bytes", "blocks", "nodes_left_out"]) assert.equal(mine[figure], theirs[figure], figure);
}

async function sameSegments({ both }, given) {
  const [mine, theirs] = await both("segments", given);
  assert.deepEqual(mine.segments.map(({ start, ...segment }) => segment), theirs.segments);
  for (const column of ["position", "size", "row", "group", "reserved_bytes", "allocated_bytes", "waiting_bytes", "free_bytes"]) assert.deepEqual(mine[column], theirs[column], column);
  assert.deepEqual(labelled(mine), labelled(theirs));
}

/** Numbers of stacks and labels are each answer's own. */
const labelled = ({ label, labels }) => label.map((at) => labels[at]);
async function sameRows({ both }, name, given) {
  const [mine, theirs] = await both(name, given);
  for (const column of ["matches", "matching_bytes", "row", "size", "requested", "birth", "death", "birth_ns", "lifetime", "source", "name", "tag"]) {
    assert.deepEqual(mine[column], theirs[column], `${name} ${JSON.stringify(given)}: ${column}`);
  }
  assert.deepEqual(labelled(mine), labelled(theirs));
}

const sorted = (flame) =>
  flame.bytes.map((bytes, node) => {
    const way = [];
    for (let at = node; at >= 0; at = flame.parent[at]) way.push(JSON.stringify(flame.frames[flame.frame[at]]));
    return [way.join(" < "), bytes, flame.self_bytes[node], flame.node_blocks[node]].join(" | ");
  }).sort();

/** The names of all visible boxes of the flame graph, from the top. */
async function boxNames(page, hash) {
  await page.waitForSelector(".flame canvas[data-boxes]");
  await until(page, (part) => location.hash.includes(part), hash);
  const whole = page.getByRole("button", { name: "Show everything" });
  if ((await whole.count()) > 0) await whole.click();
  return page.locator(".flame canvas").evaluate((canvas) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const names = new Set();
    for (let y = 10; y < height; y += 20) {
      for (let x = 2; x < width; x += 3) {
        canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: left + x, clientY: top + y }));
        const tooltip = document.querySelector(".tooltip");
        if (!tooltip.hidden) names.add(tooltip.firstElementChild.textContent);
      }
    }
    return [...names];
  });
}

describe("a file with the whole history", () => {
  const live = tagged();
  const answered = ["oom_fragmented", "stress_s_expandable_streams_cap", "cudagraph", "mlp_b64_fp32_adam"].map((name) => [name, snapshot(name)]);
  for (const [name, file] of [...answered, ["tagged", live]]) {
    it(`answers every question about ${name} as the server does`, async () => {
      const source = await embedded(standaloneFile(file, name));
      const meta = await source.ask("meta", {});
      const device = meta.files[0].devices[0];
      const by = device.group_bys[0];
      await on(file, "", async (page) => {
        const answers = comparer(source, page);
        const { same } = answers;
        await same("report", {});
        await same("overlays", {});
        for (const grouping of device.group_bys) await same("groups", { by: grouping });
        for (const position of [0, 1, Math.floor(device.events / 3), device.peak_position, device.events]) {
          await same("moment", { position });
          for (const grouping of device.group_bys) await same("group_bytes", { position, by: grouping });
          for (const flameBy of device.flame_bys) await sameFlame(answers, { position, by: flameBy });
          await sameSegments(answers, { position, by });
        }
        await same("compare", { position: device.peak_position, file2: 0, device2: 0, position2: device.events, by });
        for (const axis of device.duration_ns === null ? ["event"] : ["event", "time"]) {
          await same("spans", { axis, level: 0, index: 0 });
          for (const [level, index] of [[0, 0], [2, 1], [2, 3]]) await same("tile", { axis, level, index, by });
        }
        for (const given of [
          { order: "size" }, { order: "lifetime", direction: "up" }, { order: "birth", words: "py", min_size: 1024 }, { words: "kv_cache" }, { words: "tag:kv" },
          { words: "name:h.1" }, { words: "-step source:gradients" }, { live_at: device.peak_position, order: "rounding" }, { by, group: 0 }, { from: 5, to: 50, offset: 3 }, { max_lifetime: 1_000_000, max_size: 4096 },
        ]) await sameRows(answers, "allocations", { ...given, limit: 40 });
        // All that fit are listed; of too many, which of two equal ones is left out is open.
        const [third, half] = [Math.floor(device.events / 3), Math.floor(device.events / 2)];
        for (const by of device.group_bys) {
          await same("singles", { from: 0, to: device.events, by, axis: "event" });
          await same("singles", { from: third, to: half, by, axis: device.duration_ns === null ? "event" : "time", least_bytes: 2000, least_length: 3, most: 50 });
        }
        for (const [from, to] of [[0, device.events], [third, half], [half, half]]) {
          await sameRange(answers, { from, to });
          for (const part of ["allocated", "freed", "survived"]) await sameFlame(answers, { from, to, part, by: "stack" }, "range_flame");
        }
        for (let row = 0; row < Math.min(device.allocations, 40); row++) await same("allocation", { row });
      });
    });
  }

  it("shows modules by instance, and by line where the recording has none, and says so", async () => {
    const names = (page) => boxNames(page, "flame=module");
    await withPage(`${standaloneFile(live, "instances")}#view=flame&flame=module`, async (page) => {
      const found = await names(page);
      for (const name of ["Net", "h.0", "h.3.up"]) assert.ok(found.includes(name), `${name} among ${found.join()}`);
      assert.equal(await page.getByTestId("flame-by-line").count(), 0);
    });
    await withPage(`${standaloneFile(snapshot("mlp_b64_fp32_adam"), "lines")}#view=flame&flame=module`, async (page) => {
      assert.ok((await names(page)).some((name) => name.includes("forward")));
      assert.match(await page.getByTestId("flame-by-line").textContent(), /does not identify module instances/);
      assert.equal(await page.getByRole("button", { name: "By tag" }).count(), 0);
    });
  });

  it("shows what was tagged, in the flame graph and in the table", async () => {
    const href = standaloneFile(live, "tags");
    await withPage(`${href}#view=flame`, async (page) => {
      await page.getByRole("button", { name: "By tag" }).click();
      await until(page, () => location.hash.includes("flame=tag"));
      const found = await boxNames(page, "flame=tag");
      for (const name of ["kv_cache", "no tag"]) assert.ok(found.includes(name), `${name} among ${found.join()}`);
      assert.ok(found.some((name) => name.includes("<module>")), found.join());
    });
    await withPage(`${href}#view=allocations&search=tag:kv`, async (page) => {
      await page.waitForSelector(".rows .row .tag");
      assert.equal(await page.getByTestId("table-facts").getAttribute("data-matches"), "8");
      assert.equal(await page.locator(".rows .row .tag").first().textContent(), "kv_cache");
    });
    await withPage(`${href}#view=allocations&search=name:h.1.up.weight`, async (page) => {
      await page.waitForSelector(".rows .row .name");
      assert.match(await page.locator(".rows .row .name").first().textContent(), /^h\.1\.up\.weight/);
    });
  });

  it("keeps the head of the table over its columns where they do not fit", async () => {
    await withPage(`${standaloneFile(live, "narrow")}#view=allocations&scope=all`, async (page) => {
      await page.waitForSelector(".rows .row .name", { state: "attached" });
      await page.locator(".table").evaluate((table) => table.scrollTo(10_000, 0));
      const left = (selector) => page.locator(selector).first().evaluate((cell) => cell.getBoundingClientRect().left);
      for (const column of ["source", "name", "label"]) assert.equal(await left(`.head .${column}`), await left(`.rows .row .${column}`), column);
      const [right, edge] = await page.locator(".rows .row .label").first().evaluate((cell) => [cell.getBoundingClientRect().right, cell.closest(".rows").getBoundingClientRect().right]);
      assert.ok(right <= edge + 1, `${right} beyond ${edge}`);
    }, { viewport: { width: 800, height: 640 } });
  });

  it("goes to any event, with every figure there", async () => {
    const file = snapshot("gpt2_b4_fp32_adamw");
    await withPage(standaloneFile(file, "any"), async (page) => {
      assert.equal(await page.locator(".notes").textContent(), "");
      await clickTimeline(page, 333, 500);
      assert.ok((await page.locator(".groups li[data-bytes]").count()) > 3);
      const at = Number(await page.getByTestId("cursor-where").getAttribute("data-position"));
      const shown = async () => page.locator(".groups li").evaluateAll((rows) => rows.map((row) => row.dataset.bytes));
      assert.ok((await shown()).every((bytes) => bytes !== ""));
      // The next event is a different moment, not the next of a few known ones.
      await page.keyboard.press("e");
      await page.keyboard.press("p");
      await page.evaluate((position) => { location.hash = `#view=flame&at=${position}`; }, at + 1);
      await expectExact(page, "cursor-where", at + 1, "position");
      const allocated = Number(await page.getByTestId("cursor-allocated").getAttribute("data-bytes"));
      await expectExact(page, "flame-total", allocated);
      assert.equal(await page.getByTestId("flame-moment").count(), 0);
      await showView(page, "segments");
      await expectExact(page, "map-allocated", allocated);
    });
  });
});

describe("a file without the whole history", () => {
  // Addresses beyond a browser's exact integers: the history is left out, as for a large run.
  const large = () => training("large", { steps: 2000, base: 2 ** 60, tag: "state" });

  it("answers about the moments it knows as the server does", async () => {
    const file = large();
    const source = await embedded(standaloneFile(file, "known"));
    assert.equal(source.isWhole(0, 0), false);
    const device = (await source.ask("meta", {})).files[0].devices[0];
    await on(file, "", async (page) => {
      const answers = comparer(source, page);
      const { same, both } = answers;
      for (let part = 0; part <= 12; part++) {
        const position = source.nearestMoment(0, 0, Math.round((device.events * part) / 12));
        await same("moment", { position });
        for (const by of device.group_bys) await same("group_bytes", { position, by });
        const state = source.nearestState(0, 0, position);
        for (const by of device.flame_bys) await same("flame", { position: state, by });
        await same("segments", { position: state, by: device.group_bys[0] });
      }
      for (const axis of ["event", "time"]) {
        for (const by of device.group_bys) await same("tile", { axis, level: 2, index: 3, by });
        await same("spans", { axis, level: 2, index: 1 });
      }
      const listed = await source.ask("allocations", { file: 0, device: 0, limit: 40 });
      assert.equal(listed.row.length, 40);
      for (const row of listed.row) {
        const [mine, theirs] = await both("allocation", { row });
        for (const [field, value] of Object.entries(mine)) assert.deepEqual(value, theirs[field], `${field} of ${row}`);
      }
    });
  });

  it("takes at most 5 MB, and has single events around the peak, the failure and the highest moments of the run", async () => {
    const file = training("close", { steps: 2000, base: 2 ** 60, jitter: 400, oom: true });
    const href = standaloneFile(file, "close");
    assert.ok(readFileSync(fileURLToPath(href)).length <= 5e6);
    const source = await embedded(href);
    assert.equal(source.isWhole(0, 0), false);
    const device = (await source.ask("meta", {})).files[0].devices[0];
    const { ooms } = await source.ask("overlays", { file: 0, device: 0 });
    const level = device.deepest_level;
    assert.ok(512 * 2 ** level > device.events);
    await on(file, "", async (page) => {
      const { same } = comparer(source, page);
      for (const position of [device.peak_position, ooms[0].position, device.events]) {
        const index = Math.min(Math.floor((position / (device.events + 1)) * 2 ** level), 2 ** level - 1);
        for (const by of ["source", "line"].filter((any) => device.group_bys.includes(any))) await same("tile", { axis: "event", level, index, by });
      }
      await same("steps", {});
    });
    assert.ok(source.embedded.left_out.some((sentence) => /except at peaks, failures and the end/.test(sentence)), source.embedded.left_out.join("; "));
  });

  it("knows its moments, and says which one it shows", async () => {
    const file = large();
    const href = standaloneFile(file, "large");
    await withPage(href, async (page) => {
      assert.match(await page.locator(".notes").textContent(), /segment maps of cuda:0, except at [0-9]+ moments/);
      const clicks = [[200, 0.16], [500, 0.5], [800, 0.83]];
      for (const [x] of clicks) {
        await clickTimeline(page, x, 600);
        const rows = await page.locator(".groups li").evaluateAll((all) => all.map((row) => row.dataset.bytes));
        assert.ok(rows.length > 0 && rows.every((bytes) => bytes !== ""), rows.join());
        assert.equal(rows.reduce((sum, bytes) => sum + Number(bytes), 0), await exact(page, "cursor-allocated"));
        // Within a pixel of where the click was.
        const share = (x - 66) / (960 - 66 - 12);
        const at = Number(await page.getByTestId("cursor-where").getAttribute("data-position"));
        const events = await page.evaluate(() => Number(document.querySelector(".view.timeline canvas").dataset.events));
        assert.ok(Math.abs(at / events - share) < 0.01, `${at} of ${events} for ${share}`);
      }
      await showView(page, "flame");
      await page.getByTestId("flame-moment").waitFor();
      assert.match(await page.getByTestId("flame-moment").textContent(), /state after event [\d,]+, the nearest moment in this file/);
      await page.getByRole("button", { name: "By tag" }).click();
      await until(page, () => location.hash.includes("flame=tag"));
      await showView(page, "allocations");
      await page.waitForSelector(".rows .row .tag");
      assert.equal(await page.locator(".rows .row .tag").first().textContent(), "state");
    });
  });
});
