"""Which rank a process is, as launchers, torch and Megatron say."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
from gpumemprof.recorder.rank_facts import launcher_facts, rank_facts
from gpumemprof.torch_calls import ranks


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {}),
        (
            {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "none"},
            {"rank": "1", "world_size": "4", "local_rank": "1"},
        ),
        ({"RANK": "0", "WORLD_SIZE": "1"}, {"rank": "0", "world_size": "1"}),
        (
            {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"},
            {"rank": "3", "world_size": "8", "job": "slurm 7.0"},
        ),
        # One task that starts the ranks itself.
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "SLURM_JOB_ID": "7"}, {}),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"},
            {"rank": "2", "world_size": "4"},
        ),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, {"rank": "2", "world_size": "4"}),
        # torchrun under srun knows better.
        (
            {"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "RANK": "5", "WORLD_SIZE": "16"},
            {"rank": "5", "world_size": "16"},
        ),
        ({"RANK": "9", "WORLD_SIZE": "4"}, {}),
        ({"RANK": "x", "WORLD_SIZE": "4"}, {}),
    ],
)
def test_the_launcher_says_which_rank_it_is(
    environment: dict[str, str], expected: dict[str, str]
) -> None:
    assert launcher_facts(environment) == expected


class Mesh:
    """As much of torch's DeviceMesh as is read."""

    def __init__(self, names: tuple[str, ...] | None, shape: tuple[int, ...], place: list[int]):
        self.mesh_dim_names = names
        self.shape = shape
        self._place = place

    def get_coordinate(self) -> list[int]:
        return self._place


@pytest.fixture(autouse=True)
def _no_meshes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "_meshes", [])


def test_the_largest_mesh_counts_and_others_add_their_dimensions() -> None:
    for mesh in (
        Mesh(("tp",), (2,), [1]),
        Mesh(("pp", "dp", "tp"), (2, 2, 2), [1, 0, 1]),
        Mesh(("pp", "edp", "ep"), (2, 1, 4), [1, 0, 3]),
        Mesh(None, (8,), [5]),
    ):
        ranks._note_mesh(mesh)
    facts = ranks.mesh_facts()
    assert {key: facts[key] for key in facts if key.startswith("mesh ")} == {
        "mesh pp": "1",
        "mesh dp": "0",
        "mesh tp": "1",
        "mesh edp": "0",
        "mesh ep": "3",
    }
    assert facts["mesh_size ep"] == "4"


def test_megatron_is_asked_if_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    state = SimpleNamespace(
        model_parallel_is_initialized=lambda: True,
        get_pipeline_model_parallel_rank=lambda: 1,
        get_pipeline_model_parallel_world_size=lambda: 2,
        get_tensor_model_parallel_rank=lambda: 0,
        get_tensor_model_parallel_world_size=lambda: 1,
        get_data_parallel_rank=lambda: 3,
        get_data_parallel_world_size=lambda: 4,
    )
    module = ModuleType("megatron.core.parallel_state")
    module.__dict__.update(vars(state))
    monkeypatch.setitem(sys.modules, "megatron.core.parallel_state", module)
    assert ranks.mesh_facts() == {
        "mesh pp": "1",
        "mesh_size pp": "2",
        "mesh dp": "3",
        "mesh_size dp": "4",
    }


def test_a_process_that_a_rank_started_is_no_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"RANK": "1", "WORLD_SIZE": "4"}
    assert rank_facts(environment)["rank"] == "1"
    assert rank_facts(environment)["rank"] == "1"  # a second recording of the same process
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert rank_facts(environment) == {"helper_of_rank": "1"}
    # A launcher that a rank starts makes new ranks.
    assert rank_facts({**environment, "RANK": "2"})["rank"] == "2"
