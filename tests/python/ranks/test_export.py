"""`gpumemprof export --to parquet`: what engines read is what the recordings hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gpumemprof
import pytest
from ranks.made_ranks import MIB, made_rank, write_ranks

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")

SNAPSHOT = Path(__file__).parents[2] / "data/snapshots/leak_loss_history.pickle.gz"


def export(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpumemprof", "export", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_duckdb_finds_the_heaviest_rank_of_a_step(tmp_path: Path) -> None:
    source, out = tmp_path / "job", tmp_path / "out"
    source.mkdir()
    heavy = made_rank(2, peaks=[100 * MIB] * 6 + [160 * MIB] + [100 * MIB] * 5)
    write_ranks(source, [made_rank(0), made_rank(1), heavy, made_rank(3)])
    done = export("--to", "parquet", str(out), str(source))
    assert done.returncode == 0, done.stderr
    (row,) = duckdb.sql(f"""
        SELECT job, step, arg_max(rank, peak_bytes), max(peak_bytes) - median(peak_bytes) AS more
        FROM read_parquet('{out}/steps/**/*.parquet', hive_partitioning = true)
        GROUP BY job, step ORDER BY more DESC LIMIT 1
    """).fetchall()
    assert row == ("a job", 7, 2, 60 * MIB)
    ranks = duckdb.sql(f"""
        SELECT rank, peak_bytes, retries, activations_bytes_at_peak
        FROM read_parquet('{out}/ranks/**/*.parquet', hive_partitioning = true) ORDER BY rank
    """).fetchall()
    assert ranks[2] == (2, 160 * MIB, 0, 120 * MIB)
    assert not (out / "events").exists()


def test_polars_reads_every_allocation(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = export("--to", "parquet", str(out), str(SNAPSHOT))
    assert done.returncode == 0, done.stderr
    recording = gpumemprof.load(SNAPSHOT)
    found = polars.scan_parquet(f"{out}/allocations/**/*.parquet", hive_partitioning=True)
    by_source = found.group_by("source").agg(polars.col("size_bytes").sum()).collect()
    expected = polars.DataFrame(recording.allocations)
    assert by_source["size_bytes"].sum() == expected["size_bytes"].sum()
    events = polars.scan_parquet(f"{out}/events/**/*.parquet", hive_partitioning=True).collect()
    assert len(events) == len(recording.events)
    # A snapshot does not say which rank it is of.
    assert events["rank"].null_count() == len(events)


def test_tables_are_not_replaced_unless_asked(tmp_path: Path) -> None:
    source, out = tmp_path / "job", tmp_path / "out"
    source.mkdir()
    write_ranks(source, [made_rank(0, 1)])
    assert export("--to", "parquet", str(out), str(source)).returncode == 0
    again = export("--to", "parquet", str(out), str(source))
    assert again.returncode == 2
    assert "add -f" in again.stderr
    assert export("--to", "parquet", "-f", str(out), str(source)).returncode == 0


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["out", "in"], 2, "--to is missing"),
        (["--to", "orc", "out", "in"], 2, "unknown format 'orc'"),
        (["--to", "parquet", "out"], 2, "what to write"),
        (["--to", "parquet", "out", "nowhere"], 3, "no such file"),
    ],
)
def test_mistakes_get_a_sentence(words: list[str], code: int, sentence: str) -> None:
    done = export(*words)
    assert done.returncode == code
    assert sentence in done.stderr


def test_a_folder_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    source = tmp_path / "job"
    source.mkdir()
    write_ranks(source, [made_rank(0, 1)])
    (tmp_path / "out").write_text("a file")
    done = export("--to", "parquet", str(tmp_path / "out"), str(source))
    assert done.returncode == 4
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr


TRACES = [
    Path(__file__).parents[2] / f"data/traces/{name}.gmp"
    for name in ("cpu_training", "cpu_training_cut", "version_1", "version_2")
]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_recording_read_in_windows_gives_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert export("--to", "parquet", str(whole), str(path)).returncode == 0
    monkeypatch.setenv("GPUMEMPROF_WINDOW_EVENTS", "100")
    assert export("--to", "parquet", str(parts), str(path)).returncode == 0
    for table, order in (("events", "event"), ("allocations", "alloc_event")):
        one, other = (
            polars.read_parquet(f"{folder}/{table}/**/*.parquet", hive_partitioning=True).sort(
                "device", order, maintain_order=True
            )
            for folder in (whole, parts)
        )
        assert one.columns == other.columns
        if table == "allocations":
            # A name that was given long after the window is not known there.
            assert (one["name"].eq_missing(other["name"]) | other["name"].is_null()).all()
            assert other["name"].count() >= one["name"].count() // 2
        for column in set(one.columns) - {"name"}:
            assert one[column].equals(other[column], null_equal=True), (table, column)


def test_a_query_is_answered_with_rows(tmp_path: Path) -> None:
    source, out = tmp_path / "job", tmp_path / "out"
    source.mkdir()
    heavy = made_rank(2, peaks=[100 * MIB] * 6 + [160 * MIB] + [100 * MIB] * 5)
    write_ranks(source, [made_rank(0), made_rank(1), heavy, made_rank(3)])
    assert export("--to", "parquet", str(out), str(source)).returncode == 0
    done = export(
        "--sql",
        "SELECT rank, max(peak_bytes) AS most FROM steps GROUP BY 1 ORDER BY 2 DESC LIMIT 1",
        str(out),
    )
    assert (done.returncode, done.stdout) == (0, f"rank,most\n2,{160 * MIB}\n")
    wrong = export("--sql", "SELECT nothing FROM steps", str(out))
    assert wrong.returncode == 2
    assert "check the query" in wrong.stderr
    assert len(wrong.stderr.splitlines()) == 1
    nowhere = export("--sql", "SELECT 1", str(tmp_path / "nowhere"))
    assert nowhere.returncode == 3
    assert "no tables here" in nowhere.stderr


def test_an_exported_folder_is_reported_like_the_ranks_themselves(tmp_path: Path) -> None:
    source, out = tmp_path / "job", tmp_path / "out"
    source.mkdir()
    heavy = made_rank(2, peaks=[100 * MIB] * 6 + [160 * MIB] + [100 * MIB] * 5)
    write_ranks(source, [made_rank(0), made_rank(1), heavy, made_rank(3)])
    assert export("--to", "parquet", str(out), str(source)).returncode == 0
    texts = [
        subprocess.run(
            [sys.executable, "-m", "gpumemprof", "ranks", str(folder)],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        ).stdout
        for folder in (source, out)
    ]
    assert texts[0].replace(str(source), "") == texts[1].replace(str(out), "")
    assert "rank 2" in texts[0]


def test_recordings_of_the_same_name_do_not_replace_each_other(tmp_path: Path) -> None:
    for host in ("one", "two"):
        (tmp_path / "job" / host).mkdir(parents=True)
        write_ranks(tmp_path / "job" / host, [made_rank(0, 1)])
    out = tmp_path / "out"
    assert export("--to", "parquet", str(out), str(tmp_path / "job")).returncode == 0
    assert len(list(out.glob("ranks/*/*/*.parquet"))) == 2
