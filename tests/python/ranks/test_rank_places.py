"""Ranks and tables elsewhere: whatever fsspec opens is read and written like a folder."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from gpumemprof.errors import EnvironmentProblem, MissingFileError
from gpumemprof.export.command import main as export
from gpumemprof.export.parquet import TABLES
from gpumemprof.ranks.command import main as ranks
from gpumemprof.ranks.reading import places
from gpumemprof.ranks.reading.find import find_files
from ranks.made_ranks import MIB, made_rank, summary_text, write_ranks

fsspec = pytest.importorskip("fsspec")
DATA = Path(__file__).parents[2] / "data"


@pytest.fixture
def memory() -> Any:
    """An empty file system that only this process has."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def run(command: Any, *words: str) -> tuple[int, str, str]:
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        code = command(words)
    return code, output.getvalue(), errors.getvalue()


def made_folder(folder: Path) -> Path:
    heavy = made_rank(2, peaks=[100 * MIB] * 6 + [160 * MIB] + [100 * MIB] * 5)
    folder.mkdir()
    write_ranks(folder, [made_rank(0), made_rank(1), heavy, made_rank(3)])
    return folder


def without_places(report: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(report)
    for job in read["jobs"]:
        for rank in job["ranks"]:
            for key in ("recording", "summary"):
                rank[key] = rank[key] and rank[key].rpartition("/")[2]
    return read


def test_a_report_of_a_url_is_that_of_the_folder(tmp_path: Path, memory: Any) -> None:
    folder = made_folder(tmp_path / "job")
    memory.put(str(folder), "/runs/job", recursive=True)
    code, here, _ = run(ranks, "--json", str(folder))
    assert code == 0
    for words in (["memory://runs"], ["memory://runs/job/*.jsonl"], [f"file://{folder}"]):
        code, there, errors = run(ranks, "--json", *words)
        assert (code, errors) == (0, "")
        assert without_places(there) == without_places(here)


def test_a_recording_elsewhere_is_read_and_its_tables_written_there(
    tmp_path: Path, memory: Any
) -> None:
    polars = pytest.importorskip("polars")
    memory.put(str(DATA / "traces/cpu_training.gmp"), "/runs/cpu_training.gmp")
    code, output, errors = run(export, "--to", "parquet", "memory://tables", "memory://runs")
    assert (code, errors) == (0, "")
    assert "1 recording written to memory://tables" in output
    code, _, _ = run(
        export, "--to", "parquet", str(tmp_path), str(DATA / "traces/cpu_training.gmp")
    )
    assert code == 0
    for table in TABLES:
        (there,) = memory.glob(f"/tables/{table}/*.parquet")
        (here,) = tmp_path.glob(f"{table}/*.parquet")
        expected = polars.read_parquet(here)
        assert polars.read_parquet(io.BytesIO(memory.cat_file(there))).equals(expected), table
    code, _, errors = run(export, "--to", "parquet", "memory://tables", "memory://runs")
    assert code == 2
    assert "add -f" in errors
    memory.put(str(DATA / "ranks/train.node0.rank3.gmp.summary.jsonl"), "/job/a.gmp.summary.jsonl")
    words = ("memory://runs", "memory://job")
    code, _, errors = run(export, "--to", "parquet", "-f", "memory://tables", *words)
    assert (code, errors) == (0, "")
    rows = [memory.cat_file(path) for path in memory.glob("/tables/ranks/*.parquet")]
    assert sorted(len(polars.read_parquet(io.BytesIO(one))) for one in rows) == [1, 1]


def test_what_to_do_next_with_ranks_elsewhere_works(memory: Any) -> None:
    memory.pipe_file("/runs/job.rank0.gmp", b"")  # The summary says that it has no bytes.
    memory.pipe_file("/runs/job.rank0.gmp.summary.jsonl", summary_text(made_rank(0, 1)).encode())
    code, output, _ = run(ranks, "memory://runs")
    assert code == 0
    assert "Next: copy memory:///runs/job.rank0.gmp to this machine, then\n" in output
    assert "gpumemprof report job.rank0.gmp\n" in output
    assert "gpumemprof ranks memory://runs --html ranks.html" in output
    assert "gpumemprof view" not in output


@pytest.mark.parametrize("verb", ["report", "view", "info", "tree"])
def test_verbs_that_read_no_urls_say_which_do(verb: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", verb, "s3://bucket/a%20job/x.gmp"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr == (
        "gpumemprof: s3://bucket/a%20job/x.gmp: URLs are read by 'gpumemprof ranks' and "
        "'gpumemprof export' alone; name it there, or copy the file to this machine\n"
    )


def test_chapters_and_summaries_elsewhere_are_paired(memory: Any) -> None:
    for name in ("a.gmp/chapter-000001.gmp", "a.gmp.summary.jsonl", "b.gmp", ".c.gmp", "note.txt"):
        memory.pipe_file(f"/runs/{name}", b"x")
    pairs = find_files(["memory://runs"])
    assert [(pair.recording, pair.summary) for pair in pairs] == [
        ("memory:///runs/a.gmp", "memory:///runs/a.gmp.summary.jsonl"),
        ("memory:///runs/b.gmp", None),
    ]


def test_what_is_not_there_gets_a_sentence(memory: Any) -> None:
    code, _, errors = run(ranks, "memory://nowhere")
    assert code == 3
    assert errors == "gpumemprof: memory://nowhere: no such file or folder; check the URL\n"
    code, _, errors = run(ranks, "nosuch://bucket/runs")
    assert code == 3
    assert errors.startswith("gpumemprof: nosuch://bucket/runs: ")
    assert len(errors.splitlines()) == 1
    with pytest.raises(MissingFileError):
        places.read_bytes("memory://nowhere/a")


def test_without_fsspec_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(EnvironmentProblem, match="pip install fsspec"):
        find_files(["s3://bucket/runs"])


def test_without_ray_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    folder = made_folder(tmp_path / "job")
    for command, words in (
        (ranks, ["--ray", "auto", str(folder)]),
        (export, ["--to", "parquet", "--ray", "auto", str(tmp_path / "out"), str(folder)]),
    ):
        code, _, errors = run(command, *words)
        assert code == 4
        assert "pip install ray" in errors
