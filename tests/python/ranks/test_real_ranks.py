"""Real ranks under torchrun: the summaries that they leave, and the report on two of them."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from ranks.rank_jobs import line_of, ranks_command, report_job, start_job

MIB = 1 << 20


def test_longer_sequences_on_one_of_two_ranks(tmp_path: Path) -> None:
    start_job(tmp_path, 2, "ddp", "--longer", "1")
    summaries = sorted(tmp_path.glob("*.gmp.summary.jsonl"))
    assert len(summaries) == 2
    job = report_job(tmp_path)
    assert [one["rank"] for one in job["ranks"]] == [0, 1]
    assert all(one["summary"] for one in job["ranks"])
    assert job["missing_ranks"] == []
    (outlier,) = job["outliers"]
    assert (outlier["rank"], outlier["is_one_of_two"]) == (1, True)
    assert outlier["step"] >= 7
    assert outlier["sources"][0]["name"] == "activations"
    assert any("rank_program.py" in one["name"] for one in outlier["lines"])
    assert list(job["imbalance"]["heaviest_ranks"]) == ["1"]
    # A recording without its summary gives the same report, and so does a summary that is old.
    summaries[0].unlink()
    summaries[1].write_text(
        summaries[1].read_text().replace('"recording_bytes":', '"recording_bytes":1', 1)
    )
    again = report_job(tmp_path)
    assert again["outliers"] == job["outliers"]
    assert [one["peak_bytes"] for one in again["ranks"]] == [
        one["peak_bytes"] for one in job["ranks"]
    ]
    done = ranks_command("--json", str(tmp_path))
    assert any("older than the recording" in note for note in json.loads(done.stdout)["notes"])


def test_the_rank_that_raises_is_the_first(tmp_path: Path) -> None:
    start_job(tmp_path, 2, "ddp", "--raises", "1", fails=True)
    failures = report_job(tmp_path)["failures"]
    assert failures["first"]["rank"] == 1
    assert failures["first"]["type"] == "ValueError"
    assert failures["first"]["step"] == 8
    assert failures["first"]["line"].startswith(line_of("raises"))
    assert [one["rank"] for one in failures["followed"]] == [0]


def test_a_folder_that_is_gone_does_not_disturb_training(tmp_path: Path) -> None:
    """The summary cannot be written: root may write anywhere, so the folder is taken away."""
    from gpumemprof.recorder import rank_summary

    gone = tmp_path / "gone"
    rank_summary.write_beside(str(gone / "run.gmp"))
    assert not gone.exists()
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpumemprof.recorder import rank_summary

    recording = tmp_path / "run.gmp"
    recording.write_bytes(b"")
    monkeypatch.setattr(rank_summary._core, "rank_summary", lambda *_: b'{"devices":[{}]}\n')

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(rank_summary.os, "fdopen", full)
    monkeypatch.setattr(rank_summary.os, "nice", lambda number: 0)
    with pytest.raises(OSError, match="No space"):
        rank_summary.main(str(recording))
    assert [path.name for path in tmp_path.iterdir()] == ["run.gmp"]
