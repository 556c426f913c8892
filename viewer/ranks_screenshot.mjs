// The screenshot of docs/ranks.md: a made-up job of 32 ranks. usage: node viewer/ranks_screenshot.mjs [OUT.png]
import { join, resolve } from "node:path";
import { folder, gpumemprof, openBrowser, root, runPython } from "../tests/viewer/support.mjs";

const out = resolve(process.argv[2] ?? join(root, "docs/images/ranks.png"));

// Four stages of a pipeline with eight replicas each; sequences differ from step to step, one rank
// gets longer ones from step 70 on, and another one fails.
const JOB = `
import random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ranks.made_ranks import GIB, MIB, START_NS, made_rank, write_ranks
chance = random.Random(3)
steps = [1 + 0.12 * chance.random() for _ in range(120)]
ranks = []
for rank in range(32):
    stage, replica = divmod(rank, 8)
    peaks = [round((62 - 11 * stage) * GIB * length * (1 + 0.01 * chance.random())) for length in steps]
    if rank == 21:
        peaks = [peak + (18 * GIB if step >= 70 else 0) for step, peak in enumerate(peaks)]
    failed = {"failure_type": "ValueError", "failure_place": "data.py:41 pack"} if rank == 10 else {"failure_type": "DistBackendError", "is_failure_of_peer": True}
    made = made_rank(rank, 32, mesh={"pp": (stage, 4), "dp": (replica, 8)}, peaks=peaks, total_bytes=80 * GIB,
                     job="4711", failure_unix_ns=START_NS + 10**11 + rank, **failed)
    for row in made["held"]["sites"]: row["line"] = "model.py:88 Attention.forward"
    for row in made["held"]["modules"]: row["module"] = "layers.6.attention"
    made["columns"] = {"floor_bytes": [peak // 3 for peak in peaks], "outside_bytes": [500 * MIB] * len(peaks),
                       "reserved_bytes": [max(peaks[: step + 1]) + 20 * MIB for step in range(len(peaks))]}
    ranks.append(made)
write_ranks(Path(sys.argv[2]), ranks, "train")
`;
runPython(JOB, join(root, "tests/python"), folder);
const page = join(folder, "ranks.html");
gpumemprof("ranks", folder, "--html", page, "--force");
const browser = await openBrowser("--disable-lcd-text"); // greyscale text makes smaller files
const tab = await browser.newPage({ viewport: { width: 1400, height: 860 } });
await tab.goto(`file://${page}`);
await tab.waitForFunction(() => document.querySelector(".heatmap canvas")?.dataset.complete === "true");
const box = await tab.locator(".heatmap canvas").boundingBox();
const rowHeight = Math.min(22, Math.floor((box.height + 2 - 26) / 36));
await tab.mouse.move(box.x + 0.8 * box.width, box.y + 22 + rowHeight * 24.5);
await tab.waitForTimeout(300);
await tab.screenshot({ path: out });
await browser.close();
