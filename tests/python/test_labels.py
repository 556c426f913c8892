"""What the hooks find in real programs: every storage named, nothing kept alive or changed."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import gpumemprof
import pytest
from capture_programs import run_program

pytest.importorskip("torch")

# Programs call tell() at their end; what is alive then is what the labels must add up to.
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


def record(folder: Path, program: str) -> tuple[gpumemprof.Recording, dict[str, int]]:
    """Run a program under a recording; the recording, and what the program told of itself."""
    lines = "\n".join("    " + line for line in program.strip("\n").splitlines())
    start = 'with gpumemprof.record("run.gmp", cpu=True) as recording:\n'
    done = run_program(folder, PRELUDE + start + lines + "\n")
    assert done.returncode == 0, done.stderr
    told: dict[str, int] = json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}
    return gpumemprof.load(folder / "run.gmp"), told


def alive(recording: gpumemprof.Recording) -> dict[str, int]:
    """The bytes of each source at the end."""
    sums: dict[str, int] = defaultdict(int)
    for label in recording.labels():
        if label.free_requested_event is None:
            sums[label.source] += label.requested_bytes
    return dict(sums)


def names(recording: gpumemprof.Recording, source: str) -> set[str]:
    return {label.name for label in recording.labels() if label.source == source}


PROGRAMS: dict[str, str] = {
    "adamw": """
model = Net(); optimizer = torch.optim.AdamW(model.parameters())
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
""",
    "adamw_foreach": """
model = Net(); optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
""",
    "adamw_fused": """
model = Net(); optimizer = torch.optim.AdamW(model.parameters(), fused=True)
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
""",
    "sgd_without_state": """
model = Net(); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
""",
    "sgd_with_momentum": """
model = Net(); optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
""",
    "lbfgs_whose_state_is_lists": """
model = Net(); optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
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
    "tied_weights": """
model = Net(); model.head.weight = model.embed.weight
optimizer = torch.optim.AdamW(model.parameters())
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
""",
    "gradient_accumulation": """
model = Net(); optimizer = torch.optim.AdamW(model.parameters())
for step in range(6):
    ids, labels = batch()
    nn.functional.cross_entropy(model(ids), labels).backward()
    if step % 3 == 2:
        optimizer.step()
        if step < 5:
            optimizer.zero_grad()
tell([model], [optimizer])
""",
    "frozen_parameters": """
model = Net(); model.embed.weight.requires_grad_(False)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
""",
    "flattened_parameters": """
model = Net()
flat = torch.cat([p.detach().flatten() for p in model.parameters()])
start = 0
for p in model.parameters():
    p.data = flat[start:start + p.numel()].view_as(p)
    start += p.numel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
""",
    "autocast": """
model = Net(); optimizer = torch.optim.AdamW(model.parameters())
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
model = Net(); optimizer = torch.optim.AdamW(model.parameters())
def forward(ids):
    x = model.embed(ids)
    for block in model.blocks:
        x = x + checkpoint(block, x, use_reentrant=False)
    return model.head(model.norm(x))
train(model, optimizer, forward=forward)
tell([model], [optimizer])
""",
    "data_parallel": """
model = nn.DataParallel(Net()); optimizer = torch.optim.AdamW(model.parameters())
ids = train(model, optimizer)
tell([model], [optimizer], [ids])
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
model = Net(); optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    optimizer.zero_grad()
    inputs = {"ids": torch.randint(0, 50, (16,)), "scale": torch.ones(48)}
    model(**inputs).sum().backward()
    optimizer.step()
tell([model], [optimizer], inputs.values())
""",
    "parameters_replaced_later": """
model = Net(); optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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
model = Net(); optimizer = Odd(model.parameters(), lr=0.1)
ids = train(model, optimizer, 7)
tell([model], [optimizer])
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


@pytest.mark.parametrize("program", PROGRAMS)
def test_labels_add_up_to_the_storages(tmp_path: Path, program: str) -> None:
    recording, told = record(tmp_path, PROGRAMS[program])
    labelled = alive(recording)
    for source in ("parameters", "gradients", "optimizer_state", "inputs"):
        if told[source] or source != "inputs":
            assert labelled.get(source, 0) == told[source], source


def test_names_are_those_of_the_modules(tmp_path: Path) -> None:
    recording, _ = record(tmp_path, PROGRAMS["adamw"])
    assert "blocks.1.0.weight" in names(recording, "parameters")
    assert "norm.running_mean" in names(recording, "parameters")
    assert "blocks.1.0.weight.grad" in names(recording, "gradients")
    assert {"head.weight exp_avg", "head.weight exp_avg_sq"} <= names(recording, "optimizer_state")
    assert names(recording, "inputs") == {"input.0"}
    buffers = {label.name for label in recording.labels() if label.is_buffer}
    assert buffers == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}


def test_tied_parameters_are_named_together(tmp_path: Path) -> None:
    recording, _ = record(tmp_path, PROGRAMS["tied_weights"])
    assert "embed.weight = head.weight" in names(recording, "parameters")
    assert "embed.weight.grad" in names(recording, "gradients")


def test_modules_that_are_only_called_one_by_one_are_named_by_their_whole_path(
    tmp_path: Path,
) -> None:
    recording, _ = record(tmp_path, PROGRAMS["checkpointed"])
    assert {"embed.weight", "blocks.1.0.weight"} <= names(recording, "parameters")
    assert "blocks.1.0.weight.grad" in names(recording, "gradients")


def test_wrappers_leave_no_mark_on_names(tmp_path: Path) -> None:
    recording, _ = record(tmp_path, PROGRAMS["data_parallel"])
    assert "head.weight" in names(recording, "parameters")


def test_a_gradient_is_labelled_at_every_step(tmp_path: Path) -> None:
    recording, _ = record(tmp_path, PROGRAMS["adamw"])
    gradients = [label for label in recording.labels() if label.name == "head.weight.grad"]
    assert len(gradients) == 3
    assert sum(label.free_requested_event is None for label in gradients) == 1


def test_a_program_recorded_from_the_middle_on(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        PRELUDE
        + """
model = Net(); optimizer = torch.optim.AdamW(model.parameters())
train(model, optimizer)
optimizer.zero_grad()
with gpumemprof.record("run.gmp", cpu=True):
    ids = train(model, optimizer)
    tell([], [], [ids], model.parameters())
""",
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    labelled = alive(gpumemprof.load(tmp_path / "run.gmp"))
    # What was there before is not in a recording of CPU tensors.
    assert labelled == {"gradients": told["gradients"], "inputs": told["inputs"]}


def test_two_recordings_at_once_have_the_same_labels(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        PRELUDE
        + """
with gpumemprof.record("one.gmp", cpu=True):
    model = Net(); optimizer = torch.optim.AdamW(model.parameters())
    with gpumemprof.record("two.gmp", cpu=True):
        ids = train(model, optimizer)
        tell([model], [optimizer], [ids])
""",
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert alive(gpumemprof.load(tmp_path / "one.gmp")) == told
    late = alive(gpumemprof.load(tmp_path / "two.gmp"))
    assert late["gradients"] == told["gradients"]
    assert late["optimizer_state"] == told["optimizer_state"]


def test_conversion_keeps_labels(tmp_path: Path) -> None:
    recording, _ = record(tmp_path, PROGRAMS["adamw"])
    done = run_program(
        tmp_path,
        """
        import sys
        from gpumemprof.__main__ import main
        sys.exit(main(["convert", "run.gmp", "--to", "gmp", "again.gmp"]))
        """,
    )
    assert done.returncode == 0, done.stderr
    assert gpumemprof.load(tmp_path / "again.gmp").labels() == recording.labels()


def test_labels_can_be_left_out(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        PRELUDE
        + """
before = torch.compile
with gpumemprof.record("run.gmp", cpu=True, labels=False):
    assert torch.compile is before
    train(Net(), torch.optim.SGD(Net().parameters(), 0.1))
""",
    )
    assert done.returncode == 0, done.stderr
    assert gpumemprof.load(tmp_path / "run.gmp").labels() == []


def test_nothing_is_kept_alive_and_nothing_stays_behind(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        PRELUDE
        + """
import weakref
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
before = torch.compile
gc.disable()
with gpumemprof.record("run.gmp", cpu=True):
    model = Net(); optimizer = torch.optim.AdamW(model.parameters())
    ids = train(model, optimizer)
    gone = [weakref.ref(thing) for thing in
            (ids, model, optimizer, model.head.weight, model.head.weight.grad)]
    del ids
    assert gone[0]() is None
    optimizer.zero_grad()
    assert gone[4]() is None
    del model, optimizer
    gc.collect()
    assert [ref() for ref in gone] == [None] * 5
assert torch.compile is before
assert not torch_module._global_forward_pre_hooks
assert not torch_optimizer._global_optimizer_pre_hooks
assert not torch_optimizer._global_optimizer_post_hooks
""",
    )
    assert done.returncode == 0, done.stderr


def test_the_hook_on_modules_is_taken_off_after_a_few_calls(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        PRELUDE
        + """
from torch.nn.modules import module as torch_module
with gpumemprof.record("run.gmp", cpu=True):
    model = Net(); optimizer = torch.optim.AdamW(model.parameters())
    assert torch_module._global_forward_pre_hooks
    train(model, optimizer, 5)
    assert not torch_module._global_forward_pre_hooks
""",
    )
    assert done.returncode == 0, done.stderr


def test_an_error_in_a_hook_is_a_warning_and_the_program_goes_on(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        PRELUDE
        + """
warnings.simplefilter("always", gpumemprof.RecordingWarning)
class Odd(torch.optim.SGD):
    @property
    def state(self):
        raise KeyError("no state for you") if self.__dict__.get("is_odd") else None
    @state.setter
    def state(self, value):
        pass
    def step(self, closure=None):
        self.__dict__["is_odd"] = True
        self.steps = getattr(self, "steps", 0) + 1
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with gpumemprof.record("run.gmp", cpu=True):
        model = Net(); optimizer = Odd(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.step()
ours = [w for w in caught if issubclass(w.category, gpumemprof.RecordingWarning)]
print(optimizer.steps, len(ours), "KeyError" in str(ours[0].message))
""",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3", "1", "True"]


def test_models_pickle_and_copy_as_without_recording(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        PRELUDE
        + """
import copy, pickle
model = Net(); plain = len(pickle.dumps(model))
with gpumemprof.record("run.gmp", cpu=True):
    ids = train(model, torch.optim.SGD(model.parameters(), 0.0))
    model.zero_grad()
    assert len(pickle.dumps(model)) == plain
    copy.deepcopy(model)(ids)
    torch.jit.trace(model, ids)
""",
    )
    assert done.returncode == 0, done.stderr


COMPILED = """
import torch._dynamo
model = Net(); optimizer = torch.optim.AdamW(model.parameters())
fast = torch.compile(model, backend="aot_eager")
ids = train(model, optimizer, forward=fast, steps=6)
from torch._dynamo.utils import counters
assert not counters["graph_break"], counters["graph_break"]
frames = counters["frames"]
assert frames["ok"] == frames["total"] == 1, frames
tell([model], [optimizer], [ids])
"""


def test_compiled_models_compile_once_and_are_labelled(tmp_path: Path) -> None:
    recording, told = record(tmp_path, COMPILED)
    labelled = alive(recording)
    assert labelled["parameters"] == told["parameters"]
    assert labelled["gradients"] == told["gradients"]
    assert labelled["optimizer_state"] == told["optimizer_state"]
    assert "head.weight" in names(recording, "parameters")
    assert names(recording, "inputs") == {"input.0"}


def test_a_model_compiled_in_place_compiles_once(tmp_path: Path) -> None:
    program = COMPILED.replace(
        'fast = torch.compile(model, backend="aot_eager")',
        'model.compile(backend="aot_eager"); fast = model',
    )
    recording, told = record(tmp_path, program)
    assert alive(recording)["parameters"] == told["parameters"]


def test_a_sparse_gradient_is_its_indices_and_its_values(tmp_path: Path) -> None:
    recording, told = record(
        tmp_path,
        """
model = nn.Embedding(50, 8, sparse=True); optimizer = torch.optim.SparseAdam(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(batch()[0]).sum().backward()
    optimizer.step()
gradient = model.weight.grad
print(json.dumps({"gradients": size([gradient._indices(), gradient._values()])}))
""",
    )
    assert alive(recording)["gradients"] == told["gradients"]


def test_a_forked_child_has_no_hooks(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        PRELUDE
        + """
import os
from torch.optim import optimizer as torch_optimizer
with gpumemprof.record("run.gmp", cpu=True):
    child = os.fork()
    if child == 0:
        os._exit(1 if torch_optimizer._global_optimizer_pre_hooks else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert torch_optimizer._global_optimizer_pre_hooks
""",
    )
    assert done.returncode == 0, done.stderr
