// Text from a recording stays text, wherever the page shows it.
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { suite } from "./suite.mjs";
import { folder, gpumemprof, runPython, showView } from "./support.mjs";

const { on, withPage } = suite();

const HOSTILE = `
import pickle, sys
evil = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">'
close = '</script></pre><svg onload=window.hacked=1>'
frames = [{"name": evil, "filename": "/train/" + evil, "line": 1}, {"name": close, "filename": close, "line": 2},
          {"name": "forward", "filename": "'\\"><b>x", "line": 3}]
def event(action, addr, size, time):
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time, "frames": frames,
            "compile_context": evil, "user_metadata": evil}
base = 0x7f0000000000
events = [event("segment_alloc", base, 20 << 20, 1)]
for index in range(8):
    events.append(event("alloc", base + (index << 20), 1 << 20, 10 + index))
events.append(event("oom", 1 << 20, 1 << 30, 30))
blocks = [{"address": base + (index << 20), "size": 1 << 20, "requested_size": 1 << 20, "state": "active_allocated",
           "frames": frames} for index in range(8)]
blocks.append({"address": base + (8 << 20), "size": 12 << 20, "requested_size": 0, "state": "inactive", "frames": []})
segment = {"device": 0, "address": base, "total_size": 20 << 20, "stream": 0, "segment_type": "large",
           "segment_pool_id": (0, 0), "is_expandable": False, "allocated_size": 8 << 20, "active_size": 8 << 20,
           "requested_size": 8 << 20, "blocks": blocks, "frames": frames}
marks = [{"stage": stage, "name": evil, "device": 0, "time_us": time} for stage, time in (("START", 5), ("END", 25))]
pickle.dump({"segments": [segment], "device_traces": [events], "allocator_settings": {evil: evil},
             "external_annotations": marks}, open(sys.argv[1], "wb"), protocol=4)
`;

describe("a hostile recording", () => {
  const visit = async (page) => {
    for (const view of ["flame", "segments", "allocations", "summary", "compare", "timeline"]) {
      await showView(page, view);
      await page.waitForTimeout(120);
      await page.mouse.move(300, 250);
      if (view === "allocations") {
        await page.locator(".rows .row").first().click();
        await page.getByTestId("stack").waitFor();
      }
    }
    const stack = await page.getByTestId("stack").textContent();
    assert.ok(stack.includes("<script>window.hacked=1</script>"), stack);
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("img, svg, b.x").count(), 0);
  };

  it("stays text, on a server and in a file", async () => {
    const file = join(folder, "<b>hostile.pickle");
    runPython(HOSTILE, file);
    await on(file, "", visit);
    const html = join(folder, "hostile.html");
    gpumemprof("report", "--html", html, file);
    await withPage(pathToFileURL(html).href, visit);
  });
});
