"""Folders that are not as they should be: what is odd is said, and the rest reported."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from gpumemprof import _core
from gpumemprof.__main__ import main as gpumemprof
from gpumemprof.ranks import read
from gpumemprof.ranks.as_json import as_json
from gpumemprof.ranks.read import read_ranks
from gpumemprof.ranks.report import make_report
from gpumemprof.ranks.sentences import title_sentence
from gpumemprof.ranks.text import as_text
from ranks.made_ranks import MIB, START_NS, made_rank, summary_text, write_ranks

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


def _of_no_rank(folder: Path, name: str, **changes: Any) -> None:
    made = made_rank(0, **changes)
    made["head"]["process"].update(rank=None, world_size=None, job=None)
    (folder / f"{name}.gmp.summary.jsonl").write_text(summary_text(made))
    (folder / f"{name}.gmp").touch()  # The summary says that it has no bytes.


def test_recordings_of_different_programs_are_no_ranks_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, command in enumerate(["train.py", "infer.py", "train.py"]):
        later = START_NS + number * MINUTE_NS
        _of_no_rank(tmp_path, f"{command}.{number}", command=command, first_unix_ns=later)
    report = make_report(read_ranks(["."]))
    text = as_text(report, ".")
    assert "3 recordings of 2 programs" in " ".join(text.split())
    assert "compared with each other" not in text
    names = [line.split()[0] for line in text.splitlines() if "100 MiB" in line]
    assert names == ["train.py.2.gmp", "infer.py.1.gmp", "train.py.0.gmp"]
    assert "\nNext: gpumemprof report train.py.2.gmp\n" in text
    titles = [title_sentence(job) for job in report.jobs]
    assert titles[0] == "train.py.2.gmp: train.py on 1 host, up to step 12."
    jobs = as_json(report)["jobs"]
    assert [(job["command"], len(job["ranks"])) for job in jobs] == [
        ("train.py", 1),
        ("infer.py", 1),
        ("train.py", 1),
    ]


def test_a_recording_without_an_event_has_no_known_peak(tmp_path: Path) -> None:
    _of_no_rank(tmp_path, "idle", events=0, peaks=[0], total_bytes=None, sources={})
    report = make_report(read_ranks([str(tmp_path)]))
    assert as_json(report)["jobs"][0]["ranks"][0]["peak_bytes"] is None
    text = as_text(report)
    assert "No rank has a history of its memory." in text
    assert "Largest peak" not in text
    assert "compared" not in text


def test_recordings_of_unknown_programs_are_not_compared_with_others(tmp_path: Path) -> None:
    for name, command in (("old", None), ("new", "train.py")):
        _of_no_rank(tmp_path, name, command=command)
    text = as_text(make_report(read_ranks([str(tmp_path)])))
    assert "2 recordings of different or unknown programs" in " ".join(text.split())


def test_recordings_of_one_program_that_say_no_rank_are_named_by_their_files(
    tmp_path: Path,
) -> None:
    for number in range(4):
        peaks = [(300 if number == 2 else 100) * MIB] * 12
        _of_no_rank(tmp_path, f"part{number}", peaks=peaks)
    text = as_text(make_report(read_ranks([str(tmp_path)])))
    assert "train.py: 4 recordings" in text
    assert "  part1.gmp  100 MiB" in text
    assert "It is always part2.gmp" in " ".join(text.split())
    assert "?" not in text
    assert "rank -1" not in text


def test_a_summary_of_a_newer_version_gives_way_to_its_recording(tmp_path: Path) -> None:
    shutil.copyfile(TRACES / "cpu_training.gmp", tmp_path / "run.gmp")
    lines = _core.rank_summary(os.fsencode(tmp_path / "run.gmp")).splitlines()
    head = {**json.loads(lines[0]), "version": 99}
    newer = b"\n".join([json.dumps(head).encode(), *lines[1:]]) + b"\n"
    (tmp_path / "run.gmp.summary.jsonl").write_bytes(newer)
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
    (tmp_path / "run.gmp.summary.jsonl").write_bytes(text)
    assert json.loads(text.splitlines()[0])["ending"]["is_closed"] is False
    assert read_ranks([str(tmp_path)]).notes == []
    path.write_bytes(whole + b"\0" * 10)
    (note,) = read_ranks([str(tmp_path)]).notes
    assert "still running" in note
    # Nothing was written for an hour: the program is gone, and the recording knows more.
    os.utime(path, (time.time() - 3600,) * 2)
    (note,) = read_ranks([str(tmp_path)]).notes
    assert "older than the recording, which was read instead" in note


@pytest.mark.parametrize("name", ["cpu_training.gmp", "everything.gmp"])
def test_both_readers_of_summaries_find_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / "run.gmp.summary.jsonl"
    path.write_bytes(_core.rank_summary(os.fsencode(TRACES / name)))
    fast = read._fast(str(path), None)
    assert fast is not None
    assert fast == read._slow(str(path), None)
    # In another form it is still JSON.
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for text in (
        "\n".join(json.dumps(row) for row in rows),
        "\r\n\r\n".join(json.dumps(row, separators=(" , ", " : ")) for row in rows) + "\r\n",
        "\n".join(json.dumps(dict(reversed(row.items()))) for row in rows),
    ):
        path.write_text(text)
        assert read._fast(str(path), None) is None
        (found,) = read_ranks([str(path)]).ranks
        assert found.held == fast.held
        found.held_line = fast.held_line
        assert found == fast
        assert read.every_column(found, ["floor_bytes"]).keys() == {"floor_bytes"}
        assert "peak_bytes" in read.every_column(found)


def test_a_summary_in_which_only_some_devices_have_spaces_is_read(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, 1)])
    (path,) = tmp_path.glob("*.summary.jsonl")
    head, *lines = path.read_bytes().splitlines()
    other = json.loads(head)["devices"][0]
    larger = json.dumps({**other, "device": "cuda:1", "peak_bytes": other["peak_bytes"] * 2})
    head = head[:-2] + b", " + larger.encode() + b"]}"
    lines += [line.replace(b'{"device":0,', b'{"device":1,') for line in lines]
    path.write_bytes(b"\n".join([head, *lines]) + b"\n")
    (found,) = read_ranks([str(path)]).ranks
    assert found.device == "cuda:1"
    assert len(found.step_peaks) == found.step_count


def test_a_huge_file_that_is_no_summary_is_left_at_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "run.gmp.summary.jsonl"
    with path.open("wb") as file:
        file.truncate(20 << 30)
    (problem,) = read_ranks([str(path)]).problems
    assert "a damaged summary of a rank" in problem


def test_what_is_no_file_is_said_and_not_waited_for(tmp_path: Path) -> None:
    shutil.copyfile(TRACES / "cpu_training.gmp", tmp_path / "run.gmp")
    os.mkfifo(tmp_path / "run.gmp.summary.jsonl")
    os.mkfifo(tmp_path / "pipe.gmp")
    os.mkfifo(tmp_path / "alone.gmp.summary.jsonl")
    (tmp_path / "endless.gmp").symlink_to("/dev/zero")
    (tmp_path / "long.gmp.summary.jsonl").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "s.gmp"))
        found = read_ranks([str(tmp_path)])
    assert [one.path for one in found.ranks] == [str(tmp_path / "run.gmp")]
    hint = "write what it gives to a file, and name that"
    assert found.problems == [
        f"{tmp_path}/alone.gmp.summary.jsonl: this is a pipe, not a file; {hint}",
        f"{tmp_path}/endless.gmp: this is a device, not a file; {hint}",
        f"{tmp_path}/long.gmp.summary.jsonl: this is a device, not a file; {hint}",
        f"{tmp_path}/pipe.gmp: this is a pipe, not a file; {hint}",
        f"{tmp_path}/s.gmp: this is a socket, not a file; {hint}",
    ]


@pytest.mark.parametrize("verb", ["ranks", "report"])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_reading_recordings_is_counted_on_a_terminal_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    is_terminal: bool,
) -> None:
    for number in range(3):
        shutil.copyfile(TRACES / "cpu_training.gmp", tmp_path / f"{number}.gmp")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert gpumemprof([verb, str(tmp_path)]) == 0
    told = capsys.readouterr().err
    assert told.startswith("\r\x1b[K1 of 3 ranks read") if is_terminal else told == ""
    assert told.endswith("\r\x1b[K" if is_terminal else "")


def test_the_recorder_replaces_a_pipe_in_the_place_of_its_summary(tmp_path: Path) -> None:
    shutil.copyfile(TRACES / "cpu_training.gmp", tmp_path / "run.gmp")
    os.mkfifo(tmp_path / "run.gmp.summary.jsonl")
    # In another process: it lowers its own priority.
    code = (
        "import sys; from gpumemprof.recorder import rank_summary; rank_summary.main(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run.gmp")], check=True, timeout=60)
    assert len(read_ranks([str(tmp_path)]).ranks) == 1
    assert (tmp_path / "run.gmp.summary.jsonl").is_file()
