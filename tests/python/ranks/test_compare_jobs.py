"""`gpumemprof compare FOLDER FOLDER`: two runs of a job, rank by rank."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from gpumemprof.__main__ import main as gpumemprof
from gpumemprof.errors import UsageError
from gpumemprof.ranks.pairs import parse_limit
from ranks.made_ranks import MIB, made_rank, write_ranks

TRACES = Path(__file__).parents[2] / "data/traces"


@pytest.fixture
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of four ranks with peaks of 100 MiB."""
    monkeypatch.chdir(tmp_path)
    return job(tmp_path / "before", dict.fromkeys(range(4), 100))


def job(folder: Path, peaks: dict[int, int], **changes: Any) -> Path:
    folder.mkdir()
    ranks = [
        made_rank(rank, len(peaks), peaks=[mib * MIB] * 3, **changes) for rank, mib in peaks.items()
    ]
    write_ranks(folder, ranks)
    for rank in peaks:
        (folder / f"job.rank{rank}.gmp").touch()  # The summaries say that they have no bytes.
    return folder


def test_ranks_of_the_same_number_are_compared(
    before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job(before.parent / "after", {0: 100, 1: 90, 2: 160, 3: 100})
    assert gpumemprof(["compare", "before", "after"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "A: before: train.py (a job): 4 ranks on 1 host, up to step 3.",
        "B: after: train.py (a job): 4 ranks on 1 host, up to step 3.",
    ]
    assert lines[3:] == [
        "largest peak 100 MiB -> 160 MiB, +60.0 MiB (+60.0 %)",
        "most growth: rank 2, +60.0 MiB",
        "",
        "     change                 A         B  peak of",
        "  +60.0 MiB  +60.0 %  100 MiB   160 MiB  rank 2",
        "  -10.0 MiB  -10.0 %  100 MiB  90.0 MiB  rank 1",
        "  2 unchanged",
        "",
        "Next: gpumemprof compare before/job.rank2.gmp after/job.rank2.gmp",
    ]


@pytest.mark.parametrize(
    ("limit", "code"),
    [("0", 6), ("4.9%", 6), ("5%", 0), ("4MiB", 6), ("5MiB", 0)],
)
def test_a_limit_holds_for_every_rank(before: Path, limit: str, code: int) -> None:
    job(before.parent / "after", {0: 50, 1: 105, 2: 100, 3: 100})
    assert gpumemprof(["compare", "before", "after", "--fail-above", limit]) == code
    assert gpumemprof(["compare", "before", "before", "--fail-above", limit]) == 0


def test_what_was_not_recorded_makes_a_limit_uncertain(
    before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job(before.parent / "fewer", {0: 100, 1: 100, 2: 100})
    job(before.parent / "cut", dict.fromkeys(range(4), 100), is_whole=False)
    for folder in ("fewer", "cut"):
        assert gpumemprof(["compare", "before", folder, "--fail-above", "5%", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["limit"] == {"fail_above": "5%", "is_exceeded": False, "is_certain": False}
        assert report["only_first"] == ([3] if folder == "fewer" else [])
        assert gpumemprof(["compare", "before", folder, "--fail-above", "5%"]) == 0
        assert "as far as B was recorded" in " ".join(capsys.readouterr().out.split())
    # What A does not have exceeds every limit.
    assert gpumemprof(["compare", "fewer", "before", "--fail-above", "500%"]) == 6
    assert "Only B has rank 3." in capsys.readouterr().out


def test_folders_that_cannot_be_compared_get_a_sentence(
    before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = shutil.copyfile(TRACES / "cpu_training.gmp", before.parent / "run.gmp")
    twice = job(before.parent / "twice", {0: 100})
    write_ranks(twice, [made_rank(0, 1, restart_count=1)], "again")
    unnumbered = before.parent / "unnumbered"
    unnumbered.mkdir()
    for name in ("a.gmp", "b.gmp"):
        shutil.copyfile(recording, unnumbered / name)
    for folder, code, sentence in (
        (
            "run.gmp",
            2,
            "run.gmp: this is no folder of ranks, and the other one is; name two folders",
        ),
        ("twice", 3, "twice: it holds 2 jobs, and one can be compared; copy the ranks of one"),
        ("unnumbered", 3, "unnumbered: none of its recordings says which rank of a job it is of;"),
    ):
        assert gpumemprof(["compare", "before", folder]) == code
        assert capsys.readouterr().err.startswith(f"gpumemprof: {sentence}")


def test_folders_with_one_recording_are_compared_as_recordings(
    before: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (before.parent / name).mkdir()
        shutil.copyfile(TRACES / "cpu_training.gmp", before.parent / name / "run.gmp")
    assert gpumemprof(["compare", "one", "two"]) == 0
    assert "by source" in capfd.readouterr().out


@pytest.mark.parametrize("text", ["much", "-1%", "5", "%", "inf%", "nan%"])
def test_a_wrong_limit_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="share or a size with its unit"):
        parse_limit(text)
