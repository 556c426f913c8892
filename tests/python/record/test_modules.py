"""Modules by instance: the module of every allocation, against hooks on every module and node."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import gpumemprof
import pytest

torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")

from module_models import MODELS, Again, Gpt2, Mlp, tokens, train  # noqa: E402
from module_referee import OUTSIDE, Referee, outside  # noqa: E402
from torch import nn  # noqa: E402


def allocations(path: str) -> list[dict[str, Any]]:
    events = pyarrow.table(gpumemprof.load(path).events)
    rows = events.select(["action", "size_bytes", "user_metadata", "module"]).to_pylist()
    return [row for row in rows if row["action"] == "alloc"]


def record_steps(folder: Path, name: str, steps: int = 2) -> str:
    make, run = MODELS[name]
    torch.manual_seed(0)
    model = make()
    with gpumemprof.record(folder / f"{name}.gmp", cpu=True) as recorded:
        train(model, run, Referee(model), steps)
    return recorded.path


@pytest.mark.parametrize("name", MODELS)
def test_every_allocation_knows_its_module(tmp_path: Path, name: str) -> None:
    rows = allocations(record_steps(tmp_path, name))
    wrong = [row for row in rows if (row["module"] or OUTSIDE) != (row["user_metadata"] or OUTSIDE)]
    assert wrong == []
    assert len({row["module"] for row in rows}) > 8


def test_backward_knows_its_modules(tmp_path: Path) -> None:
    path = record_steps(tmp_path, "gpt2", steps=1)
    events = pyarrow.table(gpumemprof.load(path).events).to_pylist()
    backward = [row["module"] for row in events if row["forward_stack"] is not None]
    assert {f"transformer.h.{layer}.mlp.c_fc" for layer in range(4)} <= set(backward)


def test_without_hooks_the_modules_are_the_same(tmp_path: Path) -> None:
    # Hooks make torch take a different path through a module's call.
    hooked = allocations(record_steps(tmp_path, "again"))
    make, run = MODELS["again"]
    torch.manual_seed(0)
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    with gpumemprof.record(tmp_path / "plain.gmp", cpu=True) as recorded:
        for _ in range(2):
            optimizer.zero_grad()
            run(model).backward()
            optimizer.step()
    plain = [(row["size_bytes"], row["module"]) for row in allocations(recorded.path)]
    assert [row for row in plain if row[1]] == [
        (row["size_bytes"], row["module"]) for row in hooked if row["module"]
    ]


def test_parameters_gradients_and_state_belong_to_their_module(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recorded:
        model = Gpt2()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            tokens(model).backward()
            optimizer.step()
    table = pyarrow.table(gpumemprof.load(recorded.path).allocations)
    rows = table.select(["module", "source", "requested_bytes", "free_requested_event"]).to_pylist()
    held = {
        source: sum(
            row["requested_bytes"]
            for row in rows
            if row["source"] == source
            and row["module"] == "transformer.h.2.mlp.c_fc"
            and row["free_requested_event"] is None
        )
        for source in ("parameters", "gradients", "optimizer_state")
    }
    size = 4 * (16 * 64 + 64)
    assert held == {
        "parameters": size,
        "gradients": size,
        "optimizer_state": 2 * size + 2 * 4,  # AdamW's averages, and each parameter's step
    }
    # The tied weight belongs to the name that comes first, whichever module computed its gradient.
    tied = [
        row["source"]
        for row in rows
        if row["module"] == "transformer.wte" and row["free_requested_event"] is None
    ]
    assert {"parameters", "gradients", "optimizer_state"} <= set(tied)


def test_report_shows_each_module_and_folds_equal_layers(tmp_path: Path) -> None:
    # Created during the recording: CPU memory from before is not part of a recording.
    torch.manual_seed(0)
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recorded:
        model = Gpt2()
        train(model, tokens, Referee(model), steps=2)
    report = gpumemprof.load(recorded.path).report()
    device = report["devices"][0]
    assert device["modules_by"] == "instance"
    names = [node["name"] for node in device["modules"]]
    assert len(names) == len(set(names))
    assert {"Gpt2", "transformer.h", "transformer.h.3.attn.c_proj"} <= set(names)
    nodes = {node["name"]: node for node in device["modules"]}
    for node in device["modules"]:
        parts = [other for other in device["modules"] if other["parent"] is not None]
        inside = sum(each["bytes"] for each in parts if device["modules"][each["parent"]] is node)
        assert node["bytes"] == node["self_bytes"] + inside
    assert nodes["transformer.h.1.mlp.c_fc"]["sources"]["parameters"] == 4 * (16 * 64 + 64)


def lines_of(command: Any, path: str) -> list[str]:
    shown = command("report", "--modules", path)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    first = next(index for index, line in enumerate(lines) if "by module" in line)
    return lines[first:]


def test_equal_layers_are_one_line(tmp_path: Path, command: Any) -> None:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(12))

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return x

    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recorded:
        model = Stack()
        loss = model(torch.randn(4, 64)).sum()
        loss.backward()
    text = "\n".join(lines_of(command, recorded.path))
    assert "0 … 11, each" in text
    assert "16.2 KiB" in text  # the bytes of one layer


def test_models_that_come_and_go_keep_their_names(tmp_path: Path) -> None:
    torch.manual_seed(0)
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recorded:
        for trial in range(6):
            model = Mlp(16) if trial % 2 else Again()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            referee = Referee(model)  # once: two of them would restore each other's tags
            with outside():
                for _ in range(3):
                    loss = model(torch.randn(8, 16)).sum()
                    with referee.backward():
                        loss.backward()
                    optimizer.step()
            del model, optimizer, referee, loss
            gc.collect()
    rows = allocations(recorded.path)
    wrong = [row for row in rows if (row["module"] or OUTSIDE) != (row["user_metadata"] or OUTSIDE)]
    assert wrong == []


def test_a_module_outside_any_model_has_its_class(tmp_path: Path) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recorded:
        model = nn.Linear(8, 8)
        for _ in range(5):
            nn.MSELoss(reduction="none")(model(torch.randn(4, 8)), torch.randn(4, 8))
    modules = {row["module"] for row in allocations(recorded.path)}
    assert modules == {None, "Linear", "MSELoss"}


def test_threads_keep_their_modules_apart(tmp_path: Path) -> None:
    import threading

    def work(model: nn.Module) -> None:
        for _ in range(20):
            with torch.no_grad():
                model(torch.randn(8, 16))

    models = nn.ModuleDict({f"part{number}": Again() for number in range(3)})
    names = {id(module): path for path, module in models.named_modules()}
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recorded:
        for part in models.values():
            Referee(part)
        threads = [threading.Thread(target=work, args=(part,)) for part in models.values()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert names
    rows = [row for row in allocations(recorded.path) if row["user_metadata"] is not None]
    for row in rows:
        assert row["module"].split(".")[-1] == row["user_metadata"].split(".")[-1] or (
            row["user_metadata"] == "Again"
        )


def test_a_snapshot_says_that_it_knows_modules_by_line() -> None:
    from conftest import recording_of

    device = recording_of("clean_training").report()["devices"][0]
    assert device["modules_by"] == "line"
    assert json.dumps(device["modules"])
