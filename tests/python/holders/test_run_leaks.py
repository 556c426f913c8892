"""``gpumemprof run --leaks``: what grows and who holds it, while the program stays its own."""

from __future__ import annotations

import json
import subprocess
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gpumemprof
import pytest
import torch
from capture_programs import run_recorded
from gpumemprof import _core
from gpumemprof.holders import watch
from gpumemprof.holders.chain import Chain, Root
from gpumemprof.holders.found import Holders
from gpumemprof.holders.leak import Leak
from gpumemprof.holders.leaks_of_run import LeaksOfRun
from gpumemprof.holders.watch import LeakWatch

BEGIN = """
import os, signal, sys
import torch

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def step(keep):
    loss = (model(torch.randn(32, 64)) ** 2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    keep(loss)
"""
LIMIT_SECONDS = 120
EAGER = "\ndef keep(loss):\n    losses.append(model(torch.randn(8, 64)).mean())\n"


def _run(folder: Path, program: str, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(BEGIN + textwrap.dedent(program))
    return run_recorded(folder, "--cpu", "--leaks", *flags, "-o", "run.gmp", "train.py")


def _rows(folder: Path) -> list[dict[str, Any]]:
    facts = gpumemprof.load(folder / "run.gmp").report(top=0)["input"]["facts"]
    rows: list[dict[str, Any]] = (
        json.loads(facts["leak holders"]) if "leak holders" in facts else []
    )
    return rows


def test_a_global_that_keeps_graphs(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        f"losses = []\n{EAGER}\nfor _ in range(30):\n    step(keep)\nprint('over')\n",
    )
    assert (done.returncode, done.stdout) == (0, "over\n")
    assert "gpumemprof: memory grows at train.py:" in done.stderr
    rows = [row for row in _rows(tmp_path) if row["grows"]]
    texts = {text for row in rows for text in (row["text"], *row["others"])}
    assert any(text.startswith("losses[0…2") and "_saved_mat1" in text for text in texts), texts
    first = rows[0]
    # What keeps the most bytes comes first: what the graphs saved, not the losses themselves.
    assert first["text"].endswith("_saved_mat1"), first
    assert set(first) >= {"site", "chain", "text", "bytes", "blocks"}
    assert set(first["site"]) >= {"file", "line", "function"}
    assert first["chain"][0] == "losses"
    # The line only made an input; what to change is what holds it.
    (advice,) = {
        leak["advice"]
        for leak in gpumemprof.load(tmp_path / "run.gmp").leaks()["leaks"]
        if "grad_fn" in (leak["held_by"] or "")
    }
    assert "keep result.detach()" in advice


def test_a_local_of_a_function_that_returns(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """
        def train():
            history = []
            for _ in range(40):
                step(lambda loss: history.append(loss.detach() * torch.ones(100)))

        train()
        """,
    )
    assert done.returncode == 0
    (row,) = [row for row in _rows(tmp_path) if row["grows"]]
    assert row["text"].startswith("history[0…"), row["text"]
    assert "local of train(), train.py:" in row["text"]
    assert row["is_past"]


@pytest.mark.parametrize(
    ("ending", "code", "last_line"),
    [
        ("raise ValueError('broken')", 1, "ValueError: broken"),
        ("sys.exit(3)", 3, None),
        ("sys.exit('a reason')", 1, "a reason"),
    ],
)
def test_however_the_program_ends(
    tmp_path: Path, ending: str, code: int, last_line: str | None
) -> None:
    done = _run(
        tmp_path,
        f"""
        kept = {{}}
        for number in range(30):
            step(lambda loss: kept.update({{number: loss.detach() * torch.ones(100)}}))
        {ending}
        """,
    )
    assert (done.returncode, done.stdout) == (code, "")
    own = [line for line in done.stderr.splitlines() if "gpumemprof" not in line]
    assert last_line is None or last_line in own
    (row,) = [row for row in _rows(tmp_path) if row["grows"]]
    assert row["text"].startswith("kept[0…2"), row["text"]


def test_a_signal_prints_what_grows_so_far(tmp_path: Path) -> None:
    program = """
        kept = []
        for number in range(40):
            step(lambda loss: kept.append(loss.detach() * torch.ones(100)))
            if number == 20:
                os.kill(os.getpid(), signal.{name})
        print('over', file=sys.stderr)
        """
    done = _run(tmp_path, program.format(name="SIGUSR2"))
    before = done.stderr.partition("over\n")[0]
    assert done.returncode == 0
    assert "memory grows at train.py:" in before and "held by kept[0…" in before, done.stderr
    (tmp_path / "run.gmp").unlink()
    done = _run(tmp_path, program.format(name="SIGUSR1"), "--leaks-signal", "USR1")
    assert done.returncode == 0
    assert "memory grows at train.py:" in done.stderr.partition("over\n")[0]
    (tmp_path / "run.gmp").unlink()
    done = _run(tmp_path, program.format(name="SIGUSR2"), "--leaks-signal", "none")
    assert done.returncode == -12  # as without us


def test_a_handler_of_the_program_stays(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """
        signal.signal(signal.SIGUSR2, lambda *_: print('mine'))
        step(lambda loss: None)
        os.kill(os.getpid(), signal.SIGUSR2)
        """,
    )
    assert (done.returncode, done.stdout) == (0, "mine\n")


def test_what_was_freed_just_before_the_end_has_the_holder_it_had(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """
        import contextlib

        def drop(copy):
            copy.zero_()

        with contextlib.ExitStack() as stack:
            for _ in range(30):
                step(lambda loss: None)
                newest = model.weight.detach().clone()
                stack.callback(drop, newest)
        """,
    )
    assert done.returncode == 0
    (text,) = [row["text"] for row in _rows(tmp_path) if row["grows"]]
    assert text.startswith("stack._exit_callbacks"), text


def test_a_healthy_program_gets_no_line(tmp_path: Path) -> None:
    done = _run(tmp_path, "for _ in range(60):\n    step(lambda loss: loss.item())\n")
    assert done.returncode == 0
    assert "grows" not in done.stderr
    assert [row for row in _rows(tmp_path) if row["grows"]] == []


def test_a_program_without_torch(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("print('plain')\n")
    done = run_recorded(tmp_path, "--leaks", "-o", "run.gmp", "plain.py")
    assert (done.returncode, done.stdout) == (0, "plain\n")


def test_the_flags_are_checked(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    done = run_recorded(tmp_path, "--leaks-signal", "USR1", "train.py")
    assert done.returncode == 2
    assert "--leaks-signal needs --leaks" in done.stderr
    done = run_recorded(tmp_path, "--leaks", "--leaks-signal", "NOISE", "train.py")
    assert done.returncode == 2
    assert "takes a signal such as SIGUSR1, but has 'NOISE'" in done.stderr


def test_without_the_flag_nothing_is_searched(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        BEGIN + f"losses = []\n{EAGER}\nfor _ in range(30):\n    step(keep)\n"
    )
    done = run_recorded(tmp_path, "--cpu", "-o", "run.gmp", "train.py")
    assert "grows" not in done.stderr
    assert _rows(tmp_path) == []


@pytest.mark.parametrize(
    ("program", "begins"),
    [
        (
            """
            kept = []
            for number in range(60):
                if number % 5 == 0:
                    kept.append(torch.zeros(4096))
                step(lambda loss: None)
            """,
            "memory grows at train.py:",
        ),
        (
            """
            import gc

            class Node:
                def __init__(self):
                    self.value, self.itself = torch.zeros(4096), self

            gc.disable()
            for number in range(60):
                Node()
                step(lambda loss: None)
                if number % 20 == 19:
                    gc.collect()
            """,
            "no leak, but memory grows until the garbage collector runs at train.py:",
        ),
    ],
)
def test_the_figures_are_those_of_leaks(tmp_path: Path, program: str, begins: str) -> None:
    done = _run(tmp_path, program)
    assert done.returncode == 0
    found = gpumemprof.load(tmp_path / "run.gmp").leaks()
    (leak,) = found["leaks"]
    (line,) = [line for line in done.stderr.splitlines() if begins in line]
    size = _core.format_bytes
    if leak["bytes_per_step"]:
        assert f": {size(leak['bytes_per_step'])} a step, " in line
    assert f"{size(leak['bytes'])} in {leak['blocks']} blocks at the end" in line


def test_what_was_freed_is_no_longer_said_to_grow(tmp_path: Path) -> None:
    done = _run(
        tmp_path,
        """
        history = []
        for _ in range(40):
            step(lambda loss: history.append(loss.detach() * torch.ones(4096)))
        del history
        """,
    )
    assert gpumemprof.load(tmp_path / "run.gmp").leaks()["verdict"] == "clean"
    assert "memory grows" not in done.stderr
    assert "memory grew at train.py:" in done.stderr and "freed since" in done.stderr


def test_errors_are_named_although_they_are_garbage_at_the_end(tmp_path: Path) -> None:
    """Their tracebacks hold the frame of the function, which holds the list."""
    done = _run(
        tmp_path,
        """
        import gc

        gc.disable()

        def fail():
            made = torch.zeros(4096)
            raise ValueError("no")

        def train():
            errors = []
            for _ in range(40):
                step(lambda loss: None)
                try:
                    fail()
                except ValueError as error:
                    errors.append(error)

        train()
        """,
    )
    assert done.returncode == 0
    (row,) = [row for row in _rows(tmp_path) if row["grows"]]
    assert row["text"].startswith("errors[0…"), row["text"]
    assert "local of train(), train.py:" in row["text"]


def _leak(count: int, holders: Holders) -> Leak:
    return Leak("train.py", 1, "train", False, 100 * count, count, 100.0, holders=holders)


@pytest.mark.parametrize("is_thread", [False, True], ids=["function", "thread"])
def test_a_local_of_a_program_without_steps_is_found_while_it_runs(
    tmp_path: Path, is_thread: bool
) -> None:
    weight = torch.randn(64, 64)

    def serve(cache: dict[int, torch.Tensor], watch: LeakWatch) -> None:
        number = 0
        while not watch.candidates and time.monotonic() < end:
            cache[number] = torch.relu(torch.randn(8, 64) @ weight)
            number += 1

    end = time.monotonic() + LIMIT_SECONDS
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        leaks = LeaksOfRun(recording)
        if is_thread:
            worker = threading.Thread(target=serve, args=({}, leaks._watch))
            worker.start()
            while worker.is_alive():
                worker.join(0.01)  # The look interrupts the main thread.
        else:
            serve({}, leaks._watch)
        leaks.finish()
    (row,) = [leak.row() for leak in leaks.found if leak.function.endswith("serve")]
    assert any("local of" in text and "serve()" in text for text in (row["text"], *row["others"]))
    assert row["is_past"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TimeoutError])
def test_what_a_signal_raises_during_a_look_reaches_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    def interrupted(places: object) -> None:
        raise kind

    monkeypatch.setattr(watch, "find_holders", interrupted)
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        looking = LeakWatch(recording, most_candidates=1)
        kept = []
        end = time.monotonic() + LIMIT_SECONDS
        with pytest.raises(kind):
            while time.monotonic() < end:
                kept.append(torch.ones(64))
        monkeypatch.undo()
        looking.stop()


def test_an_error_of_our_own_during_a_look_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recording:
        looking = LeakWatch(recording, most_candidates=1)
        monkeypatch.setattr(looking._followed, "take", None)  # not callable
        monkeypatch.setattr(looking, "_is_looking", True)
        kept = []
        end = time.monotonic() + LIMIT_SECONDS
        while looking._events_between < 100_000 and time.monotonic() < end:
            kept.append(torch.ones(64))
        assert looking._events_between >= 100_000  # It went on asking.
        monkeypatch.setattr(looking, "_is_looking", False)
        looking.stop()


def test_of_two_looks_the_one_that_found_a_holder_counts() -> None:
    """Between the look for lines and the search for holders, memory may be freed."""
    run = LeaksOfRun.__new__(LeaksOfRun)
    cycle = Holders(cycle="Node.itself → Node", blocks=4)
    named = Holders([Chain(Root("kept"), [])], blocks=10, held_blocks=10)
    little = Holders([Chain(Root("kept"), [])], blocks=10, held_blocks=3)
    for before, now, expected in [
        (_leak(10, Holders(blocks=10)), _leak(4, cycle), cycle),
        (_leak(10, named), _leak(4, cycle), named),
        (_leak(10, named), _leak(10, cycle), named),
        (_leak(10, cycle), _leak(10, named), named),
        (_leak(10, cycle), _leak(4, little), cycle),
        (_leak(10, little), _leak(4, cycle), cycle),
    ]:
        run._watch = SimpleNamespace(leaks=[before], candidates=[])  # type: ignore[assignment]
        (leak,) = run._merged([now])
        assert leak.holders is expected
        assert leak.bytes == 1000
