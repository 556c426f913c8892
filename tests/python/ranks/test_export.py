"""`gpumemprof export --to parquet`: what engines read is what the recordings hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gpumemprof
import pytest
from gpumemprof.export.command import main as export_main
from gpumemprof.export.parquet import TABLES
from ranks.made_ranks import MIB, made_rank, write_ranks

duckdb = pytest.importorskip("duckdb")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
parquet = pytest.importorskip("pyarrow.parquet")

SNAPSHOT = Path(__file__).parents[2] / "data/snapshots/leak_loss_history.pickle.gz"


def export(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gpumemprof", "export", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def write_tables(out: Path, *words: object) -> None:
    """Write tables in this process, which starts no others."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpumemprof.export.command.in_processes", map)
        assert export_main(["--to", "parquet", "-f", str(out), *map(str, words)]) == 0


def test_duckdb_finds_the_heaviest_rank_of_a_step(tmp_path: Path) -> None:
    source, out = tmp_path / "job", tmp_path / "out"
    source.mkdir()
    heavy = made_rank(2, peaks=[100 * MIB] * 6 + [160 * MIB] + [100 * MIB] * 5)
    write_ranks(source, [made_rank(0), made_rank(1), heavy, made_rank(3)])
    done = export("--to", "parquet", str(out), str(source))
    assert done.returncode == 0, done.stderr
    (row,) = duckdb.sql(f"""
        SELECT job, restart, step, arg_max(rank, peak_bytes),
            max(peak_bytes) - median(peak_bytes) AS more
        FROM read_parquet('{out}/steps/*.parquet')
        GROUP BY job, restart, step ORDER BY more DESC LIMIT 1
    """).fetchall()
    assert row == ("a job", 0, 7, 2, 60 * MIB)
    ranks = duckdb.sql(f"""
        SELECT rank, peak_bytes, retries, activations_at_peak_bytes
        FROM read_parquet('{out}/ranks/*.parquet') ORDER BY rank
    """).fetchall()
    assert ranks[2] == (2, 160 * MIB, 0, 120 * MIB)
    assert not (out / "events").exists()


def test_polars_reads_every_allocation(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = export("--to", "parquet", str(out), str(SNAPSHOT))
    assert done.returncode == 0, done.stderr
    recording = gpumemprof.load(SNAPSHOT)
    found = polars.scan_parquet(f"{out}/allocations/*.parquet")
    by_source = found.group_by("source").agg(polars.col("size_bytes").sum()).collect()
    expected = polars.DataFrame(recording.allocations)
    assert by_source["size_bytes"].sum() == expected["size_bytes"].sum()
    events = polars.scan_parquet(f"{out}/events/*.parquet").collect()
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
    for name in ("cpu_training", "cpu_training_cut", "lost_events", "everything")
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
            polars.read_parquet(f"{folder}/{table}/*.parquet").sort(
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


def test_a_query_shows_no_control_characters_and_takes_the_folder_as_it_is_named(
    tmp_path: Path,
) -> None:
    source, out = tmp_path / "job", tmp_path / "[a]*"
    source.mkdir()
    write_ranks(source, [made_rank(0)])
    (tmp_path / "a").mkdir()
    assert export("--to", "parquet", str(out), str(source)).returncode == 0
    escape = "chr(27) || '[31mred' || chr(7)"
    done = export("--sql", f"SELECT {escape} AS name FROM ranks", str(out))
    assert (done.returncode, done.stdout) == (0, "name\n.[31mred.\n")


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
    write_tables(out, tmp_path / "job")
    assert len(list(out.glob("summaries/*"))) == 2
    names = pandas.read_parquet(out / "ranks")["recording"]
    assert sorted(names) == [f"{tmp_path}/job/{host}/job.rank0.gmp" for host in ("one", "two")]


@pytest.fixture(scope="module")
def both_lives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a job of two ranks that was started again, and of a recording of no rank."""
    folder = tmp_path_factory.mktemp("lives")
    source, out = folder / "job", folder / "out"
    source.mkdir()
    write_ranks(source, [made_rank(rank, 2) for rank in range(2)], "first")
    again = [made_rank(rank, 2, restart_count=1, peaks=[200 * MIB] * 9) for rank in range(2)]
    write_ranks(source, again, "second")
    write_tables(out, source, TRACES[0])
    return out


def test_rows_of_a_job_that_was_started_again_are_distinguished(both_lives: Path) -> None:
    for table in TABLES:
        columns = pandas.read_parquet(both_lives / table).columns
        assert list(columns[:4]) == ["job", "rank", "restart", "recording"], table
    steps = pandas.read_parquet(both_lives / "steps")
    assert not steps.duplicated(["recording", "step"]).any()
    key = ["job", "rank", "restart", "step"]
    assert not steps[steps["job"] == "a job"].duplicated(key).any()
    assert steps[steps["job"] == "a job"].duplicated(["job", "rank", "step"]).sum() == 2 * 9
    assert set(steps[steps["restart"] == 1]["peak_bytes"]) == {200 * MIB}


def test_pandas_reads_recordings_with_and_without_a_rank_together(both_lives: Path) -> None:
    ranks = pandas.read_parquet(both_lives / "ranks").set_index("recording")
    assert ranks["rank"].dropna().tolist() == [0, 1, 0, 1]
    assert ranks["rank"].isna()[TRACES[0].name]
    for table in TABLES:
        schemas = {str(parquet.read_schema(path)) for path in (both_lives / table).iterdir()}
        assert len({one.partition("-- schema metadata")[0] for one in schemas}) == 1, table


def test_small_tables_are_one_file_for_each_job(tmp_path: Path) -> None:
    source, out = tmp_path / "job", tmp_path / "out"
    source.mkdir()
    write_ranks(source, [made_rank(rank, 12) for rank in range(12)], "one")
    write_ranks(source, [made_rank(rank, 5, job="other/job") for rank in range(5)], "two")
    write_tables(out, source)
    for table in ("steps", "sites", "ranks"):
        names = sorted(path.name for path in (out / table).iterdir())
        assert names == ["job-a%20job.parquet", "job-other%2Fjob.parquet"]
    assert len(pandas.read_parquet(out / "ranks")) == 17


def test_recordings_are_replaced_and_others_of_their_job_stay(tmp_path: Path) -> None:
    source, out = tmp_path / "job", tmp_path / "out"
    source.mkdir()
    write_ranks(source, [made_rank(0), made_rank(1)])
    write_tables(out, source)
    write_ranks(source, [made_rank(1, peaks=[300 * MIB])])
    for _ in range(2):
        write_tables(out, source / "job.rank1.gmp.summary.jsonl")
    ranks = pandas.read_parquet(out / "ranks")
    assert dict(zip(ranks["rank"], ranks["peak_bytes"])) == {0: 100 * MIB, 1: 300 * MIB}
    assert len(pandas.read_parquet(out / "steps")) == 12 + 1


def test_many_rows_are_written_before_all_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpumemprof.export.job_files._MOST_ROWS", 30)
    monkeypatch.setattr("gpumemprof.export.job_files._MOST_PARTS", 2)
    source, out = tmp_path / "job", tmp_path / "out"
    source.mkdir()
    write_ranks(source, [made_rank(rank, 9) for rank in range(9)])
    write_tables(out, source)
    assert parquet.ParquetFile(out / "steps/job-a%20job.parquet").num_row_groups > 1
    steps = pandas.read_parquet(out / "steps")
    assert sorted(zip(steps["rank"], steps["step"])) == [
        (rank, step) for rank in range(9) for step in range(1, 13)
    ]


def test_columns_are_of_types_that_every_engine_has(both_lives: Path) -> None:
    """Spark reads unsigned 64-bit integers as decimals, and Athena has no unsigned ones."""
    for table in TABLES:
        for path in (both_lives / table).iterdir():
            for field in parquet.read_schema(path):
                assert not str(field.type).startswith("uint"), (table, field)
                if "bytes" in field.name:
                    assert field.name.endswith("_bytes")
                    assert str(field.type) == "int64", (table, field)


def test_a_device_has_its_name_in_every_table(both_lives: Path) -> None:
    for table, devices in (
        ("events", {"cpu:0"}),
        ("allocations", {"cpu:0"}),
        ("ranks", {"cpu:0", "cuda:0"}),
    ):
        assert set(pandas.read_parquet(both_lives / table)["device"]) == devices


def test_stacks_lead_to_the_frames_that_a_recording_has(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_tables(out, TRACES[0], SNAPSHOT)
    tables = {name: pandas.read_parquet(out / name) for name in TABLES}
    keys = {
        name: set(zip(tables[f"{name}s"]["recording"], tables[f"{name}s"][name]))
        for name in ("stack", "frame", "segment")
    }
    for table, column, to in (
        ("events", "stack", "stack"),
        ("events", "forward_stack", "stack"),
        ("allocations", "stack", "stack"),
        ("allocations", "segment", "segment"),
        ("stacks", "caller", "stack"),
        ("stacks", "frame", "frame"),
    ):
        known = tables[table].dropna(subset=[column])
        assert set(zip(known["recording"], known[column])) <= keys[to], (table, column)
    recording = gpumemprof.load(SNAPSHOT)
    frames = tables["frames"]
    names = frames[frames["recording"] == SNAPSHOT.name]["name"]
    assert names.tolist() == polars.DataFrame(recording.frames)["name"].to_list()
