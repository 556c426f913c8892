"""Autograd nodes that a compiled extension makes belong to their module."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import gpumemprof
import pytest

torch = pytest.importorskip("torch")
pyarrow = pytest.importorskip("pyarrow")

from module_models import train  # noqa: E402
from module_referee import OUTSIDE, Referee  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(scope="module")
def own_function(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that creates autograd nodes itself."""
    compiler = shutil.which("c++")
    torch_folder = Path(torch.__file__).parent
    if compiler is None or not (torch_folder / "include").exists():
        pytest.skip("there is no C++ compiler, or torch came without its headers")
    source = Path(__file__).resolve().parents[1] / "cpp/capture/fake_torch/own_function.cpp"
    path = tmp_path_factory.mktemp("own_function") / "own_function.so"
    include = torch_folder / "include"
    includes = [f"-I{include}", f"-I{include / 'torch/csrc/api/include'}"]
    libraries = [str(torch_folder / "lib" / name) for name in ("libc10.so", "libtorch_cpu.so")]
    command = [compiler, "-std=c++20", "-O0", "-shared", "-fPIC", *includes, str(source)]
    subprocess.run([*command, *libraries, "-o", str(path)], check=True)
    return path


def test_nodes_that_a_library_makes_belong_to_their_module(
    tmp_path: Path, own_function: Path
) -> None:
    class Copy(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ops.own_function.copied(x)

    with gpumemprof.record(tmp_path / "first.gmp", cpu=True):
        torch.ones(4, requires_grad=True).sum().backward()
    # A program may load it at any time, including during a recording.
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True) as recorded:
        torch.ops.load_library(str(own_function))
        model = nn.Sequential(nn.Linear(16, 16), Copy(), nn.Linear(16, 16))
        train(model, lambda made: made(torch.randn(8, 16)).sum(), Referee(model), steps=2)
    events = pyarrow.table(gpumemprof.load(recorded.path).events).to_pylist()
    rows = [row for row in events if row["action"] == "alloc"]
    wrong = [row for row in rows if (row["module"] or OUTSIDE) != (row["user_metadata"] or OUTSIDE)]
    assert wrong == []
    # Forward and backward, in two steps.
    assert len([row for row in rows if row["module"] == "1"]) == 4
