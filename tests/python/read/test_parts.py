"""A part of a run: what a long recording is opened as, and what anyone may ask for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gpumemprof
import pytest
from conftest import SNAPSHOTS, Command

DATA = SNAPSHOTS.parent
TRAINING = DATA / "traces" / "cpu_training.gmp"
FAILED = DATA / "oom" / "oom_limit.gmp"


def test_steps_have_the_figures_of_the_whole_run() -> None:
    whole = gpumemprof.load(TRAINING).report()["devices"][0]
    part = gpumemprof.load(TRAINING, steps=(2, 3)).report()["devices"][0]
    assert [step["step"] for step in part["steps"] if step["step"] > 0] == [2, 3]
    expected = {step["step"]: step for step in whole["steps"]}
    for step in part["steps"]:
        assert step["step"] == 0 or step == expected[step["step"]]


def test_events_are_numbered_as_in_the_whole_run() -> None:
    whole = gpumemprof.load(TRAINING)
    events = whole.report()["devices"][0]["events"]
    first, end = events // 3, 2 * events // 3
    part = gpumemprof.load(TRAINING, events=(first, end))
    for event in (first, (first + end) // 2, end - 1):
        expected = whole.report(at=event)["devices"][0]["at"]
        assert part.report(at=event)["devices"][0]["at"] == expected
    excerpt = part.completeness["excerpt"]
    assert excerpt is not None
    assert (excerpt[0]["from_event"], excerpt[0]["to_event"]) == (first, end)
    assert excerpt[0]["events_of_run"] == events
    assert sum(part.completeness["recorded"].values()) <= end - first  # type: ignore[arg-type]


def test_a_whole_run_is_no_excerpt() -> None:
    assert gpumemprof.load(TRAINING).completeness["excerpt"] is None


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"events": (0, 10**9)}, "are not in the run"),
        ({"events": (5, 5)}, "are not in the run"),
        ({"steps": (90000, 90001)}, "are not in the run"),
        ({"steps": (3, 2)}, "are not in the run"),
        ({"events": (1, 2), "steps": (1, 2)}, "either events or steps"),
        ({"events": (1, -2)}, "two numbers"),
        ({"events": 7}, "two numbers"),
    ],
)
def test_a_part_outside_the_run_is_refused(asked: dict[str, object], sentence: str) -> None:
    with pytest.raises(gpumemprof.UsageError, match=sentence):
        gpumemprof.load(TRAINING, **asked)  # type: ignore[arg-type]


def test_a_converted_part_says_which_it_is(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "part.gmp"
    done = command("convert", TRAINING, "--to", "gmp", out, "--steps", "2:3")
    assert done.returncode == 0, done.stderr
    part = gpumemprof.load(out)
    excerpt = part.completeness["excerpt"]
    assert excerpt is not None
    assert (excerpt[0]["first_step"], excerpt[0]["last_step"]) == (2, 3)
    direct = gpumemprof.load(TRAINING, steps=(2, 3))
    peak = direct.report()["devices"][0]["peak"]
    assert part.report()["devices"][0]["peak"] == peak
    shown = command("report", out)
    assert "This is a part of the run, steps 2" in " ".join(shown.stdout.split())


def test_tables_of_a_part_number_steps_as_the_run_does() -> None:
    allocations = gpumemprof.load(TRAINING, steps=(2, 3)).allocations.to_pandas()
    assert set(allocations["step"].dropna()) == {2, 3}


LONG = {**os.environ, "GPUMEMPROF_WINDOW_EVENTS": "2000"}


def test_advice_about_a_long_run_is_about_the_steps_around_its_peak(command: Command) -> None:
    done = command("advise", TRAINING, "--json", env=LONG)
    assert done.returncode == 0, done.stderr
    excerpt = json.loads(done.stdout)["completeness"]["excerpt"]
    assert excerpt[0]["is_around_peak"]
    peak = gpumemprof.load(TRAINING).devices[0].peak.event_index
    assert excerpt[0]["from_event"] <= peak < excerpt[0]["to_event"]
    shown = command("advise", TRAINING, env=LONG)
    assert "This is a part of the run, around its peak" in " ".join(shown.stdout.split())
    whole = command("advise", TRAINING, "--whole", "--json", env=LONG)
    assert json.loads(whole.stdout)["completeness"]["excerpt"] is None


def test_a_part_is_simulated_from_the_pool_it_begins_with(command: Command) -> None:
    events = gpumemprof.load(FAILED).report()["devices"][0]["events"]
    for first in (1, events // 2):
        part = f"{first}:{events}"
        done = command("simulate", FAILED, "--events", part, "--json")
        assert done.returncode == 0, done.stderr
        verified = json.loads(done.stdout)["devices"][0]["verified"]
        assert verified["address_mismatches"] == 0
        assert verified["segment_mismatches"] == 0


@pytest.mark.parametrize("path", [TRAINING, FAILED, DATA / "traces" / "cpu_training_cut.gmp"])
def test_what_a_long_recording_is_needs_no_memory_for_it(command: Command, path: Path) -> None:
    short = command("info", path, "--json")
    long = command("info", path, "--json", env=LONG)
    assert json.loads(long.stdout) == json.loads(short.stdout)
    assert (long.returncode, long.stderr) == (short.returncode, short.stderr)


def test_a_format_that_needs_all_of_a_long_recording_says_what_that_takes(
    command: Command, tmp_path: Path
) -> None:
    done = command("convert", TRAINING, "--to", "torch-snapshot", tmp_path / "run.pickle", env=LONG)
    assert "is long and is read as a whole, which takes about" in done.stderr
    assert "--steps A:B or --events A:B writes a part of it" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("path", [TRAINING, FAILED, DATA / "traces" / "cpu_training_cut.gmp"])
@pytest.mark.parametrize("to", ["gmp", "folded"])
def test_a_long_recording_is_converted_without_holding_it(
    command: Command, tmp_path: Path, path: Path, to: str
) -> None:
    whole = command("convert", path, "--to", to, tmp_path / "whole")
    done = command("convert", path, "--to", to, tmp_path / "streamed", env=LONG)
    assert (done.returncode, done.stderr) == (whole.returncode, whole.stderr)
    if to == "folded":
        assert (tmp_path / "streamed").read_text() == (tmp_path / "whole").read_text()
        return
    reports = [gpumemprof.load(tmp_path / name).report() for name in ("streamed", "whole")]
    for report in reports:
        report["input"].pop("path")
    assert reports[0] == reports[1]


@pytest.mark.parametrize("path", [TRAINING, FAILED])
@pytest.mark.parametrize("flags", [[], ["--suppress", "train.py"], ["--memory-limit", "1TiB"]])
def test_leaks_of_a_long_recording_are_those_of_the_whole(
    command: Command, path: Path, flags: list[str]
) -> None:
    whole = command("leaks", path, "--json", *flags)
    done = command("leaks", path, "--json", *flags, env=LONG)
    assert json.loads(done.stdout) == json.loads(whole.stdout)
    assert (done.returncode, done.stderr) == (whole.returncode, whole.stderr)


def test_a_converted_part_keeps_the_numbers_of_its_steps(command: Command, tmp_path: Path) -> None:
    out = tmp_path / "part.gmp"
    assert command("convert", TRAINING, "--to", "gmp", out, "--steps", "2:3").returncode == 0
    steps = gpumemprof.load(out).report()["devices"][0]["steps"]
    assert [step["step"] for step in steps if step["step"] > 0] == [2, 3]
