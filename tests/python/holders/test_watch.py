"""``watch_leaks``: each line that grows is reported once, with its holder."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import gpumemprof
import pytest
import torch
from gpumemprof.hooks import steps
from torch.optim import optimizer as torch_optimizer


class Training:
    def __init__(self) -> None:
        self.model = torch.nn.Linear(32, 32)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.history: list[Any] = []

    def step(self, leaks: bool) -> None:
        loss = self.model(torch.randn(8, 32)).square().mean()
        loss.backward()
        if leaks:
            self.history.append(loss.detach() * torch.ones(64))
        self.optimizer.step()
        self.optimizer.zero_grad()


@pytest.fixture(autouse=True)
def temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def _hooks() -> int:
    return len(torch_optimizer._global_optimizer_post_hooks) + len(steps._listeners)


def test_a_leak_is_reported_once(temporary_files: Path) -> None:
    training = Training()
    before = _hooks()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with gpumemprof.watch_leaks(cpu=True) as watch:
            for _ in range(60):
                training.step(leaks=True)
    leaks = [one for one in caught if one.category is gpumemprof.LeakWarning]
    texts = [str(one.message) for one in leaks]
    assert len(texts) == 1, texts
    # The step of the program, not torch's optimizer, whose hook found it.
    source = Path(leaks[0].filename).read_text().splitlines()
    assert leaks[0].filename == __file__
    assert source[leaks[0].lineno - 1].strip() == "self.optimizer.step()"
    assert "test_watch.py" in texts[0] and "Training.step()" in texts[0]
    (leak,) = watch.leaks
    assert leak.growth_bytes_per_step == pytest.approx(256, rel=0.3)
    assert leak.held_by.startswith("training.history[0…")
    assert leak.file.endswith("test_watch.py")
    assert _hooks() == before
    assert list(temporary_files.glob("*.gmp")) == []


def test_a_healthy_training_is_not_reported() -> None:
    training = Training()
    with warnings.catch_warnings():
        warnings.simplefilter("error", gpumemprof.LeakWarning)
        with gpumemprof.watch_leaks(cpu=True) as watch:
            for _ in range(60):
                training.step(leaks=False)
    assert watch.leaks == []


@pytest.mark.parametrize(
    ("suppress", "count"),
    [(["test_watch.py"], 0), ("test_watch.py", 0), (["test_watch.py:1", "watch.py", ""], 1)],
)
def test_a_suppressed_line_is_not_reported(suppress: str | list[str], count: int) -> None:
    training = Training()
    with gpumemprof.watch_leaks(cpu=True, on_leak=lambda leak: None, suppress=suppress) as watch:
        for _ in range(60):
            training.step(leaks=True)
    assert len(watch.leaks) == count


def test_a_buffer_that_is_full_is_not_reported() -> None:
    training = Training()
    with gpumemprof.watch_leaks(cpu=True, on_leak=lambda leak: None) as watch:
        for _ in range(60):
            training.step(leaks=True)
            del training.history[:-4]
    assert watch.leaks == []


def test_an_open_recording_is_used(tmp_path: Path) -> None:
    training = Training()
    found: list[gpumemprof.Leak] = []
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        watch = gpumemprof.watch_leaks(on_leak=found.append)
        for _ in range(30):
            training.step(leaks=True)
        assert watch.stop() == found
        assert len(found) == 1
        training.step(leaks=True)
    assert recording.summary["events"] > 0
    assert (tmp_path / "run.gmp").exists()


def test_steps_that_the_program_marks() -> None:
    kept: list[Any] = []
    with gpumemprof.watch_leaks(cpu=True, on_leak=lambda leak: None) as watch:
        for _ in range(40):
            gpumemprof.step()
            kept.append(torch.ones(1000))
    (leak,) = watch.leaks
    assert leak.held_by.startswith("kept[0…")


def test_stopping_twice_and_early() -> None:
    watch = gpumemprof.watch_leaks(cpu=True)
    assert watch.stop() == []
    assert watch.stop() == []


def test_a_leak_may_fail_a_test() -> None:
    training = Training()
    with warnings.catch_warnings():
        warnings.simplefilter("error", gpumemprof.LeakWarning)
        with pytest.raises(gpumemprof.LeakWarning), gpumemprof.watch_leaks(cpu=True):
            for _ in range(60):
                training.step(leaks=True)


def test_a_look_takes_no_python_thread_and_a_forked_child_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        """
import os, sys, threading, warnings
import gpumemprof, torch

warnings.simplefilter("ignore")
kept = []
with gpumemprof.watch_leaks(cpu=True) as watch:
    for number in range(60):
        gpumemprof.step()
        kept.append(torch.ones(1000))
        assert threading.active_count() == 1, threading.enumerate()
        if number in (9, 10, 15, 16, 25):
            child = os.fork()
            if child == 0:
                for _ in range(30):
                    gpumemprof.step()
                watch.stop()
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
print(len(watch.leaks), watch.leaks[0].held_by)
"""
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("1 kept[0…"), done.stdout


def test_an_exception_is_not_replaced_by_a_leak() -> None:
    training = Training()
    with warnings.catch_warnings(), pytest.raises((ValueError, gpumemprof.LeakWarning)) as raised:
        warnings.simplefilter("error", gpumemprof.LeakWarning)
        with gpumemprof.watch_leaks(cpu=True):
            for _ in range(10):  # then a look is started
                training.step(leaks=True)
            raise ValueError("the program's own")
    assert raised.type is ValueError
