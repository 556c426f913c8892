"""What the report finds beyond single ranks: uneven places, silent ranks, clocks that differ."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from gpumemprof.ranks.as_json import as_json
from gpumemprof.ranks.compare.clocks import find_clock_offsets
from gpumemprof.ranks.read import read_ranks
from gpumemprof.ranks.report import make_report
from gpumemprof.ranks.text import as_text
from ranks.made_ranks import MIB, START_NS, made_rank, write_ranks

SECOND = 10**9


def report(folder: Path) -> dict[str, Any]:
    (job,) = as_json(make_report(read_ranks([str(folder)])))["jobs"]
    return dict(job)


def text(folder: Path) -> str:
    return " ".join(as_text(make_report(read_ranks([str(folder)]))).split())


def two_by_two(heavy: tuple[int, ...]) -> list[dict[str, Any]]:
    return [
        made_rank(
            rank,
            mesh={"dp": (rank // 2, 2), "tp": (rank % 2, 2)},
            peaks=[(300 if rank in heavy and step >= 5 else 100) * MIB for step in range(12)],
        )
        for rank in range(4)
    ]


def test_a_replica_that_is_heavier_as_a_whole_is_named_with_what_it_holds(tmp_path: Path) -> None:
    write_ranks(tmp_path, two_by_two((2, 3)))
    job = report(tmp_path)
    assert job["outliers"] == []
    (uneven,) = job["uneven_groups"]
    assert (uneven["name"], uneven["ranks"], uneven["step"]) == ("dp 1", [2, 3], 6)
    assert (uneven["is_one_of_two"], uneven["median_bytes"]) == (True, 300 * MIB)
    assert uneven["lines"][0]["name"] == "train.py:7 step"
    assert "Uneven: the ranks of dp 1 (2-3) peak at 300 MiB" in text(tmp_path)
    assert "No rank has a clearly higher peak" not in text(tmp_path)


def test_where_half_of_the_ranks_need_more_none_is_called_alike(tmp_path: Path) -> None:
    peaks = (160, 160, 370, 350)
    ranks = [made_rank(rank, peaks=[peak * MIB] * 12) for rank, peak in enumerate(peaks)]
    write_ranks(tmp_path, ranks)
    assert report(tmp_path)["outliers"] == []
    assert "Peaks differ by up to 210 MiB within a group, in too many ranks" in text(tmp_path)
    assert "clearly higher" not in text(tmp_path)


def test_ranks_of_both_replicas_are_no_uneven_replica(tmp_path: Path) -> None:
    write_ranks(tmp_path, two_by_two((1, 3)))
    # Both tensor-parallel places of one dimension differ, the replicas do not.
    (uneven,) = report(tmp_path)["uneven_groups"]
    assert uneven["name"] == "tp 1"


def test_like_replicas_are_even(tmp_path: Path) -> None:
    write_ranks(tmp_path, two_by_two(()))
    assert report(tmp_path)["uneven_groups"] == []


def silent(rank: int, seconds: float, **changes: Any) -> dict[str, Any]:
    last = START_NS + round(seconds * SECOND)
    return made_rank(rank, is_closed=False, reason=None, last_unix_ns=last, **changes)


def test_the_rank_that_fell_silent_first_is_named_with_doubt(tmp_path: Path) -> None:
    ranks = [silent(rank, 3.0 if rank == 2 else 14.5, host="one") for rank in range(4)]
    write_ranks(tmp_path, ranks)
    failures = report(tmp_path)["failures"]
    assert failures["first"] is None
    assert (failures["ranks_without_end"], failures["silent_first"]) == (4, 2)
    assert "Rank 2 fell silent first at step 12" in text(tmp_path)
    assert "it may have been killed" in text(tmp_path)


def test_ranks_that_were_ended_with_the_job_are_called_that(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank, reason="signal SIGTERM") for rank in range(4)])
    assert "4 ranks were killed by SIGTERM." in text(tmp_path)


def test_rank_that_could_say_nothing_failed_before_those_that_were_ended(tmp_path: Path) -> None:
    ended = [made_rank(rank, reason="signal SIGTERM") for rank in (0, 1)]
    peer = made_rank(2, failure_type="RuntimeError", is_failure_of_peer=True)
    write_ranks(tmp_path, [*ended, peer, silent(3, 200.0)])
    assert report(tmp_path)["failures"]["first"]["rank"] == 3


def test_rank_that_crashed_failed_by_itself(tmp_path: Path) -> None:
    write_ranks(
        tmp_path, [made_rank(0, reason="signal SIGTERM"), made_rank(1, reason="signal SIGSEGV")]
    )
    assert report(tmp_path)["failures"]["first"]["rank"] == 1
    assert "Failed first: rank 1, killed by SIGSEGV" in text(tmp_path)


def test_ranks_of_this_machine_that_are_gone_do_not_still_run(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    for pid, runs in ((ended.pid, False), (os.getpid(), True)):
        now = {"pid": pid, "host": socket.gethostname(), "last_unix_ns": time.time_ns()}
        folder = tmp_path / str(pid)
        folder.mkdir()
        write_ranks(folder, [made_rank(0, is_closed=False, reason=None, **now)])
        assert ("still being written" in text(folder)) == runs
        assert ("killed, or is still running" in text(folder)) != runs


def test_ranks_that_fell_silent_together_are_not_put_in_order(tmp_path: Path) -> None:
    ranks = [silent(rank, 3.0 if rank == 2 else 3.9, host="one") for rank in range(4)]
    write_ranks(tmp_path, ranks)
    failures = report(tmp_path)["failures"]
    assert (failures["ranks_without_end"], failures["silent_first"]) == (4, None)
    assert "fell silent first" not in text(tmp_path)


def test_ranks_on_hosts_with_other_clocks_are_not_compared_by_milliseconds(tmp_path: Path) -> None:
    ranks = [silent(rank, 3.0 + 0.1 * rank, host=f"host{rank}") for rank in range(4)]
    write_ranks(tmp_path, ranks)
    assert report(tmp_path)["failures"]["silent_first"] is None


def failing(rank: int, seconds: float, clock_ahead: int = 0) -> dict[str, Any]:
    ahead = clock_ahead * SECOND
    return made_rank(
        rank,
        host=f"host{rank}",
        first_unix_ns=START_NS + ahead,
        last_unix_ns=START_NS + ahead + 100 * SECOND,
        failure_type="ValueError",
        failure_place=f"train.py:{rank} step",
        failure_unix_ns=START_NS + ahead + round(seconds * SECOND),
    )


def test_a_clock_that_is_an_hour_behind_does_not_decide_who_failed_first(tmp_path: Path) -> None:
    ranks = [failing(0, 90), failing(1, 95, clock_ahead=-3600), failing(2, 99)]
    write_ranks(
        tmp_path, [*ranks, made_rank(3, host="host3", last_unix_ns=START_NS + 100 * SECOND)]
    )
    job = report(tmp_path)
    assert job["failures"]["first"]["rank"] == 0
    assert "clocks" in job["failures"]["doubt"]
    assert "by its own clock, host1 began 60 minutes before the other hosts" in text(tmp_path)


def test_hosts_that_begin_within_seconds_are_ordered_by_their_clocks(tmp_path: Path) -> None:
    write_ranks(tmp_path, [failing(0, 90), failing(1, 60, clock_ahead=20), failing(2, 99)])
    failures = report(tmp_path)["failures"]
    assert failures["first"]["rank"] == 1
    assert failures["doubt"] is None


def test_a_host_that_only_begins_later_is_no_wrong_clock(tmp_path: Path) -> None:
    late = made_rank(3, host="host3", first_unix_ns=START_NS + 60 * SECOND)
    ranks = [made_rank(rank, host=f"host{rank}") for rank in range(3)]
    write_ranks(tmp_path, [*ranks, late])
    assert find_clock_offsets(read_ranks([str(tmp_path)]).ranks) == {}


def test_a_time_before_1970_is_not_known_and_the_rank_counts(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, first_unix_ns=-5), *map(made_rank, (1, 2, 3))])
    assert [one["rank"] for one in report(tmp_path)["ranks"]] == [0, 1, 2, 3]


def test_steps_far_below_the_peak_are_not_uneven(tmp_path: Path) -> None:
    """After the last step, what is left over differs, and limits nothing."""
    ranks = [
        made_rank(rank, peaks=[100 * MIB] * 11 + [(14 if rank == 1 else 10) * MIB])
        for rank in range(4)
    ]
    write_ranks(tmp_path, ranks)
    assert report(tmp_path)["imbalance"]["uneven_steps"] == 0


def test_what_the_heaviest_rank_of_uneven_steps_holds_is_listed(tmp_path: Path) -> None:
    """The peaks of the whole run differ too much for an outlier; the steps do not."""
    runs = [
        [100 * MIB] * 12,
        [100 * MIB] * 11 + [112 * MIB],
        [130 * MIB] * 12,
        [100 * MIB] * 11 + [112 * MIB],
    ]
    write_ranks(tmp_path, [made_rank(rank, peaks=peaks) for rank, peaks in enumerate(runs)])
    job = report(tmp_path)
    assert job["outliers"] == []
    assert list(job["imbalance"]["heaviest_ranks"]) == ["2"]
    assert "by line: train.py:7 step" in text(tmp_path)


def test_one_uneven_step_is_called_the_only_one(tmp_path: Path) -> None:
    peaks = [100 * MIB] * 5 + [200 * MIB] + [100 * MIB] * 6
    write_ranks(tmp_path, [made_rank(0, peaks=peaks), *map(made_rank, (1, 2, 3))])
    assert "There is no other such step." in text(tmp_path)


def test_what_ranks_are_compared_by_is_what_is_known(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank) for rank in range(4)])
    assert report(tmp_path)["compared_by"] == "parameters"
    assert "about the same bytes of parameters: all are compared" in text(tmp_path)
    write_ranks(tmp_path, [made_rank(rank, sources={}) for rank in range(4)])
    assert report(tmp_path)["compared_by"] == "none"
    assert "say nothing about a mesh or parameters: all are compared" in text(tmp_path)
    write_ranks(tmp_path, [made_rank(rank, mesh={"pp": (rank, 4)}) for rank in range(4)])
    assert report(tmp_path)["compared_by"] == "mesh"
    assert "No two ranks have the same pp, so none are compared with each other." in text(tmp_path)


def test_a_step_that_several_groups_have_counts_once(tmp_path: Path) -> None:
    ranks = [
        made_rank(rank, 16, mesh={"pp": (rank // 4, 4), "dp": (rank % 4, 4)}) for rank in range(16)
    ]
    peaks = [100 * MIB] * 6 + [160 * MIB] + [100 * MIB] * 5
    ranks[5] = made_rank(5, 16, mesh={"pp": (1, 4), "dp": (1, 4)}, peaks=peaks)
    write_ranks(tmp_path, ranks)
    assert "in 1 of 12 steps one rank needs clearly more" in text(tmp_path)
    imbalance = report(tmp_path)["imbalance"]
    assert (imbalance["compared_steps"], imbalance["uneven_steps"]) == (12, 1)


def test_a_restart_is_told_from_the_first_attempt(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank, 2) for rank in range(2)], "first")
    later = START_NS + 1000 * SECOND
    again = [made_rank(rank, 2, restart_count=1, first_unix_ns=later) for rank in range(2)]
    write_ranks(tmp_path, again, "again")
    assert "train.py (a job), restart 1: 2 ranks" in text(tmp_path)
    jobs = as_json(make_report(read_ranks([str(tmp_path)])))["jobs"]
    assert [(job["job"], job["restart"]) for job in jobs] == [("a job", 1), ("a job", 0)]


def test_what_nccl_holds_is_named_with_its_rank(tmp_path: Path) -> None:
    ranks = [made_rank(rank) for rank in range(4)]
    for rank, made in enumerate(ranks):
        made["head"]["devices"][0]["nccl"] = {
            "bytes": (100 + rank) * MIB,
            "provenance": "measured",
        }
    write_ranks(tmp_path, ranks)
    assert "NCCL's communicators hold up to 103 MiB (measured), of 500 MiB outside, on rank 3." in (
        text(tmp_path)
    )
    assert report(tmp_path)["ranks"][0]["nccl_bytes"] == 100 * MIB
