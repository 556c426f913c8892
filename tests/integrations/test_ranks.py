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


def assert_has_line(finding: dict[str, Any], line: str) -> None:
    names = [one["name"] for one in finding["lines"]]
    assert any(name.startswith(f"{line} ") for name in names), names


def test_stages_are_kept_apart_by_the_mesh(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "pipeline", "--mesh", "--longer", "3")
    job = report_job(tmp_path)
    assert job["compared_by"] == "mesh"
    assert [group["coordinates"] for group in job["groups"]] == [{"pp": 0}, {"pp": 1}]
    outlier = only_outlier(job)
    # The first stage is larger, but that is its design.
    assert (outlier["rank"], outlier["group"]) == (3, 1)
    assert outlier["step"] >= 7
    assert_has_line(outlier, line_of("block"))


def test_stages_without_a_mesh_are_kept_apart_by_their_parameters(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "pipeline")
    job = report_job(tmp_path)
    assert job["compared_by"] == "parameters"
    assert [group["ranks"] for group in job["groups"]] == [[2, 3], [0, 1]]


def test_an_overloaded_expert_is_named(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "moe", "--overloaded", "2")
    job = report_job(tmp_path)
    outlier = only_outlier(job)
    assert (outlier["rank"], outlier["group"]) == (2, 0)
    assert job["groups"][0]["ranks"] == [0, 1, 2, 3]
    assert outlier["step"] >= 1
    assert "expert" in outlier["modules"][0]["name"]
    assert_has_line(outlier, line_of("block"))


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_longer_sequences_on_one_rank(tmp_path: Path, kind: str) -> None:
    start_job(tmp_path, 4, kind, "--longer", "1")
    job = report_job(tmp_path)
    outlier = only_outlier(job)
    assert (outlier["rank"], outlier["group"]) == (1, 0)
    assert outlier["step"] >= 7
    assert outlier["sources"][0]["name"] == "activations"
    assert_has_line(outlier, line_of("block"))
    assert list(job["imbalance"]["heaviest_ranks"]) == ["1"]


def test_a_leak_on_one_rank(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "ddp", "--leaks", "2", "--steps", "20")
    job = report_job(tmp_path)
    assert job["leaks"]["ranks"] == [2]
    assert job["leaks"]["line"].startswith(line_of("leaks"))
    assert job["leaks"]["first_step"] <= 4
    outlier = only_outlier(job)
    assert (outlier["rank"], outlier["group"]) == (2, 0)
    assert outlier["step"] >= 18
    assert_has_line(outlier, line_of("leaks"))


def test_the_rank_that_raises_is_told_from_those_that_follow(tmp_path: Path) -> None:
    start_job(tmp_path, 4, "ddp", "--raises", "2", fails=True)
    failures = report_job(tmp_path)["failures"]
    assert failures["first"]["rank"] == 2
    assert failures["first"]["line"].startswith(line_of("raises"))
    assert failures["first"]["step"] == 8
    assert sorted(one["rank"] for one in failures["followed"]) == [0, 1, 3]


SHAPES = Path(__file__).with_name("rank_shapes.py")


def shape_job(folder: Path, shape: str, how: str, fails: bool = False) -> dict[str, Any]:
    start_job(folder, 4, shape, how, fails=fails, program=SHAPES)
    return report_job(folder)


@pytest.mark.parametrize(
    "shape", ["mesh_of_two", "packed", "evaluates", "accumulates", "vocabulary", "killed"]
)
def test_a_balanced_job_of_another_shape_has_no_outlier(tmp_path: Path, shape: str) -> None:
    job = shape_job(tmp_path, shape, "even")
    assert (job["outliers"], job["uneven_groups"]) == ([], [])
    assert job["imbalance"]["uneven_steps"] == 0
    assert job["failures"]["first"] is None
    assert job["failures"]["ranks_without_end"] == 0
    assert job["leaks"]["ranks"] == []


@pytest.mark.parametrize(
    ("shape", "rank", "steps", "comment"),
    [
        ("packed", 3, [10], "scores"),
        ("evaluates", 0, [4, 5, 8, 9, 12, 13], "evaluation"),
        ("vocabulary", 1, range(1, 13), "shard"),
    ],
)
def test_an_odd_rank_of_another_shape(
    tmp_path: Path, shape: str, rank: int, steps: list[int], comment: str
) -> None:
    outlier = only_outlier(shape_job(tmp_path, shape, "odd"))
    assert (outlier["rank"], outlier["group"]) == (rank, 0)
    assert outlier["step"] in steps
    assert_has_line(outlier, line_of(comment, SHAPES))


def test_uneven_accumulation_is_named_by_what_it_keeps(tmp_path: Path) -> None:
    outlier = only_outlier(shape_job(tmp_path, "accumulates", "odd"))
    assert outlier["rank"] == 2
    assert outlier["step"] >= 5
    assert outlier["sources"][0]["name"] == "activations"


def test_a_replica_with_longer_sequences_is_named_as_a_whole(tmp_path: Path) -> None:
    job = shape_job(tmp_path, "mesh_of_two", "odd")
    assert job["outliers"] == []
    (uneven,) = job["uneven_groups"]
    assert (uneven["name"], uneven["ranks"], uneven["is_one_of_two"]) == ("dp 1", [2, 3], True)
    assert uneven["step"] >= 6
    assert any("rank_shapes.py" in one["name"] for one in uneven["lines"])


def test_a_rank_that_is_killed_is_the_first_to_fall_silent(tmp_path: Path) -> None:
    failures = shape_job(tmp_path, "killed", "odd", fails=True)["failures"]
    # The launcher ends the others, or they say that a rank is gone. If it is busy, it may kill one
    # before that has closed its recording: then which of the two was first is unknown.
    if failures["first"] or failures["silent_first"] is not None:
        first = failures["first"]
        assert (first["rank"] if first else failures["silent_first"]) == 1
    else:
        assert 1 in failures["candidates"] or failures["ranks_without_end"] > 1
