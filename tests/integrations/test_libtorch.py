"""libtorch programs without Python that record themselves, against libtorch's own reports."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("GPUMEMPROF_NATIVE_BUILD", "build/test")


def run(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package, and the programs built against it."""
    folder = tmp_path_factory.mktemp("libtorch")
    run("cmake", "--install", BUILD, "--prefix", folder / "prefix")
    run(
        *("cmake", "-G", "Ninja", "-S", ROOT / "tests/integrations/libtorch", "-B", folder),
        f"-DCMAKE_PREFIX_PATH={folder / 'prefix'};{torch.utils.cmake_prefix_path}",
        f"-DEXAMPLES={ROOT / 'examples'}",
        "-DCMAKE_BUILD_TYPE=Release",
    )
    run("cmake", "--build", folder)
    return folder


def report(native: Path, recording: Path) -> dict[str, object]:
    return json.loads(run(native / "prefix/bin/gpumemprof", "report", recording, "--json"))


def test_the_peak_equals_what_libtorch_reports(native: Path, tmp_path: Path) -> None:
    peak, lost = map(int, run(native / "counted", tmp_path / "run.gmp").split())
    assert lost == 0
    [device] = report(native, tmp_path / "run.gmp")["devices"]
    assert device["peak"]["allocated_bytes"] == peak


def test_what_modules_and_optimizers_own_has_its_name(native: Path, tmp_path: Path) -> None:
    run(native / "train", tmp_path / "run.gmp")
    [device] = report(native, tmp_path / "run.gmp")["devices"]
    sources = device["sources"]
    parameters = 4 * (256 * 1024 + 1024 + 1024 * 10 + 10)
    assert sources["parameters"]["bytes_max"] == parameters
    assert sources["gradients"]["bytes_max"] == parameters
    assert sources["optimizer_state"]["bytes_max"] == 2 * parameters
    for name in ("parameters", "gradients", "optimizer_state"):
        assert sources[name]["max_provenance"] == "measured"
    assert len(device["steps"]) >= 4
    info = json.loads(run(native / "prefix/bin/gpumemprof", "info", tmp_path / "run.gmp", "--json"))
    assert info["versions"]["torch"].startswith(torch.__version__.split("+")[0])


def test_no_python_is_loaded(native: Path) -> None:
    libraries = [line.split()[0] for line in run("ldd", native / "train").splitlines() if line]
    assert not [name for name in libraries if name.startswith(("libpython", "libtorch_python"))]
