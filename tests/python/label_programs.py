"""Small training programs for the label tests: each reports at its end what is live."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import gpumemprof
from forked_programs import run_forked

# Programs call tell() at their end; the labels must add up to what is live then.
PRELUDE = """
import gc, json, warnings
import torch
from torch import nn
import gpumemprof

warnings.simplefilter("error", gpumemprof.RecordingWarning)
torch.manual_seed(0)

def size(tensors):
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(bytes for address, bytes in storages.items() if address)

def state_tensors(optimizers):
    return [t for o in optimizers for s in o.state.values() for t in s.values()
            if isinstance(t, torch.Tensor)]

def tell(models=(), optimizers=(), inputs=(), parameters=()):
    parameters = [*parameters, *(p for m in models for p in m.parameters())]
    buffers = [b for m in models for b in m.buffers()]
    gradients = [p.grad for p in parameters if p.grad is not None]
    print(json.dumps({
        "parameters": size([*parameters, *buffers]), "gradients": size(gradients),
        "optimizer_state": size(state_tensors(optimizers)), "inputs": size(inputs)}))

class Net(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(),
                                                  nn.Linear(2 * width, width)) for _ in range(3))
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 50, bias=False)
    def forward(self, ids, scale=None):
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(x)
        x = self.norm(x)
        return self.head(x if scale is None else x * scale)

def made(kind=torch.optim.AdamW, **settings):
    model = Net()
    return model, kind(model.parameters(), **settings)

def batch():
    return torch.randint(0, 50, (16,)), torch.randint(0, 50, (16,))

def train(model, optimizer, steps=3, forward=None):
    for step in range(steps):
        ids, labels = batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy((model if forward is None else forward)(ids), labels).backward()
        optimizer.step()
    return ids
"""

# How a model and its optimizer are created; three training steps follow, and tell().
TRAINED: dict[str, str] = {
    "adamw": "model, optimizer = made()",
    "adamw_foreach": "model, optimizer = made(foreach=True)",
    "adamw_fused": "model, optimizer = made(fused=True)",
    "lazy_modules": """
layers = nn.LazyLinear(32), nn.LazyBatchNorm1d(), nn.Linear(32, 50)
model = nn.Sequential(nn.Embedding(50, 8), *layers)
model(torch.randint(0, 50, (16,)))
optimizer = torch.optim.AdamW(model.parameters())
""",
    "sgd_without_state": "model, optimizer = made(torch.optim.SGD, lr=0.1)",
    "sgd_with_momentum": "model, optimizer = made(torch.optim.SGD, lr=0.1, momentum=0.9)",
    "tied_weights": """
model = Net(); model.head.weight = model.embed.weight
optimizer = torch.optim.AdamW(model.parameters())
""",
    "frozen_parameters": """
model = Net(); model.embed.weight.requires_grad_(False)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
""",
    "flattened_parameters": """
model = Net()
flat = torch.cat([p.detach().flatten() for p in model.parameters()])
start = 0
for p in model.parameters():
    p.data = flat[start:start + p.numel()].view_as(p)
    start += p.numel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
""",
    "data_parallel": """
model = nn.DataParallel(Net()); optimizer = torch.optim.AdamW(model.parameters())
""",
}
TRAINING = """
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
"""
PROGRAMS: dict[str, str] = {
    **{name: setup + TRAINING for name, setup in TRAINED.items()},
    "lbfgs_whose_state_is_lists": """
model, optimizer = made(torch.optim.LBFGS, max_iter=3)
ids, labels = batch()
def closure():
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(ids), labels)
    loss.backward()
    return loss
optimizer.step(closure); optimizer.step(closure)
def state_tensors(optimizers):
    found = []
    for value in next(iter(optimizer.state.values())).values():
        found += [v for v in (value if isinstance(value, list) else [value])
                  if isinstance(v, torch.Tensor)]
    return found
tell([model], [optimizer], [ids, labels])
""",
    "gradient_accumulation": """
model, optimizer = made()
for step in range(6):
    ids, labels = batch()
    nn.functional.cross_entropy(model(ids), labels).backward()
    if step % 3 == 2:
        optimizer.step()
        if step < 5:
            optimizer.zero_grad()
tell([model], [optimizer])
""",
    "autocast": """
model, optimizer = made()
for step in range(3):
    ids, labels = batch()
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = nn.functional.cross_entropy(model(ids), labels)
    loss.backward()
    optimizer.step()
tell([model], [optimizer], [ids, labels])
""",
    "checkpointed": """
from torch.utils.checkpoint import checkpoint
model, optimizer = made()
def forward(ids):
    x = model.embed(ids)
    for block in model.blocks:
        x = x + checkpoint(block, x, use_reentrant=False)
    return model.head(model.norm(x))
train(model, optimizer, forward=forward)
tell([model], [optimizer])
""",
    "no_optimizer": """
model = Net().eval()
with torch.no_grad():
    ids, labels = batch()
    out = model(ids)
tell([model], [], [ids, labels])
""",
    "never_called": """
model = Net()
tell([model])
""",
    "two_models_and_two_optimizers": """
one, other = Net(), Net(16)
optimizers = [torch.optim.AdamW(one.parameters()), torch.optim.SGD(other.parameters(), 0.1, 0.9)]
for step in range(3):
    first = train(one, optimizers[0], 1); second = train(other, optimizers[1], 1)
tell([one, other], optimizers, [first, second])
""",
    "parameters_that_no_module_owns": """
weights = [nn.Parameter(torch.randn(20, 20)) for _ in range(3)]
optimizer = torch.optim.AdamW(weights)
for step in range(3):
    optimizer.zero_grad()
    x = torch.randn(4, 20)
    for weight in weights:
        x = x @ weight
    x.sum().backward()
    optimizer.step()
tell([], [optimizer], [], weights)
""",
    "keyword_arguments_in_a_dict": """
model, optimizer = made()
for step in range(3):
    optimizer.zero_grad()
    inputs = {"ids": torch.randint(0, 50, (16,)), "scale": torch.ones(48)}
    model(**inputs).sum().backward()
    optimizer.step()
tell([model], [optimizer], inputs.values())
""",
    "parameters_replaced_later": """
model, optimizer = made(torch.optim.SGD, lr=0.1)
ids = train(model, optimizer, 5)
for p in model.parameters():
    p.data = p.data.clone()
ids = train(model, optimizer, 2)
tell([model], [optimizer])
""",
    "state_exchanged_at_every_step": """
class Odd(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["average"] = p.detach().clone()
model, optimizer = made(Odd, lr=0.1)
ids = train(model, optimizer, 7)
tell([model], [optimizer])
""",
    "many_steps": """
model, optimizer = made()
ids = train(model, optimizer, 7)
tell([model], [optimizer], [ids])
""",
    "a_step_that_drops_gradients": """
class Dropping(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        self.zero_grad()
model, optimizer = made(Dropping, lr=0.1)
ids = train(model, optimizer, 7)
tell([model], [optimizer])
""",
    # No module is queried for these gradients when the recording ends.
    "a_step_that_fails": """
class Failing(torch.optim.SGD):
    fails = False
    def step(self, closure=None):
        if self.fails:
            raise RuntimeError("out of memory")
        return super().step(closure)
weights = [nn.Parameter(torch.randn(20, 20)) for _ in range(3)]
optimizer = Failing(weights, lr=0.01)
def train_weights():
    optimizer.zero_grad()
    where_gradients_were = [torch.empty_like(weight) for weight in weights]
    x = torch.randn(4, 20)
    for weight in weights:
        x = x @ weight
    x.sum().backward()
    optimizer.step()
for step in range(6):
    train_weights()
optimizer.fails = True
try:
    train_weights()
except RuntimeError:
    pass
tell([], [optimizer], [], weights)
""",
    "optimizer_in_backward": """
model = Net()
optimizers = {p: torch.optim.AdamW([p]) for p in model.parameters()}
def step(p):
    optimizers[p].step()
    optimizers[p].zero_grad()
for p in model.parameters():
    p.register_post_accumulate_grad_hook(step)
for _ in range(3):
    ids, labels = batch()
    nn.functional.cross_entropy(model(ids), labels).backward()
tell([model], optimizers.values(), [ids, labels])
""",
}

# How `fast` is created from the model; it must compile once and as a whole.
COMPILED: dict[str, str] = {
    name: f"""
import torch._dynamo
model, optimizer = made()
{how}
ids = train(model, optimizer, forward=fast, steps=6)
from torch._dynamo.utils import counters
assert not counters["graph_break"], counters["graph_break"]
frames = counters["frames"]
assert frames["ok"] == frames["total"] == 1, frames
tell([model], [optimizer], [ids])
"""
    for name, how in {
        "another_module": 'fast = torch.compile(model, backend="aot_eager")',
        "in_place": 'model.compile(backend="aot_eager"); fast = model',
    }.items()
}


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that makes its own recordings; it must succeed."""
    done = run_forked(folder, PRELUDE + program)
    assert done.returncode == 0, done.stderr
    return done


def record(folder: Path, program: str) -> tuple[gpumemprof.Recording, dict[str, int]]:
    """Run a program under a recording; return the recording and what the program reported."""
    lines = "\n".join("    " + line for line in program.strip("\n").splitlines())
    start = 'with gpumemprof.record("run.gmp", cpu=True) as recording:\n'
    done = run(folder, start + lines + "\n")
    told: dict[str, int] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    return gpumemprof.load(folder / "run.gmp"), told
