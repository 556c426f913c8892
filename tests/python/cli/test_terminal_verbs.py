"""tree, stats, table and compare say what the report says, to the byte, of every recording here."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from conftest import run_on_terminal
from gpumemprof.__main__ import main

DATA = Path(__file__).parents[3] / "tests/data"
FILES = sorted(
    path
    for folder in ("snapshots", "sim", "sources", "traces", "oom", "foreign")
    for path in (DATA / folder).rglob("*")
    if path.name.endswith((".pickle.gz", ".gmp", ".pickle", ".prof", "kineto.json.gz"))
)
CPU = str(DATA / "traces/cpu_training.gmp")
WINDOW = "GPUMEMPROF_WINDOW_EVENTS"


def printed(capfd: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command prints; 3 is the code after a truncated recording."""
    capfd.readouterr()
    code = main(words)
    out, err = capfd.readouterr()
    assert code in (0, 3), err
    return out


def answer(capfd: pytest.CaptureFixture[str], *words: str) -> Any:
    return json.loads(printed(capfd, *words, "--json"))


def line_key(frame: dict[str, Any] | None, is_backward: bool) -> tuple[Any, ...]:
    return (*(frame or {}).values(), is_backward)


def moment_groups(device: dict[str, Any]) -> list[dict[str, Any]]:
    groups = device["live_at_peak"]
    return list(groups if groups is not None else device["at"]["live"])


def test_there_are_recordings_of_every_kind() -> None:
    assert {path.suffix for path in FILES} == {".gz", ".gmp", ".pickle", ".prof"}
    assert len(FILES) > 40


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(DATA)))
def test_figures_equal_the_report(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    report = answer(capfd, "report", str(path))
    tree = answer(capfd, "tree", str(path))
    stats = answer(capfd, "stats", str(path))
    table = answer(capfd, "table", str(path), "--at", "peak", "--top", "1000000")
    if report["devices"]:
        same = answer(capfd, "compare", str(path), str(path), "--fail-above", "0")
        assert same["limit"]["is_exceeded"] is False
    for index, device in enumerate(report["devices"]):
        groups = moment_groups(device)
        allocated = device["at"]["allocated_bytes"]

        calls = tree["devices"][index]["calls"]
        assert tree["devices"][index]["bytes"] == allocated
        assert tree["devices"][index]["blocks"] == sum(group["blocks"] for group in groups)
        selves = sorted(call["self_bytes"] for call in calls if call["self_blocks"])
        assert selves == sorted(group["bytes"] for group in groups)
        assert sum(call["bytes"] for call in calls if call["parent"] is None) == allocated

        counted = stats["devices"][index]
        assert counted["counters"]["allocations"] == device["counters"]["allocations"]
        assert counted["peak_allocated_bytes"] == device["peak"]["allocated_bytes"]
        made = counted["made"]["count"] + counted["from_before"]["count"]
        assert sum(bin["count"] for bin in counted["by_size"]) == made
        assert counted["freed"]["count"] + counted["not_freed"]["count"] == made
        ends = sum(bin["count"] for bin in counted["by_lifetime"])
        assert ends + counted["lifetime_unknown"]["count"] == counted["freed"]["count"]
        if device["exact_from_event"] == 0:
            assert counted["made"]["count"] == (device["counters"]["allocations"] or 0)
            assert counted["not_freed"]["bytes"] == device["end"]["allocated_bytes"]

        name = device["device"]
        rows = [row for row in table["rows"] if row["device"] == name]
        assert sum(row["at_moment"]["bytes"] for row in rows) == allocated

        compared = same["devices"][index]
        assert compared["difference_bytes"] == 0
        assert compared["first"]["allocated_bytes"] == allocated
        for side in ("first_bytes", "second_bytes"):
            assert sum(group[side] for group in compared["by_source"]) == allocated
            assert sum(group[side] for group in compared["by_line"]) == allocated
            if compared["by_module"] is not None:
                assert sum(group[side] for group in compared["by_module"]) == allocated
        sources = {group["name"]: group["first_bytes"] for group in compared["by_source"]}
        assert sources == {key: size for key, size in device["at"]["sources"].items() if size}


def test_lines_of_the_table_are_those_of_compare(capfd: pytest.CaptureFixture[str]) -> None:
    rows = answer(capfd, "table", CPU, "--at", "peak")["rows"]
    lines = answer(capfd, "compare", CPU, CPU)["devices"][0]["by_line"]
    by_table: dict[Any, int] = defaultdict(int)
    for row in rows:
        by_table[line_key(row["frame"], row["is_backward"])] += row["at_moment"]["bytes"]
    assert by_table == {
        line_key(line["frame"], line["is_backward"]): line["second_bytes"] for line in lines
    }


@pytest.mark.parametrize("window", ["97", "1000"])
@pytest.mark.parametrize(
    "words",
    [
        ["tree"],
        ["stats"],
        ["table", "--sort", "bytes"],
        ["table", "--by", "allocation", "--sort", "lifetime", "--top", "40"],
        ["table", "--by", "allocation", "--sort", "event", "--filter", "source:optimizer"],
        ["table", "--by", "allocation", "--at", "peak", "--reverse"],
    ],
    ids=lambda words: "_".join(words),
)
def test_a_recording_read_in_windows_says_the_same(
    words: list[str],
    window: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answers() -> Any:
        got = answer(capfd, words[0], CPU, *words[1:])
        is_in_windows = got.pop("is_read_in_windows", None)
        for device in got.get("devices", []):
            # Equal figures in an order that depends on which line was seen first.
            for key in ("lines_by_bytes", "lines_by_count"):
                device.pop(key, None)
        return got, is_in_windows

    whole, _ = answers()
    monkeypatch.setenv(WINDOW, window)
    parts, is_in_windows = answers()
    assert is_in_windows in (True, None)
    assert parts == whole


def test_a_peak_that_grows_too_much_has_an_exit_code_of_its_own(
    capfd: pytest.CaptureFixture[str],
) -> None:
    small = str(DATA / "snapshots/mlp_b64_fp32_adam.pickle.gz")
    large = str(DATA / "snapshots/gpt2_b4_fp32_adamw.pickle.gz")
    assert main(["compare", small, large, "--fail-above", "5%"]) == 6
    assert main(["compare", small, large, "--fail-above", "4GiB"]) == 6
    assert main(["compare", small, large, "--fail-above", "5 GiB"]) == 0
    assert main(["compare", large, small, "--fail-above", "0"]) == 0
    assert main(["compare", small, large]) == 0
    for wrong in ("-5%", "", "%", "abc", "-1", "nan%"):
        assert main(["compare", small, large, "--fail-above", wrong]) == 2
    capfd.readouterr()


def test_a_limit_is_not_passed_by_a_run_of_which_nothing_is_known(
    capfd: pytest.CaptureFixture[str],
) -> None:
    empty = str(DATA / "traces/empty.gmp")
    for first in (CPU, empty):
        assert main(["compare", first, empty, "--fail-above", "5%"]) == 3
        said = capfd.readouterr().err
        assert "it has no memory that --fail-above could compare" in said
        assert len(said.splitlines()) == 1
    assert main(["compare", CPU, empty]) == 0
    capfd.readouterr()


def test_a_limit_says_that_the_second_run_is_not_complete(
    capfd: pytest.CaptureFixture[str],
) -> None:
    cut = str(DATA / "traces/cpu_training_cut.gmp")
    assert answer(capfd, "compare", CPU, CPU, "--fail-above", "0")["limit"]["is_certain"] is True
    assert main(["compare", CPU, cut, "--fail-above", "0"]) == 3
    text = " ".join(capfd.readouterr().out.split())
    assert "as far as B was recorded: its history is not complete" in text


@pytest.mark.parametrize("verb", ["tree", "stats", "table"])
def test_lines_stay_within_the_terminal(
    verb: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path in FILES:
        text = printed(capfd, verb, str(path)).partition("\nNext:")[0]
        assert "\x1b" not in text
        for line in text.splitlines():
            assert len(line) <= 80, line


def test_what_a_trace_holds_equals_its_own_totals(capfd: pytest.CaptureFixture[str]) -> None:
    import gzip

    path = DATA / "foreign/kineto.json.gz"
    trace = json.loads(gzip.decompress(path.read_bytes()))
    events = [event for event in trace["traceEvents"] if event["name"] == "[memory]"]
    most = max(event["args"]["Total Allocated"] for event in events)
    report = answer(capfd, "report", str(path))
    assert report["input"]["kind"] == "profiler_trace"
    assert report["devices"][0]["peak"]["allocated_bytes"] == most
    assert report["devices"][0]["peak"]["reserved_bytes"] is None
    made = sum(event["args"]["Bytes"] > 0 for event in events)
    assert report["devices"][0]["counters"]["allocations"] == made


def test_a_profile_of_jax_holds_what_was_live(capfd: pytest.CaptureFixture[str]) -> None:
    report = answer(capfd, "report", str(DATA / "foreign/jax_memory.prof"))
    device = report["devices"][0]
    assert report["input"]["kind"] == "jax_memory_profile"
    assert device["end"]["allocated_bytes"] == 4_048_432  # As tests/data/foreign/README.md says.
    assert device["peak"]["allocated_bytes"] is None
    assert device["end"]["reserved_bytes"] is None
    assert sum(group["blocks"] for group in device["at"]["live"]) == 6
    assert "one moment" in report["input"]["facts"]["limits"]


def test_two_runs_of_one_device_each_are_compared_whatever_it_is(
    capfd: pytest.CaptureFixture[str],
) -> None:
    gpu = str(DATA / "snapshots/mlp_b64_fp32_adam.pickle.gz")
    (device,) = answer(capfd, "compare", gpu, CPU)["devices"]
    for side, path, name in (("first", gpu, "cuda:0"), ("second", CPU, "cpu:0")):
        (alone,) = answer(capfd, "report", path)["devices"]
        assert alone["device"] == device[side]["device"] == name
        assert alone["peak"]["allocated_bytes"] == device[side]["allocated_bytes"]
        for groups in ("by_source", "by_line", "by_module"):
            total = sum(group[f"{side}_bytes"] for group in device[groups])
            assert total == device[side]["allocated_bytes"]
    both = str(DATA / "traces/everything.gmp")  # of two devices: they are compared by name
    assert len(answer(capfd, "compare", gpu, both)["devices"]) > 1


LEAK = str(DATA / "snapshots/leak_loss_history.pickle.gz")


@pytest.mark.parametrize(
    ("words", "start"),
    [
        (["leaks", LEAK], "\033[1;31mcuda:0: leak: memory grows by "),
        (["leaks", CPU], "\033[1mcpu:0: no leak in 8 steps."),
        (["advise", LEAK], "\033[1mcuda:0: peak "),
        (["table", LEAK], "\033[1m3,085 allocations, "),
        (["simulate", LEAK, "--search"], "\033[1mcuda:0: "),
        (["info", LEAK], "\033[1mleak_loss_history.pickle.gz: "),
        (["compare", LEAK, LEAK], "\033[1mcuda:0: peak "),
    ],
)
def test_the_headline_alone_is_styled_and_on_a_terminal_only(
    words: list[str], start: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shown, code = run_on_terminal(tmp_path, "-m", "gpumemprof", *words)
    assert (code, shown.count("\033[1m") + shown.count("\033[1;31m")) == (0, 1)
    assert start in shown
    assert shown.count("\033[0m") == 1
    plain, _ = run_on_terminal(tmp_path, "-m", "gpumemprof", *words, NO_COLOR="1")
    assert "\033[1" not in plain + printed(capfd, *words)
