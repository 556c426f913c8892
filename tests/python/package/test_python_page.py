"""The examples of docs/python.md run on CPU tensors and print what the page says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from page_examples import PAGE, Example, examples

pytest.importorskip("torch")

TIME = re.compile(r"\d+(\.\d+)? ?(s|ms|µs)\b")


def on_cpu(code: str) -> str:
    code = code.replace("GPUMemoryProfiler", "CPUMemoryProfiler").replace(".cuda()", "")
    return code.replace('device="cuda:0"', 'device="cpu"')


def run(example: Example, names: dict[str, object]) -> str:
    printed, raised = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(on_cpu(example.code), "page", "exec"), names)
        except Exception as error:
            if type(error).__name__ != example.error:
                raise
            raised = type(error).__name__
    assert raised == example.error, example.code
    return printed.getvalue().strip("\n")


def without_times(text: str) -> str:
    return TIME.sub("TIME", text)


def check_page() -> None:
    names: dict[str, object] = {"__name__": "page"}
    checked = 0
    for example in examples(PAGE.read_text(encoding="utf-8")):
        if example.is_gpu_only:
            continue
        printed = run(example, names)
        if example.output is not None:
            assert without_times(printed) == without_times(example.output), example.code
            checked += 1
    assert checked >= 8


def test_the_page_prints_what_it_says():
    # In a process of its own: the page assumes nothing has been counted yet.
    helpers = str(Path(__file__).resolve().parents[1])
    done = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": helpers},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_training_example_runs():
    script = PAGE.parents[1] / "examples" / "train_with_profiler.py"
    done = subprocess.run(
        [sys.executable, str(script), "2"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "train_step" in done.stdout
    assert "monitored:" in done.stdout


if __name__ == "__main__":
    check_page()
