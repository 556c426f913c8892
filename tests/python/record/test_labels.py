"""What the hooks find in real programs: every storage is named, none is kept alive or changed."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Callable

import gpumemprof
import pytest
from conftest import Command
from label_programs import COMPILED, PROGRAMS, record, run

pytest.importorskip("torch")

Recorded = Callable[[str], tuple[gpumemprof.Recording, dict[str, int]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The recording of one of PROGRAMS, which runs once, and what the program reported."""

    @cache
    def run_once(name: str) -> tuple[gpumemprof.Recording, dict[str, int]]:
        return record(tmp_path_factory.mktemp(name), PROGRAMS[name])

    return run_once


def alive(recording: gpumemprof.Recording) -> dict[str, int]:
    """The bytes of each source at the end."""
    sums: dict[str, int] = defaultdict(int)
    for label in recording.labels():
        if label.free_requested_event is None:
            sums[label.source] += label.requested_bytes
    return dict(sums)


def names(recording: gpumemprof.Recording, source: str) -> set[str]:
    return {label.name for label in recording.labels() if label.source == source}


@pytest.mark.parametrize("program", PROGRAMS)
def test_labels_add_up_to_the_storages(recorded: Recorded, program: str) -> None:
    recording, told = recorded(program)
    labelled = alive(recording)
    for source in ("parameters", "gradients", "optimizer_state", "inputs"):
        if told[source] or source != "inputs":
            assert labelled.get(source, 0) == told[source], source


def test_names_are_those_of_the_modules(recorded: Recorded) -> None:
    recording, _ = recorded("adamw")
    assert "blocks.1.0.weight" in names(recording, "parameters")
    assert "norm.running_mean" in names(recording, "parameters")
    assert "blocks.1.0.weight.grad" in names(recording, "gradients")
    assert {"head.weight exp_avg", "head.weight exp_avg_sq"} <= names(recording, "optimizer_state")
    assert names(recording, "inputs") == {"input.0"}
    buffers = {label.name for label in recording.labels() if label.is_buffer}
    assert buffers == {"norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}


def test_tied_parameters_are_named_together(recorded: Recorded) -> None:
    recording, _ = recorded("tied_weights")
    assert "embed.weight = head.weight" in names(recording, "parameters")
    assert "embed.weight.grad" in names(recording, "gradients")


def test_modules_that_are_only_called_one_by_one_are_named_by_their_whole_path(
    recorded: Recorded,
) -> None:
    recording, _ = recorded("checkpointed")
    assert {"embed.weight", "blocks.1.0.weight"} <= names(recording, "parameters")
    assert "blocks.1.0.weight.grad" in names(recording, "gradients")


def test_wrappers_leave_no_mark_on_names(recorded: Recorded) -> None:
    recording, _ = recorded("data_parallel")
    assert "head.weight" in names(recording, "parameters")


@pytest.mark.parametrize(
    ("program", "steps", "left"),
    [
        ("adamw", 3, 1),
        ("many_steps", 7, 1),
        ("a_step_that_drops_gradients", 7, 0),
        ("a_step_that_fails", 7, 1),
    ],
)
def test_a_gradient_is_labelled_at_every_step(
    recorded: Recorded, program: str, steps: int, left: int
) -> None:
    recording, _ = recorded(program)
    names = ("head.weight.grad", "parameter 0.grad")  # with and without a module that owns it
    gradients = [label for label in recording.labels() if label.name in names]
    assert len(gradients) == steps
    assert sum(label.free_requested_event is None for label in gradients) == left


def test_a_program_recorded_from_the_middle_on(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
model, optimizer = made()
train(model, optimizer)
optimizer.zero_grad()
with gpumemprof.record("run.gmp", cpu=True):
    ids = train(model, optimizer)
    tell([], [], [ids], model.parameters())
""",
    )
    told = json.loads(done.stdout)
    labelled = alive(gpumemprof.load(tmp_path / "run.gmp"))
    # Memory from before the start is not in a recording of CPU tensors.
    assert labelled == {"gradients": told["gradients"], "inputs": told["inputs"]}


def test_two_recordings_at_once_have_the_same_labels(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
with gpumemprof.record("one.gmp", cpu=True):
    model, optimizer = made()
    with gpumemprof.record("two.gmp", cpu=True):
        ids = train(model, optimizer)
        tell([model], [optimizer], [ids])
""",
    )
    told = json.loads(done.stdout)
    assert alive(gpumemprof.load(tmp_path / "one.gmp")) == told
    late = alive(gpumemprof.load(tmp_path / "two.gmp"))
    assert late["gradients"] == told["gradients"]
    assert late["optimizer_state"] == told["optimizer_state"]


def test_conversion_keeps_labels(tmp_path: Path, recorded: Recorded, command: Command) -> None:
    recording, _ = recorded("adamw")
    done = command("convert", recording.path, "--to", "gmp", tmp_path / "again.gmp")
    assert done.returncode == 0, done.stderr
    labels = gpumemprof.load(tmp_path / "again.gmp").labels()
    assert labels and labels == recording.labels()


def test_labels_can_be_left_out(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
before = torch.compile
with gpumemprof.record("run.gmp", cpu=True, labels=False):
    assert torch.compile is before
    train(Net(), torch.optim.SGD(Net().parameters(), 0.1))
""",
    )
    assert gpumemprof.load(tmp_path / "run.gmp").labels() == []


def test_nothing_is_kept_alive_and_nothing_stays_behind(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
import weakref
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
before = torch.compile
gc.disable()
with gpumemprof.record("run.gmp", cpu=True):
    model, optimizer = made()
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


def test_the_hook_on_modules_is_taken_off_after_a_few_calls(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
from torch.nn.modules import module as torch_module
with gpumemprof.record("run.gmp", cpu=True):
    model, optimizer = made()
    assert torch_module._global_forward_pre_hooks
    train(model, optimizer, 5)
    assert not torch_module._global_forward_pre_hooks
""",
    )


def test_an_error_in_a_hook_is_a_warning_and_the_program_goes_on(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
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
        model, optimizer = made(Odd, lr=0.1)
        for _ in range(3):
            optimizer.step()
ours = [w for w in caught if issubclass(w.category, gpumemprof.RecordingWarning)]
print(optimizer.steps, len(ours), "KeyError" in str(ours[0].message))
""",
    )
    assert done.stdout.split() == ["3", "1", "True"]


def test_models_pickle_and_copy_as_without_recording(tmp_path: Path) -> None:
    run(
        tmp_path,
        """
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


def test_compiled_models_compile_once_and_are_labelled(tmp_path: Path) -> None:
    recording, told = record(tmp_path, COMPILED["another_module"])
    labelled = alive(recording)
    assert labelled["parameters"] == told["parameters"]
    assert labelled["gradients"] == told["gradients"]
    assert labelled["optimizer_state"] == told["optimizer_state"]
    assert "head.weight" in names(recording, "parameters")
    assert names(recording, "inputs") == {"input.0"}


def test_a_model_compiled_in_place_compiles_once(tmp_path: Path) -> None:
    recording, told = record(tmp_path, COMPILED["in_place"])
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
    run(
        tmp_path,
        """
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
