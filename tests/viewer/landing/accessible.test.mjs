// Every view at three widths in both themes: nothing serious for axe-core, nothing cut off or over another, readable
// text. What the views look like is compared in tests/viewer/visual.
import assert from "node:assert/strict";
import { test } from "node:test";
import { seriousFindings } from "../axe.mjs";
import { complete, snapshot } from "../support.mjs";
import { suite, until } from "../suite.mjs";

const { on } = suite();
const file = snapshot("leak_loss_history");
const VIEWS = ["timeline", "flame", "segments", "allocations", "summary", "compare", "steps", "whatif"];
const WIDTHS = [360, 1280, 3840];

const waits = { steps: "[data-testid=steps]", whatif: "[data-testid=remedies], [data-testid=no-advice]", summary: "[data-testid=live-stacks]", compare: ".compared", timeline: "[data-testid=verdict-text]" };

async function shown(page, view) {
  if (waits[view] !== undefined) await page.locator(waits[view]).first().waitFor();
  await complete(page);
}

/** Controls that are cut off by the window, or that cover each other. */
const layoutProblems = (page) =>
  page.evaluate(() => {
    const problems = [];
    const visible = (element) => element.offsetParent !== null && element.getClientRects().length > 0;
    const controls = [...document.querySelectorAll("header button, header select, header input, .verdict button, .bar button, .bar select, .panel button, .panel select")].filter(visible);
    const scrolls = (element) => {
      for (let at = element.parentElement; at !== null; at = at.parentElement) if (/auto|scroll/.test(getComputedStyle(at).overflowX + getComputedStyle(at).overflowY)) return true;
      return false;
    };
    const boxes = controls.map((element) => ({ element, box: element.getBoundingClientRect(), inScroll: scrolls(element) }));
    for (const { element, box, inScroll } of boxes) {
      const name = element.textContent || element.getAttribute("aria-label");
      if (box.left < -1 || box.right > innerWidth + 1) problems.push(`${name} is beyond the window: ${box.left} to ${box.right}`);
      if (!inScroll && box.bottom > innerHeight + 1) problems.push(`${name} is below the window: ${box.bottom}`);
      if (element.tagName === "BUTTON" && element.scrollWidth > element.clientWidth + 1 && element.querySelector(".label") === null && getComputedStyle(element).overflow === "hidden") problems.push(`${name} is cut`);
    }
    for (let a = 0; a < boxes.length; a++) {
      for (let b = a + 1; b < boxes.length; b++) {
        const [one, two] = [boxes[a], boxes[b]];
        if (one.element.contains(two.element) || two.element.contains(one.element) || one.inScroll !== two.inScroll) continue;
        const wide = Math.min(one.box.right, two.box.right) - Math.max(one.box.left, two.box.left);
        const high = Math.min(one.box.bottom, two.box.bottom) - Math.max(one.box.top, two.box.top);
        if (wide > 2 && high > 2) problems.push(`${one.element.textContent} covers ${two.element.textContent}`);
      }
    }
    // Words that are broken letter by letter.
    for (const cell of [...document.querySelectorAll("td, th")].filter(visible)) {
      const widest = Math.max(0, ...cell.innerText.split(/\s+/).map((word) => word.length));
      if (cell.clientWidth < Math.min(widest, 8) * 5) problems.push(`"${cell.innerText.slice(0, 20)}" has ${cell.clientWidth} pixels`);
    }
    if (document.documentElement.scrollWidth > innerWidth + 1) problems.push(`the page is ${document.documentElement.scrollWidth} wide`);
    return problems;
  });

/** Text that is shortened by "…" must have its whole in a title. */
const shortened = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("*")]
      .filter((element) => element.children.length === 0 && element.offsetParent !== null && getComputedStyle(element).textOverflow === "ellipsis" && element.scrollWidth > element.clientWidth + 1 && element.closest("[title]:not([title=''])") === null)
      .map((element) => element.textContent),
  );

for (const colorScheme of ["light", "dark"]) {
  for (const width of WIDTHS) {
    test(`${colorScheme}, ${width} pixels wide`, async () => {
      for (const view of VIEWS) {
        await on(
          file,
          `#view=${view}`,
          async (page) => {
            await shown(page, view);
            assert.deepEqual(await layoutProblems(page), [], view);
            assert.deepEqual(await shortened(page), [], view);
            // Canvases have room to show something.
            const canvas = page.locator("main canvas:visible").first();
            if ((await canvas.count()) > 0) {
              const box = await canvas.boundingBox();
              assert.ok(box.width >= 200 && box.height >= 60, `${view}: the canvas is ${box.width} by ${box.height}`);
            }
            assert.deepEqual(await seriousFindings(page), [], view);
          },
          { colorScheme, viewport: { width, height: width === 360 ? 740 : width === 3840 ? 2160 : 720 } },
        );
      }
    });
  }
}

// What views show when something is chosen in them.
const CHOSEN = {
  "#axis=event&range=40-400&by=allocation&allocation=3": "[data-testid=range-lines]",
  "#view=flame&shape=sandwich&range=40-400&of=survived": ".flame canvas[data-boxes]",
  "#view=segments&history=on&settings=on": "[data-testid=settings] tr[data-conf]",
  "#view=allocations&search=size%3E1MiB+-xyz&allocation=3": "[data-testid=stack]",
  "#view=compare&as=flame": "[data-testid=difference-total]",
  "#view=compare&a=0.0.40-200&b=0.0.200-400": "[data-testid=compare-sum]",
  "#view=steps&open=1,2": "tr.phase:not([hidden])",
  "#view=whatif&with=checkpointing&fit=24": "[data-testid=together]",
};

// What a run that failed shows beside the rest.
const FAILED = {
  "": "[data-way=failure]",
  "#view=whatif": "[data-testid=failure-remedy]",
};
const states = [...Object.entries(CHOSEN).map((state) => [file, ...state]), ...Object.entries(FAILED).map((state) => [snapshot("oom_fragmented"), ...state])];

for (const [width, colorScheme] of [[360, "dark"], [1280, "light"], [3840, "light"]]) {
  test(`with something chosen in them, or of a run that failed: ${colorScheme}, ${width} pixels wide`, async () => {
    for (const [recording, hash, wait] of states) {
      await on(recording, hash, async (page) => {
        await page.locator(wait).first().waitFor();
        await complete(page);
        assert.deepEqual(await layoutProblems(page), [], hash);
        assert.deepEqual(await shortened(page), [], hash);
        assert.deepEqual(await seriousFindings(page), [], hash);
      }, { colorScheme, viewport: { width, height: width === 360 ? 740 : width === 3840 ? 2160 : 720 } });
    }
  });
}

test("the help is a dialog that axe-core accepts", () =>
  on(file, "", async (page) => {
    await page.keyboard.press("?");
    await page.locator("dialog").waitFor();
    assert.deepEqual(await seriousFindings(page), []);
  }));

// What each view is for, and how high that must be to be of use.
const CONTENT = { timeline: [".view.timeline canvas", 200], flame: [".view.flame .scroll", 150], segments: [".view.segments canvas", 60], allocations: [".view.allocations .table", 150], summary: [".view.summary", 150], compare: [".compared", 150], steps: ["[data-testid=steps]", 100], whatif: ["[data-testid=remedies]", 150] };

test("at 200 % zoom everything can be reached, and views have room", async () => {
  for (const view of VIEWS) {
    await on(file, `#view=${view}`, async (page) => {
      await shown(page, view);
      assert.deepEqual(await layoutProblems(page), [], view);
      const [selector, least] = CONTENT[view];
      const content = page.locator(selector).first();
      await content.scrollIntoViewIfNeeded();
      const { height } = await content.boundingBox();
      assert.ok(height >= least, `${view}: ${selector} is ${height} pixels high`);
      const cut = await page.evaluate(() => [...document.querySelectorAll(".verdict")].filter((verdict) => verdict.offsetParent !== null && verdict.scrollHeight > verdict.clientHeight + 1).length);
      assert.equal(cut, 0, `${view}: the verdict is cut`);
    }, { viewport: { width: 640, height: 360 }, deviceScaleFactor: 2 });
  }
});

test("in a narrow window, tables show what their rows are about", async () => {
  const options = { viewport: { width: 360, height: 740 } };
  await on(file, "#view=allocations", async (page) => {
    const box = await page.locator(".rows .row .cell.label").first().boundingBox();
    assert.ok(box.x + box.width <= 360, `where it was allocated ends at ${box.x + box.width}`);
  }, options);
  await on(file, "#view=compare", async (page) => {
    const box = await page.locator(".compared tbody tr").nth(1).locator("td").last().boundingBox();
    assert.ok(box.x < 300, `what is compared begins at ${box.x}`);
  }, options);
});

test("by keyboard alone: from the landing to the code of a remedy", () =>
  on(file, "", async (page) => {
    await page.getByTestId("verdict-text").waitFor();
    const tabTo = async (selector) => {
      for (let presses = 0; presses < 80; presses++) {
        if (await page.evaluate((wanted) => document.activeElement?.matches(wanted) === true, selector)) return;
        await page.keyboard.press("Tab");
      }
      assert.fail(`Tab does not reach ${selector}`);
    };
    await tabTo("[data-way=help]");
    await page.keyboard.press("Enter");
    await page.locator("[data-remedy]").first().waitFor();
    await tabTo("[data-remedy]");
    const name = await page.evaluate(() => document.activeElement.dataset.remedy);
    await page.keyboard.press("Space");
    await page.locator(`[data-testid=together][data-remedies="${name}"]`).waitFor();
    // The list was drawn again: the focus is still on the switch.
    await until(page, (wanted) => document.activeElement?.dataset.remedy === wanted, name);
    await page.keyboard.press("7");
    await until(page, () => document.querySelector(".view.steps")?.offsetParent !== null);
  }));
