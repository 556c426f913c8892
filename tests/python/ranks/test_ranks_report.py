"""`gpumemprof ranks` on made-up jobs: who is compared with whom, who stands out, who failed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from gpumemprof.ranks.as_json import as_json
from gpumemprof.ranks.read import read_ranks
from gpumemprof.ranks.report import make_report
from gpumemprof.ranks.text import as_text
from ranks.made_ranks import GIB, MIB, START_NS, made_rank, summary_text, write_ranks
from ranks.rank_jobs import ranks_command


def report(folder: Path) -> dict[str, Any]:
    made = as_json(make_report(read_ranks([str(folder)])))
    (job,) = made["jobs"]
    return dict(job)


def text(folder: Path) -> str:
    return as_text(make_report(read_ranks([str(folder)])))


def numbers(job: dict[str, Any]) -> list[int]:
    return [one["rank"] for one in job["outliers"]]


def test_the_heaviest_rank_is_named_with_what_it_holds(tmp_path: Path) -> None:
    heavy = made_rank(2, peaks=[100 * MIB] * 6 + [160 * MIB] * 6)
    write_ranks(tmp_path, [made_rank(0), made_rank(1), heavy, made_rank(3)])
    job = report(tmp_path)
    (outlier,) = job["outliers"]
    assert (outlier["rank"], outlier["step"], outlier["more_bytes"]) == (2, 7, 60 * MIB)
    assert [one["name"] for one in outlier["sources"]] == ["activations"]
    assert outlier["lines"] == [
        {
            "name": "train.py:7 step",
            "bytes": 120 * MIB,
            "more_bytes": 60 * MIB,
            "is_at_least": False,
        }
    ]
    assert job["imbalance"]["uneven_steps"] == 6
    assert job["imbalance"]["heaviest_ranks"] == {"2": 6}
    assert job["nearest_rank"] == 2
    # The card, less what is outside of the pool, less what the pool reserved.
    assert job["headroom_bytes"] == 8 * GIB - 500 * MIB - 180 * MIB


@pytest.mark.parametrize("seed", range(20))
def test_like_ranks_show_no_outlier(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    spread = chance.choice([0.0, 0.01, 0.1, 0.3])
    ranks = [
        made_rank(
            rank,
            64,
            peaks=[round(GIB * (1 + spread * chance.random())) for _ in range(12)],
        )
        for rank in range(64)
    ]
    write_ranks(tmp_path, ranks)
    job = report(tmp_path)
    assert job["outliers"] == []
    assert job["imbalance"]["uneven_steps"] == 0


def test_stages_are_not_compared(tmp_path: Path) -> None:
    ranks = []
    for rank in range(16):
        stage, data = divmod(rank, 4)
        peaks = [(100 + 80 * stage) * MIB] * 12
        if rank == 6:
            peaks[3] = 230 * MIB
        mesh = {"pp": (stage, 4), "dp": (data, 4)}
        ranks.append(made_rank(rank, 16, peaks=peaks, mesh=mesh))
    write_ranks(tmp_path, ranks)
    job = report(tmp_path)
    assert job["dimensions"] == ["pp"]
    (outlier,) = job["outliers"]
    assert (outlier["rank"], outlier["step"]) == (6, 4)
    assert job["groups"][outlier["group"]]["coordinates"] == {"pp": 1}


def test_experts_are_compared_where_no_other_rank_has_the_same(tmp_path: Path) -> None:
    ranks = [
        made_rank(
            rank,
            mesh={"ep": (rank, 4)},
            peaks=[(300 if rank == 1 and step == 4 else 100) * MIB for step in range(12)],
        )
        for rank in range(4)
    ]
    write_ranks(tmp_path, ranks)
    job = report(tmp_path)
    assert job["dimensions"] == []
    (outlier,) = job["outliers"]
    assert (outlier["rank"], outlier["step"]) == (1, 5)


def test_an_expert_that_is_overloaded_on_every_replica_is_an_uneven_group(tmp_path: Path) -> None:
    ranks = [
        made_rank(
            rank,
            16,
            mesh={"dp": (rank // 4, 4), "ep": (rank % 4, 4)},
            peaks=[(200 if rank % 4 == 3 else 100) * MIB] * 12,
        )
        for rank in range(16)
    ]
    write_ranks(tmp_path, ranks)
    job = report(tmp_path)
    assert job["outliers"] == []
    (uneven,) = job["uneven_groups"]
    assert job["groups"][uneven["group"]]["coordinates"] == {"ep": 3}
    assert "Uneven: the ranks of ep 3" in text(tmp_path)


def test_without_a_mesh_different_parameters_are_different_stages(tmp_path: Path) -> None:
    def stage(rank: int) -> dict[str, Any]:
        parameters = (40 + 40 * (rank // 2)) * MIB
        sources = {
            "parameters": {"at_peak": parameters, "most": parameters, "provenance": "measured"}
        }
        return made_rank(rank, peaks=[2 * parameters] * 12, sources=sources)

    write_ranks(tmp_path, [stage(rank) for rank in range(4)])
    job = report(tmp_path)
    assert job["compared_by"] == "parameters"
    assert job["outliers"] == []
    assert "different amounts of parameters" in text(tmp_path)


def test_of_two_ranks_neither_is_called_unusual(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, 2), made_rank(1, 2, peaks=[200 * MIB] * 12)])
    (outlier,) = report(tmp_path)["outliers"]
    assert (outlier["rank"], outlier["is_one_of_two"]) == (1, True)
    assert "which of two is unusual cannot be told" in text(tmp_path)


def test_memory_outside_the_pool_stands_out_by_itself(tmp_path: Path) -> None:
    ranks = [made_rank(rank) for rank in (1, 2, 3)]
    write_ranks(tmp_path, [made_rank(0, outside_bytes=4 * GIB), *ranks])
    (outlier,) = report(tmp_path)["outliers"]
    assert (outlier["rank"], outlier["figure"]) == (0, "outside_bytes")


def failed(rank: int, seconds: float, of_peer: bool = False, **changes: Any) -> dict[str, Any]:
    return made_rank(
        rank,
        failure_type="RuntimeError" if of_peer else "ValueError",
        failure_place=f"train.py:{rank} load",
        failure_unix_ns=START_NS + round(seconds * 10**9),
        is_failure_of_peer=of_peer,
        **changes,
    )


def test_the_first_failure_is_told_from_those_that_followed(tmp_path: Path) -> None:
    killed = made_rank(3, is_closed=False, reason=None)
    write_ranks(tmp_path, [failed(0, 5.2, True), failed(1, 5), failed(2, 5.1, True), killed])
    failures = report(tmp_path)["failures"]
    assert failures["first"]["rank"] == 1
    assert failures["first"]["line"] == "train.py:1 load"
    assert failures["first"]["step"] == 12
    assert failures["doubt"] is None
    assert sorted(one["rank"] for one in failures["followed"]) == [0, 2, 3]


def test_a_follower_whose_clock_is_ahead_is_still_a_follower(tmp_path: Path) -> None:
    others = [made_rank(rank) for rank in (2, 3)]
    write_ranks(tmp_path, [failed(0, 1, True), failed(1, 5), *others])
    failures = report(tmp_path)["failures"]
    assert failures["first"]["rank"] == 1


def test_two_hosts_that_fail_at_nearly_the_same_time_leave_a_doubt(tmp_path: Path) -> None:
    ranks = [failed(0, 5), failed(1, 5.3, host="another")]
    write_ranks(tmp_path, [*ranks, made_rank(2), made_rank(3)])
    failures = report(tmp_path)["failures"]
    assert failures["first"]["rank"] == 0
    assert "clocks" in failures["doubt"]
    assert [one["rank"] for one in failures["also"]] == [1]


def test_a_leak_of_one_rank_and_of_all(tmp_path: Path) -> None:
    leaks = {
        "verdict": "leak",
        "steps": 12,
        "bytes_per_step": MIB,
        "lines": [{"line": "train.py:9 keep", "bytes_per_step": MIB, "first_step": 2}],
    }
    write_ranks(tmp_path, [made_rank(0, leaks=leaks), *(made_rank(rank) for rank in (1, 2, 3))])
    job = report(tmp_path)
    assert job["leaks"]["ranks"] == [0]
    assert job["leaks"]["line"] == "train.py:9 keep"
    assert "rank 0 alone leaks" in text(tmp_path)
    write_ranks(tmp_path, [made_rank(rank, leaks=leaks) for rank in range(4)])
    assert "all 4 ranks leak" in text(tmp_path)


def test_missing_ranks_are_said_first(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank, 8) for rank in (0, 1, 3, 6)])
    assert report(tmp_path)["missing_ranks"] == [2, 4, 5, 7]
    assert "ranks 2, 4-5, 7 of 8" in " ".join(text(tmp_path).split()[:80])


def test_two_jobs_in_one_folder_are_reported_apart(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank) for rank in range(4)], "old")
    new = [made_rank(rank, job="newer", first_unix_ns=START_NS + 10**12) for rank in range(4)]
    write_ranks(tmp_path, new, "new")
    made = as_json(make_report(read_ranks([str(tmp_path)])))
    assert [job["job"] for job in made["jobs"]] == ["newer", "a job"]
    assert "there are 2 jobs" in made["notes"][0]


def test_the_same_job_run_twice_without_a_name_is_two_jobs(tmp_path: Path) -> None:
    for number in range(2):
        start = START_NS + number * 10**12
        ranks = [made_rank(rank, job=None, first_unix_ns=start) for rank in range(4)]
        write_ranks(tmp_path, ranks, f"run{number}")
    made = as_json(make_report(read_ranks([str(tmp_path)])))
    assert [len(job["ranks"]) for job in made["jobs"]] == [4, 4]


def test_different_versions_are_said(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, torch="2.9.0"), *(made_rank(rank) for rank in (1, 2, 3))])
    assert any("versions of torch" in note for note in report(tmp_path)["notes"])


def test_a_large_job_fits_a_screen(tmp_path: Path) -> None:
    ranks = [
        made_rank(
            rank, 512, mesh={"pp": (rank // 64, 8), "tp": (rank // 8 % 8, 8), "dp": (rank % 8, 8)}
        )
        for rank in range(512)
    ]
    write_ranks(tmp_path, ranks)
    assert len(text(tmp_path).splitlines()) < 24


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"format": 1}', '{"format":"gpumemprof rank summary","version":1}']
)
def test_a_damaged_summary_is_said_and_the_rest_reported(tmp_path: Path, damage: str) -> None:
    write_ranks(tmp_path, [made_rank(rank) for rank in range(4)])
    (tmp_path / "job.rank2.gmp.summary.jsonl").write_text(damage)
    done = ranks_command("--json", str(tmp_path))
    assert done.returncode == 3
    assert "rank2" in done.stderr
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)["jobs"][0]["missing_ranks"] == [2]


def test_a_summary_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = summary_text(made_rank(0, 1))
    path = tmp_path / "job.rank0.gmp.summary.jsonl"
    for end in range(0, len(whole) - 3, 7):
        path.write_text(whole[:end])
        assert read_ranks([str(tmp_path)]).problems, end


def test_a_newer_version_is_named(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, 1, version=99)])
    done = ranks_command(str(tmp_path))
    assert done.returncode == 3
    assert "version 99" in done.stderr


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ([], 2, "needs a folder"),
        (["nowhere"], 3, "no such file or folder"),
        (["--jsn", "."], 2, "did you mean '--json'"),
    ],
)
def test_mistakes_get_a_sentence(words: list[str], code: int, sentence: str) -> None:
    done = ranks_command(*words)
    assert done.returncode == code
    assert sentence in done.stderr


def test_an_empty_folder_is_said(tmp_path: Path) -> None:
    done = ranks_command(str(tmp_path))
    assert done.returncode == 3
    assert "no recordings" in done.stderr


def test_recordings_of_no_rank_are_left_out_and_said(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank) for rank in range(4)])
    loader = made_rank(9, peaks=[GIB] * 3)
    loader["head"]["process"].update(rank=None, world_size=None)
    (tmp_path / "loader.gmp.summary.jsonl").write_text(summary_text(loader))
    job = report(tmp_path)
    assert len(job["ranks"]) == 4
    assert any("of no rank" in note for note in job["notes"])


def test_no_value_of_a_summary_makes_the_report_crash(tmp_path: Path) -> None:
    """Every value, one after the other, is replaced by one of another type."""
    base = made_rank(
        1,
        leaks={
            "verdict": "leak",
            "steps": 12,
            "bytes_per_step": MIB,
            "lines": [{"line": "train.py:9 keep", "bytes_per_step": MIB, "first_step": 2}],
        },
        oom_reports=[
            {
                "unix_ns": START_NS,
                "step": 1,
                "wanted_bytes": MIB,
                "cause": "shortage",
                "is_proven": True,
                "line": None,
            }
        ],
        mesh={"dp": (1, 4)},
        peaks=[300 * MIB] * 12,
    )
    lines = summary_text(base).splitlines()

    def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        rows = value.items() if isinstance(value, dict) else enumerate(value)
        found = [path] if path else []
        for key, inner in rows:
            deeper = (*path, key)
            found += places(inner, deeper) if isinstance(inner, (dict, list)) else [deeper]
        return found

    write_ranks(tmp_path, [made_rank(rank) for rank in (0, 2, 3)])
    target = tmp_path / "job.rank1.gmp.summary.jsonl"
    tried = 0
    for number in range(len(lines)):
        for place in places(json.loads(lines[number]))[:80]:
            for odd in (None, "text", -1, 1 << 70, [], {}, 0.5):
                row = json.loads(lines[number])
                inner = row
                for key in place[:-1]:
                    inner = inner[key]
                inner[place[-1]] = odd
                changed = [*lines[:number], json.dumps(row), *lines[number + 1 :]]
                target.write_text("\n".join(changed) + "\n")
                found = read_ranks([str(tmp_path)])
                made = make_report(found)
                assert as_text(made)
                assert json.dumps(as_json(made))
                tried += 1
    assert tried > 500


def test_the_only_rank_that_was_killed_is_the_one_that_others_miss(tmp_path: Path) -> None:
    killed = made_rank(3, is_closed=False, reason=None)
    write_ranks(tmp_path, [*(failed(rank, 5, True) for rank in (0, 1, 2)), killed])
    failures = report(tmp_path)["failures"]
    assert (failures["first"]["rank"], failures["first"]["kind"]) == (3, "killed")
    assert "it was killed" in failures["doubt"]


@pytest.mark.parametrize(
    ("seconds", "first", "candidates"), [(0.007, None, [2, 3]), (9, None, [2, 3]), (11, 3, [])]
)
def test_ranks_killed_within_seconds_are_both_named(
    tmp_path: Path, seconds: float, first: int | None, candidates: list[int]
) -> None:
    ends = {3: START_NS + 10**9, 2: START_NS + 10**9 + round(seconds * 10**9)}
    killed = [
        made_rank(rank, is_closed=False, reason=None, last_unix_ns=last, host="one")
        for rank, last in ends.items()
    ]
    write_ranks(tmp_path, [*(failed(rank, 5, True) for rank in (0, 1)), *killed])
    failures = report(tmp_path)["failures"]
    assert (failures["first"] or {"rank": None})["rank"] == first
    assert sorted(failures["candidates"]) == candidates
    words = " ".join(text(tmp_path).split())
    assert ("Failed first: rank 3 or 2, killed." in words) == bool(candidates)
    followers = "Ranks 0-1 failed" if candidates else "Ranks 0-2 failed"
    assert f"{followers} as a consequence" in words


def test_an_exit_code_is_a_failure(tmp_path: Path) -> None:
    write_ranks(
        tmp_path, [made_rank(0, reason="_exit 3"), *(made_rank(rank) for rank in (1, 2, 3))]
    )
    assert report(tmp_path)["failures"]["first"]["rank"] == 0
    assert "exit code 3" in text(tmp_path)


def test_headroom_without_the_memory_outside_the_pool_is_an_upper_bound(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank, outside_bytes=None) for rank in range(4)])
    assert report(tmp_path)["is_headroom_at_most"]
    assert "with at most" in text(tmp_path)
