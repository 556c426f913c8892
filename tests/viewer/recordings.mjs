// Recordings made for one test each: snapshots of synthetic training runs.
import { join } from "node:path";
import { folder, runPython } from "./support.mjs";

const TRAINING = `
import json, pickle, random, sys
given = json.loads(sys.argv[2])
random.seed(7)
MIB = given.get("unit_kib", 1 << 10) << 10
base = given.get("base", 0x7f0000000000)
name = given.get("name", "")
user = [{"name": name + "train", "filename": "/train/" + name + "train.py", "line": 19},
        {"name": "<module>", "filename": "/train/" + name + "train.py", "line": 40}]
nn = "/usr/lib/python3/dist-packages/torch/nn/modules/"
forward = [{"name": "forward", "filename": nn + "linear.py", "line": 109}, {"name": "forward", "filename": "/train/model.py", "line": 7}, *user]
backward = [{"name": "_engine_run_backward", "filename": "/usr/lib/python3/dist-packages/torch/autograd/graph.py", "line": 824}, *user]
optimizer = [{"name": "step", "filename": "/usr/lib/python3/dist-packages/torch/optim/adam.py", "line": 200}, *user]
setup = [{"name": "__init__", "filename": nn + "linear.py", "line": 99}, *user]
events, clock, live, offset = [], [1000], [], [0]
def event(action, addr, size, frames):
    clock[0] += given.get("event_us", 10)
    events.append({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": clock[0], "frames": frames})
    if given.get("tag") and frames is optimizer: events[-1]["user_metadata"] = given["tag"]
def alloc(size, frames):
    addr = base + offset[0]
    offset[0] += size
    event("alloc", addr, size, frames)
    live.append((addr, size))
    return addr, size
def free(block, frames):
    live.remove(block)
    for action in ("free_requested", "free_completed"): event(action, *block, frames)
    if block[0] + block[1] == base + offset[0]: offset[0] -= block[1]
total = given.get("segment_mib", 64) * MIB
event("segment_alloc", base, total, setup)
for _ in range(given.get("parameters", 4)): alloc(MIB, setup)
def run_forward():
    return [alloc(2 * MIB + 512 * random.randint(0, given.get("jitter", 0)), forward) for _ in range(given.get("layers", 3))]
losses = [{"name": "log", "filename": "/train/" + name + "train.py", "line": 27}, *user[1:]]
for step in range(given["steps"]):
    clock[0] += given.get("pause_us", 0)
    if given.get("leak_kib"): alloc(given["leak_kib"] << 10, losses)
    if given.get("evaluate_every") and step % given["evaluate_every"] == 1:
        for block in reversed(run_forward()): free(block, forward)
    kept = run_forward()
    while kept:
        free(kept.pop(), backward)
        grown = alloc(MIB, backward)
        free(grown, backward)
    state = alloc(4 * MIB, optimizer)
    free(state, optimizer)
if given.get("oom"): event("oom", 3 * MIB, 1 << 30, forward)
blocks, at = [], base
for addr, size in sorted(live):
    if addr > at: blocks.append({"address": at, "size": addr - at, "requested_size": 0, "state": "inactive", "frames": []})
    blocks.append({"address": addr, "size": size, "requested_size": size, "state": "active_allocated", "frames": setup})
    at = addr + size
blocks.append({"address": at, "size": base + total - at, "requested_size": 0, "state": "inactive", "frames": []})
held = sum(size for _, size in live)
segment = {"device": 0, "address": base, "total_size": total, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
           "is_expandable": False, "allocated_size": held, "active_size": held, "requested_size": held, "blocks": blocks, "frames": setup}
marks = []
for index in range(given.get("annotations", 0)):
    span = (clock[0] - 1000) / given["annotations"]
    for stage, at in (("START", 0.2), ("END", 0.6)):
        marks.append({"stage": stage, "name": f"note {index}", "device": 0, "time_us": int(1000 + (index + at) * span)})
pickle.dump({"segments": [segment], "device_traces": [events], "allocator_settings": {}, "external_annotations": marks},
            open(sys.argv[1], "wb"), protocol=4)
`;

/** A snapshot of a training run: {steps, jitter, leak_kib, pause_us, unit_kib (for 1 MiB), evaluate_every, oom, annotations, tag, …}. */
export function training(name, options) {
  const file = join(folder, `${name}.pickle`);
  runPython(TRAINING, file, JSON.stringify(options));
  return file;
}

const TAGGED = `
import sys, torch, gpumemprof
from torch import nn
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(64), nn.Linear(64, 256), nn.Linear(256, 64)
    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 64)
        self.h = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(64, 100)
    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.h: x = block(x)
        return self.head(x)
with gpumemprof.record(sys.argv[1], cpu=True):
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    with gpumemprof.tag("kv_cache"):
        cache = [torch.zeros(2, 8, 64) for _ in range(8)]
    for _ in range(2):
        model(torch.randint(100, (8, 32))).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
`;

/** A live recording of CPU tensors, with module instances, tags and names. */
export function tagged() {
  const file = join(folder, "tagged.gmp");
  runPython(TAGGED, file);
  return file;
}

const SMALL = `
import json, pickle, sys
given = json.loads(sys.argv[2])
MIB, base = 1 << 20, 0x7f0000000000
events, blocks, at = [{"action": "segment_alloc", "addr": base, "size": 512 * MIB, "stream": 0, "time_us": 10, "frames": []}], [], base
for index, (mib, frames) in enumerate(given["allocations"]):
    stack = [{"name": name, "filename": file, "line": line} for name, file, line in frames]
    events.append({"action": "alloc", "addr": at, "size": mib * MIB, "stream": 0, "time_us": 20 + index, "frames": stack})
    blocks.append({"address": at, "size": mib * MIB, "requested_size": mib * MIB, "state": "active_allocated", "frames": stack})
    at += mib * MIB
blocks.append({"address": at, "size": base + 512 * MIB - at, "requested_size": 0, "state": "inactive", "frames": []})
segment = {"device": 0, "address": base, "total_size": 512 * MIB, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0),
           "is_expandable": False, "allocated_size": at - base, "active_size": at - base, "requested_size": at - base,
           "blocks": blocks, "frames": []}
pickle.dump({"segments": [] if given.get("empty") else [segment], "device_traces": [events if given.get("history", True) else []],
             "allocator_settings": {}, "external_annotations": []}, open(sys.argv[1], "wb"), protocol=4)
`;

/** A snapshot of some allocations that stay: [MiB, [[function, file, line], …]] each; {history: false}: only what is live at the end. */
export function small(name, allocations, options = {}) {
  const file = join(folder, `${name}.pickle`);
  runPython(SMALL, file, JSON.stringify({ allocations, ...options }));
  return file;
}
