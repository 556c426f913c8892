"""Jobs of four real ranks, each kind of parallelism, with and without something odd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ranks.rank_jobs import line_of, report_job, start_job


@pytest.mark.parametrize(
    "words",
    [["ddp"], ["fsdp2"], ["tp"], ["pipeline", "--mesh"], ["pipeline"], ["moe"]],
    ids=lambda words: "_".join(words).replace("--", ""),
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_balanced_job_has_no_outlier(tmp_path: Path, ranks: int, words: list[str]) -> None:
    start_job(tmp_path, ranks, *words)
    job = report_job(tmp_path)
    assert len(job["ranks"]) == ranks
    assert job["outliers"] == []
    assert job["uneven_groups"] == []
    assert job["imbalance"]["uneven_steps"] == 0
    assert job["failures"]["first"] is None
    assert job["leaks"]["ranks"] == []
    assert job["imbalance"]["compared_steps"] > 0 or (words[0] == "pipeline" and ranks == 2)


def only_outlier(job: dict[str, Any]) -> dict[str, Any]:
    (outlier,) = job["outliers"]
    return dict(outlier)


def test_stages_are_kept_apart_by_the_mesh(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "pipeline", "--mesh", "--longer", "3")
    job = report_job(tmp_path)
    assert job["compared_by"] == "mesh"
    assert [group["coordinates"] for group in job["groups"]] == [{"pp": 0}, {"pp": 1}]
    outlier = only_outlier(job)
    # The first stage is larger, but that is its design.
    assert (outlier["rank"], outlier["group"]) == (3, 1)
    assert outlier["step"] >= 7


def test_stages_without_a_mesh_are_kept_apart_by_their_parameters(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "pipeline")
    job = report_job(tmp_path)
    assert job["compared_by"] == "parameters"
    assert [group["ranks"] for group in job["groups"]] == [[2, 3], [0, 1]]


def test_an_overloaded_expert_is_named(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "moe", "--overloaded", "2")
    outlier = only_outlier(report_job(tmp_path))
    assert outlier["rank"] == 2
    assert "expert" in outlier["modules"][0]["name"]
    assert "rank_program.py" in outlier["lines"][0]["name"]


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_longer_sequences_on_one_rank(tmp_path: Path, kind: str) -> None:
    start_job(tmp_path, 4, kind, "--longer", "1")
    job = report_job(tmp_path)
    outlier = only_outlier(job)
    assert outlier["rank"] == 1
    assert outlier["step"] >= 7
    assert outlier["sources"][0]["name"] == "activations"
    assert list(job["imbalance"]["heaviest_ranks"]) == ["1"]


def test_a_leak_on_one_rank(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "ddp", "--leaks", "2", "--steps", "20")
    job = report_job(tmp_path)
    assert job["leaks"]["ranks"] == [2]
    assert job["leaks"]["line"].startswith(line_of("leaks"))
    assert only_outlier(job)["rank"] == 2


def test_the_rank_that_raises_is_told_from_those_that_follow(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "ddp", "--raises", "2", fails=True)
    failures = report_job(tmp_path)["failures"]
    assert failures["first"]["rank"] == 2
    assert failures["first"]["line"].startswith(line_of("raises"))
    assert failures["first"]["step"] == 8
    assert sorted(one["rank"] for one in failures["followed"]) == [0, 1, 3]
