"""The page about all ranks: its cells, its size, and the command that writes it."""

from __future__ import annotations

import base64
import gzip
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpumemprof.ranks.page import packed as packing
from gpumemprof.ranks.page import serve
from gpumemprof.ranks.page.cells import Resolution, find_cells, first_resolution
from gpumemprof.ranks.page.packed import packed_page, write_html
from gpumemprof.ranks.read import read_ranks
from gpumemprof.ranks.report import RanksReport, make_report
from ranks.made_ranks import GIB, MIB, made_rank, summary_text, write_ranks
from ranks.rank_jobs import ranks_command


def report_of(folder: Path) -> RanksReport:
    return make_report(read_ranks([str(folder)]))


def unpacked(packed: bytes) -> dict[str, Any]:
    return dict(json.loads(gzip.decompress(packed)))


def in_html(path: Path) -> dict[str, Any]:
    found = re.search(r'data-section="ranks">([^<]*)<', path.read_text())
    assert found is not None
    return unpacked(base64.b64decode(found[1]))


def values(row: list[int | None]) -> list[int | None]:
    now, found = 0, []
    for difference in row:
        now += difference or 0
        found.append(None if difference is None else now)
    return found


def test_cells_are_exact_where_they_are_few(tmp_path: Path) -> None:
    peaks = [100 * MIB, 150 * MIB + 1, 120 * MIB]
    write_ranks(tmp_path, [made_rank(0, 1, peaks=peaks)])
    (job,) = unpacked(packed_page(report_of(tmp_path)))["jobs"]
    assert job["cells"]["unit_bytes"] == 1
    assert job["cells"]["first_steps"] == job["cells"]["last_steps"] == [1, 2, 3]
    assert values(job["cells"]["rows"]["peak"][0]) == peaks
    # The summary has no such column: not known, not 0.
    assert job["cells"]["rows"]["floor"] == [[]]


def test_a_column_of_several_steps_has_the_largest_of_them(tmp_path: Path) -> None:
    peaks = [(100 + step) * MIB for step in range(10)]
    write_ranks(tmp_path, [made_rank(0, 1, peaks=peaks)])
    ranks = read_ranks([str(tmp_path)]).ranks
    cells = find_cells(ranks, Resolution(4, MIB))
    assert (cells.first_steps, cells.last_steps) == ([1, 4, 7, 10], [3, 6, 9, 10])
    assert values(cells.rows["peak"][0]) == [102, 105, 108, 109]
    assert cells.step_count == 10


def test_a_step_that_a_rank_does_not_have_is_not_known(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, 2), made_rank(1, 2, peaks=[50 * MIB] * 4)])
    ranks = read_ranks([str(tmp_path)]).ranks
    cells = find_cells(ranks, first_resolution(ranks))
    assert values(cells.rows["peak"][1]) == [50 * MIB] * 4 + [None] * 8


def test_a_summary_that_vanished_meanwhile_is_not_known(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, 2), made_rank(1, 2)])
    ranks = read_ranks([str(tmp_path)]).ranks
    Path(ranks[1].path).unlink()
    cells = find_cells(ranks, first_resolution(ranks))
    assert values(cells.rows["peak"][0]) == [100 * MIB] * 12
    assert cells.rows["peak"][1] == []


def test_many_processes_give_the_same_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpumemprof.ranks.page import cells as module

    ranks = [
        made_rank(rank, 40, peaks=[(rank + step) * MIB for step in range(9)]) for rank in range(40)
    ]
    write_ranks(tmp_path, ranks)
    found = read_ranks([str(tmp_path)]).ranks
    alone = find_cells(found, Resolution(4, MIB))
    monkeypatch.setattr(module, "_CHUNK", 7)
    assert find_cells(found, Resolution(4, MIB)) == alone


def test_a_page_never_exceeds_its_limit(tmp_path: Path) -> None:
    """Noise that does not compress, in less room than it needs."""
    import random

    chance = random.Random(1)
    ranks = [
        made_rank(rank, 64, peaks=[chance.randrange(GIB) for _ in range(200)]) for rank in range(64)
    ]
    write_ranks(tmp_path, ranks)
    report = report_of(tmp_path)
    whole = packed_page(report)
    (job,) = unpacked(whole)["jobs"]
    assert len(job["cells"]["first_steps"]) == 200
    small = packed_page(report, len(whole) // 4)
    assert len(small) <= len(whole) // 4
    (job,) = unpacked(small)["jobs"]
    assert len(job["cells"]["first_steps"]) < 200
    assert job["cells"]["step_count"] == 200
    assert job["cells"]["unit_bytes"] > 1


def test_marks_and_what_the_worst_rank_holds(tmp_path: Path) -> None:
    heavy = made_rank(2, peaks=[100 * MIB] * 6 + [160 * MIB] * 6)
    write_ranks(tmp_path, [made_rank(0), made_rank(1), heavy, made_rank(3)])
    page = unpacked(packed_page(report_of(tmp_path)))
    (job,) = page["jobs"]
    assert job["marks"]["nearest"] == 2
    assert job["marks"]["outliers"] == [{"place": 2, "step": 7, "figure": "peak"}]
    assert job["worst"]["lines"][0]["name"] == "train.py:7 step"
    assert job["worst"]["is_outlier"]
    assert job["ranks"]["recording"] == [None] * 4
    assert "Only summaries" not in page["notes"][0]
    assert page["notes"][0].startswith("There are only summaries here")


def test_without_an_outlier_the_rank_nearest_to_its_limit_is_compared(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, peaks=[102 * MIB] * 12), *map(made_rank, (1, 2, 3))])
    (job,) = unpacked(packed_page(report_of(tmp_path)))["jobs"]
    assert (job["worst"]["place"], job["worst"]["is_outlier"]) == (0, False)
    assert job["worst"]["more_bytes"] == 2 * MIB


def test_text_from_a_summary_cannot_leave_its_place_in_the_page(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(0, 1, command="</script><script>alert(1)</script>")])
    out = tmp_path / "page.html"
    write_html(report_of(tmp_path), str(out), is_forced=False)
    assert "alert(1)" not in out.read_text()
    assert in_html(out)["jobs"][0]["title"].startswith("</script>")


def test_the_command_writes_one_file_and_refuses_to_replace_it(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank) for rank in range(4)])
    out = tmp_path / "out.html"
    done = ranks_command(str(tmp_path), "--html", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Written to {out} (")
    assert in_html(out)["jobs"][0]["ranks"]["rank"] == [0, 1, 2, 3]
    again = ranks_command(str(tmp_path), "--html", str(out))
    assert again.returncode == 2
    assert again.stderr == f"gpumemprof: {out}: already exists; add --force to replace it\n"
    assert ranks_command(str(tmp_path), "--html", str(out), "--force").returncode == 0
    nowhere = ranks_command(str(tmp_path), "--html", str(tmp_path / "no" / "out.html"))
    assert nowhere.returncode == 4
    assert nowhere.stderr.endswith(
        "cannot be written: No such file or directory; name another file\n"
    )
    assert [path.name for path in tmp_path.glob("*.part")] == []


def test_a_page_that_is_not_installed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gpumemprof.ranks import command

    write_ranks(tmp_path, [made_rank(0, 1)])
    monkeypatch.setattr(packing, "ranks_page_path", lambda: str(tmp_path / "none.html"))
    assert command.main([str(tmp_path), "--html", str(tmp_path / "out.html")]) == 4
    assert "the page about ranks is not installed" in capsys.readouterr().err


def test_a_problem_is_in_the_page_and_in_the_exit_code(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank) for rank in range(3)])
    (tmp_path / "job.rank3.gmp.summary.jsonl").write_text("{")
    out = tmp_path / "out.html"
    done = ranks_command(str(tmp_path), "--html", str(out))
    assert done.returncode == 3
    page = in_html(out)
    assert page["notes"][0].startswith(f"{tmp_path}/job.rank3.gmp.summary.jsonl: ")
    assert "Rank 3 of 4 left nothing here that can be read" in page["jobs"][0]["notes"][0]


def test_view_of_a_folder_passes_the_recordings_in_the_order_of_the_page(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank, 2) for rank in range(2)])
    recording = tmp_path / "job.rank1.gmp"
    # As long as the summary says.
    recording.write_bytes(b"")
    prepared = serve.prepare([str(tmp_path), "--no-browser"])
    assert isinstance(prepared, serve.Prepared)
    assert prepared.words == [str(tmp_path), "--no-browser"]
    assert prepared.ranks is not None
    _, packed, recordings = prepared.ranks
    assert recordings == [b"", bytes(recording)]
    assert unpacked(packed)["jobs"][0]["ranks"]["recording"] == [None, str(recording)]


def test_view_of_a_folder_with_one_recording_opens_it(tmp_path: Path) -> None:
    recording = tmp_path / "run.gmp"
    recording.write_bytes(b"")
    prepared = serve.prepare(["--port", "0", str(tmp_path)])
    assert prepared == serve.Prepared(["--port", "0", str(recording)], None)


def test_view_serves_a_folder_until_it_is_interrupted(tmp_path: Path) -> None:
    write_ranks(tmp_path, [made_rank(rank, 2) for rank in range(2)])
    line = [sys.executable, "-m", "gpumemprof", "view", "--no-browser", str(tmp_path)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as view:
        assert view.stdout is not None
        assert view.stderr is not None
        first = view.stdout.readline()
        view.send_signal(signal.SIGINT)
        assert first.startswith("Viewer: http://127.0.0.1:"), view.stderr.read()
        assert view.wait() == 0


def test_view_of_a_folder_and_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ranks").mkdir()
    write_ranks(tmp_path / "ranks", [made_rank(0, 1)])
    other = tmp_path / "run.gmp"
    other.write_bytes(b"")
    assert serve.prepare([str(tmp_path / "ranks"), str(other)]) == 2
    assert "is viewed alone" in capsys.readouterr().err


def test_view_of_an_empty_folder_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve.prepare([str(tmp_path)]) == 3
    assert "no recordings and no summaries of ranks here" in capsys.readouterr().err


def test_the_lines_of_a_summary_have_the_columns_that_the_page_wants() -> None:
    """The page skips columns by the beginning of their lines."""
    line = summary_text(made_rank(0)).splitlines()[3]
    assert '"peak_bytes"' in line[:80]


def test_coarser_cells_have_the_largest_of_two_columns(tmp_path: Path) -> None:
    peaks = [(100 + 10 * step) * MIB for step in range(5)]
    write_ranks(tmp_path, [made_rank(0, 2, peaks=peaks), made_rank(1, 2, peaks=peaks[:2])])
    ranks = read_ranks([str(tmp_path)]).ranks
    cells = find_cells(ranks, Resolution(8, MIB)).coarser()
    assert (cells.first_steps, cells.last_steps) == ([1, 3, 5], [2, 4, 5])
    assert cells.unit_bytes == 4 * MIB
    assert values(cells.rows["peak"][0]) == [28, 33, 35]
    assert values(cells.rows["peak"][1]) == [28, None, None]
    assert cells.rows["floor"] == [[], []]
