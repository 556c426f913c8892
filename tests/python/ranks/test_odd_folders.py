"""Folders that are not as they should be: what is odd is said, and the rest reported."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from gpumemprof import _core
from gpumemprof.ranks import read
from gpumemprof.ranks.as_json import as_json
from gpumemprof.ranks.read import read_ranks
from gpumemprof.ranks.report import make_report
from ranks.made_ranks import START_NS, made_rank, write_ranks

TRACES = Path(__file__).parents[2] / "data/traces"
MINUTE_NS = 60 * 10**9


def test_clocks_that_are_apart_are_said(tmp_path: Path) -> None:
    late = START_NS + 90 * MINUTE_NS
    ranks = [made_rank(rank, 24) for rank in range(16)]
    ranks += [made_rank(rank, 24, first_unix_ns=late) for rank in range(16, 24)]
    write_ranks(tmp_path, ranks)
    (job,) = as_json(make_report(read_ranks([str(tmp_path)])))["jobs"]
    (note,) = job["notes"]
    assert note.startswith("by its own clock, host2 began 90 minutes after the other hosts")
    assert len(job["ranks"]) == 24


def test_a_few_minutes_between_hosts_are_usual(tmp_path: Path) -> None:
    ranks = [made_rank(rank, 16, first_unix_ns=START_NS + rank * 10**9) for rank in range(16)]
    write_ranks(tmp_path, ranks)
    (job,) = as_json(make_report(read_ranks([str(tmp_path)])))["jobs"]
    assert job["notes"] == []


def test_recordings_of_every_version_are_read_together(tmp_path: Path) -> None:
    for name in ("version_1.gmp", "version_2.gmp", "cpu_training.gmp"):
        shutil.copyfile(TRACES / name, tmp_path / name)
    found = read_ranks([str(tmp_path)])
    assert found.problems == []
    assert len(found.ranks) == 3


def test_a_summary_of_a_newer_version_gives_way_to_its_recording(tmp_path: Path) -> None:
    shutil.copyfile(TRACES / "cpu_training.gmp", tmp_path / "run.gmp")
    lines = _core.rank_summary(os.fsencode(tmp_path / "run.gmp")).splitlines()
    head = {**json.loads(lines[0]), "version": 99}
    newer = b"\n".join([json.dumps(head).encode(), *lines[1:]]) + b"\n"
    (tmp_path / "run.gmp.summary.json").write_bytes(newer)
    found = read_ranks([str(tmp_path)])
    assert found.problems == []
    assert [one.has_file for one in found.ranks] == [False]
    (tmp_path / "run.gmp").unlink()
    (problem,) = read_ranks([str(tmp_path)]).problems
    assert "install a newer gpumemprof" in problem


def test_a_rank_that_still_runs_is_reported_as_of_its_last_summary(tmp_path: Path) -> None:
    path = tmp_path / "run.gmp"
    whole = (TRACES / "cpu_training_cut.gmp").read_bytes()
    path.write_bytes(whole)
    text = _core.rank_summary(os.fsencode(path))
    (tmp_path / "run.gmp.summary.json").write_bytes(text)
    assert json.loads(text.splitlines()[0])["ending"]["is_closed"] is False
    assert read_ranks([str(tmp_path)]).notes == []
    path.write_bytes(whole + b"\0" * 10)
    (note,) = read_ranks([str(tmp_path)]).notes
    assert "still running" in note
    # Nothing was written for an hour: the program is gone, and the recording knows more.
    os.utime(path, (time.time() - 3600,) * 2)
    (note,) = read_ranks([str(tmp_path)]).notes
    assert "older than the recording, which was read instead" in note


@pytest.mark.parametrize("name", ["cpu_training.gmp", "version_2.gmp"])
def test_both_readers_of_summaries_find_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.gmp.summary.json"
    path.write_bytes(_core.rank_summary(os.fsencode(TRACES / name)))
    fast = read._fast(str(path), None)
    assert fast is not None
    assert fast == read._slow(str(path), None)
    # In another form it is still JSON.
    lines = [json.dumps(json.loads(line)) for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")
    assert read._fast(str(path), None) is None
