"""Programs that end before there is anything to compare."""

from __future__ import annotations

from pathlib import Path

from capture_programs import run_advise


def test_a_program_that_fails_passes_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import sys, torch\ntorch.ones(9)\nsys.exit(7)\n")
    done = run_advise(tmp_path, "--verify", "fused", "--", "train.py")
    assert done.returncode == 7
    assert done.stdout == ""
    said = "gpumemprof: the program as it is ended with exit code 7; there is nothing to compare\n"
    assert done.stderr == said


def test_a_program_without_tensors_is_told_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('nothing')\n")
    done = run_advise(tmp_path, "--verify", "fused", "--", "train.py")
    assert done.returncode == 3
    assert done.stderr.startswith("gpumemprof: train.py: the program created no tensors")
