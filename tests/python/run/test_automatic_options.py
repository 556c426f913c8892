"""GPUMEMPROF_OPTIONS holds what ``gpumemprof run`` takes before the program."""

from __future__ import annotations

import sys
from pathlib import Path

import gpumemprof
import pytest
from automatic_runs import recordings, run_automatic, write
from gpumemprof.recorder.run_options import options_of_environment

pytest.importorskip("torch")

ALLOCATE = "import torch\nkept = torch.empty(1000, dtype=torch.uint8)\n"


def test_options_are_those_of_run() -> None:
    settings, mistakes = options_of_environment(
        "--keep 2GiB --no-children --no-stacks --no-labels --cpu --leaks --leaks-signal USR1"
        " --record-arguments --alert 'allocated>1GiB' --alert-command 'cat file'"
    )
    assert mistakes == []
    assert (settings.keep, settings.children, settings.cpu) == (2 << 30, False, True)
    assert (settings.stacks, settings.labels, settings.arguments) == (False, False, True)
    assert (settings.leaks, settings.leaks_signal) == (True, "SIGUSR1")
    assert (settings.alerts, settings.alert_command) == (["allocated>1GiB"], "cat file")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("--kep 2GiB", "unknown flag '--kep', did you mean '--keep'?"),
        ("--keep 2", "--keep 2 is too small: give at least 64.0 MiB"),
        ("-o file", "unknown flag '-o'; see gpumemprof run --help"),
        ("--live", "unknown flag '--live'"),
        ("train.py", "unexpected argument 'train.py'; see gpumemprof run --help"),
        ("--alert-webhook http://host/x", "--alert-webhook needs --alert"),
        ("--native-stacks", "--native-stacks and --no-stacks exclude each other"),
        ("--alert", "--alert needs a value"),
    ],
)
def test_wrong_option_is_left_out_alone(text: str, mistake: str) -> None:
    settings, mistakes = options_of_environment(f"--no-stacks {text} --no-labels")
    assert len(mistakes) == 1
    assert mistakes[0].startswith(mistake)
    assert (settings.stacks, settings.labels) == (False, False)
    assert (settings.keep, settings.native_stacks, settings.alert_webhook) == (None, False, None)


def test_option_may_need_one_that_comes_later() -> None:
    settings, mistakes = options_of_environment(
        "--wrong --alert-command true --alert 'allocated>1GiB'"
    )
    assert (settings.alert_command, len(mistakes)) == ("true", 1)


def test_options_apply_to_all_processes_and_mistakes_are_said_once(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE, "child.py")
    program = f"""
    import subprocess, torch
    kept = torch.empty(1000)
    for _ in range(2): subprocess.run([{sys.executable!r}, "child.py", "value"], check=True)
    """
    options = "--kep 2GiB --keep 64MiB --record-arguments"
    done = run_automatic(tmp_path, program=program, GPUMEMPROF_OPTIONS=options)
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == (
        "gpumemprof: GPUMEMPROF_OPTIONS: unknown flag '--kep', did you mean '--keep'?; "
        "recording goes on without that"
    )
    assert done.stderr.count("GPUMEMPROF_OPTIONS") == 1
    folders = [path for path in tmp_path.glob("*.gmp") if path.is_dir()]
    assert len(folders) == 3
    commands = {gpumemprof.load(path).report()["input"]["facts"]["command"] for path in folders}
    assert commands == {"train.py", "child.py value"}


def test_children_can_be_left_out(tmp_path: Path) -> None:
    write(tmp_path, ALLOCATE, "child.py")
    program = f"""
    import os, subprocess, torch
    kept = torch.empty(1000)
    subprocess.run([{sys.executable!r}, "child.py"], check=True)
    if os.fork() == 0:
        kept = torch.empty(1000)
        os._exit(0)
    os.wait()
    """
    done = run_automatic(tmp_path, program=program, GPUMEMPROF_OPTIONS="--no-children")
    assert done.returncode == 0
    assert len(recordings(tmp_path)) == 1


def test_leaks_are_found_and_printed(tmp_path: Path) -> None:
    program = """
    import torch
    model = torch.nn.Linear(100, 100)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    kept = []
    for _ in range(12):
        loss = model(torch.ones(10, 100)).sum()
        kept.append(torch.empty(100_000))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    """
    done = run_automatic(tmp_path, program=program, GPUMEMPROF_OPTIONS="--leaks")
    assert done.returncode == 0
    assert "train.py:8" in done.stderr
