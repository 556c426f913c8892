"""Whatever a program calls its things, recording raises no error in it."""

from __future__ import annotations

from pathlib import Path

import gpumemprof
import pytest
from capture_programs import run_program

torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")

ODD = "\ud800"
SHOWN = "\\ud800"


def test_names_that_are_no_text_are_recorded_with_an_escape(tmp_path: Path) -> None:
    path = tmp_path / "run.gmp"
    model = torch.nn.Linear(10, 10)
    model.add_module(f"layer{ODD}", torch.nn.Linear(10, 10))
    model.register_parameter(f"weight{ODD}", torch.nn.Parameter(torch.ones(10)))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    with gpumemprof.record(path, cpu=True):
        for _ in range(3):
            gpumemprof.step()
            with gpumemprof.tag(f"tag{ODD}"):
                kept = torch.empty(100_000)
            loss = model(torch.ones(10, 10)).sum() + getattr(model, f"weight{ODD}").sum()
            loss.backward()
            optimizer.step()
    recording = gpumemprof.load(path)
    assert len(kept) == 100_000
    rows = pyarrow.table(recording.events).to_pylist()
    tags = {row["user_metadata"] for row in rows}
    assert tags == {None, f"tag{SHOWN}"}
    assert f"weight{SHOWN} momentum_buffer" in {label.name for label in recording.labels()}


def test_arguments_that_are_no_text_are_recorded(tmp_path: Path) -> None:
    program = """
    import gpumemprof, sys, torch
    sys.argv[0] = "train\\ud800.py"
    sys.argv[1:] = ["--flag\\ud800"]
    with gpumemprof.record("run.gmp", cpu=True):
        kept = torch.empty(1000)
    """
    done = run_program(tmp_path, program)
    assert (done.returncode, done.stderr) == (0, "")
    facts = gpumemprof.load(tmp_path / "run.gmp").report()["input"]["facts"]
    assert facts["command"] == f"train{SHOWN}.py --flag{SHOWN}"
