"""A program's place in its mesh is in its recording at once: all of these are killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpumemprof import _core

START = """
import os, signal, sys, time, torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", rank=5, world_size=8, store=FakeStore())
"""
MESH = """
from torch.distributed.device_mesh import init_device_mesh
init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
"""
# As much of Megatron's own module as is asked; its groups are made in this order.
MEGATRON = """
import torch
_groups = {}
def initialize_model_parallel():
    for name in ("dp", "tp", "pp", "ep"):
        _groups[name] = torch.distributed.new_group(list(range(8)))
    torch.distributed.new_group(list(range(8)))
def model_parallel_is_initialized():
    return all(name in _groups for name in ("tp", "pp", "dp"))
def _known(name, value):
    assert name in _groups
    return value
def get_pipeline_model_parallel_rank(): return _known("pp", 1)
def get_pipeline_model_parallel_world_size(): return _known("pp", 2)
def get_tensor_model_parallel_rank(): return _known("tp", 1)
def get_tensor_model_parallel_world_size(): return _known("tp", 2)
def get_data_parallel_rank(): return _known("dp", 0)
def get_data_parallel_world_size(): return _known("dp", 2)
def get_expert_model_parallel_rank(): return _known("ep", 1)
def get_expert_model_parallel_world_size(): return _known("ep", 2)
def get_context_parallel_rank(): raise AssertionError
def get_context_parallel_world_size(): raise AssertionError
"""
USES_MEGATRON = """
from megatron.core import parallel_state
parallel_state.initialize_model_parallel()
"""
END = """
kept = [torch.ones(1000) for _ in range(10)]
time.sleep(1.5)
os.kill(os.getpid(), signal.SIGKILL)
"""


def place(folder: Path, program: str, **environment: str) -> dict[str, Any]:
    """What the recording of a program that was killed says about its process."""
    (folder / "train.py").write_text(START + program + END)
    core = folder / "megatron/core"
    core.mkdir(parents=True)
    (core / "parallel_state.py").write_text(MEGATRON)
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", "job.gmp", "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    head = json.loads(_core.rank_summary(os.fsencode(folder / "job.gmp")).splitlines()[0])
    return dict(head["process"])


def mesh_of(process: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {one["dimension"]: (one["coordinate"], one["size"]) for one in process["mesh"]}


@pytest.mark.parametrize(
    ("program", "environment", "expected"),
    [
        (MESH, {}, {"pp": (1, 2), "dp": (0, 2), "tp": (1, 2)}),
        (USES_MEGATRON, {}, {"pp": (1, 2), "tp": (1, 2), "ep": (1, 2), "dp": (0, 2)}),
        (
            "",
            {"GPUMEMPROF_MESH": "stage=1/2,replica=1/4"},
            {"stage": (1, 2), "replica": (1, 4)},
        ),
        ("", {"GPUMEMPROF_MESH": "what is this"}, {}),
        ("", {}, {}),
    ],
    ids=["device_mesh", "megatron", "environment", "nonsense", "none"],
)
def test_a_program_says_its_place_as_soon_as_it_is_known(
    tmp_path: Path,
    program: str,
    environment: dict[str, str],
    expected: dict[str, tuple[int, int]],
) -> None:
    process = place(tmp_path, program, **environment)
    assert mesh_of(process) == expected
    # torch's process group says it, where no launcher does.
    assert (process["rank"], process["world_size"]) == (5, 8)


def test_a_larger_mesh_replaces_a_smaller_one(tmp_path: Path) -> None:
    program = """
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
DeviceMesh("cpu", [4, 5, 6, 7], mesh_dim_names=("half",))
init_device_mesh("cpu", (2, 4), mesh_dim_names=("pp", "dp"))
"""
    assert mesh_of(place(tmp_path, program)) == {"pp": (1, 2), "dp": (1, 4)}
