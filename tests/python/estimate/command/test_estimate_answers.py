"""What is printed: the verdict first, then the report, then what was assumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from gpumemprof.estimate.cards import CARDS, find_card
from gpumemprof.estimate.command import all_cards, answer, card_list, sweep
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.prediction import Assumption, _assumptions
from gpumemprof.estimate.command.program import UnpredictedError
from gpumemprof.estimate.command.single import Single, exit_code
from gpumemprof.estimate.command.sweep_flags import parse_sweep
from gpumemprof.estimate.command.verdict import Answer, Room, judge
from gpumemprof.estimate.process.facts import ASSUMPTION
from predicted_runs import RUNNING_OUT, predicted

DOCUMENT = Path(__file__).parents[4] / "docs/estimate.md"


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def single_of(folder: Path, card: str = "t4", **changes) -> tuple[Options, Single]:
    chosen = find_card(card)
    run = predicted(folder, card=card, limit_bytes=chosen.free_bytes, **changes)
    verdict = judge(run.prediction, Room.of_card(chosen))
    return Options(["train.py"], chosen), Single(chosen, run, verdict, run)


def test_the_verdict_comes_first_and_the_assumptions_last(tmp_path: Path) -> None:
    options, single = single_of(tmp_path)
    text = answer.as_text(options, single)
    lines = text.splitlines()
    assert lines[0].startswith("The first steps of train.py fit a T4: peak 5.05 GiB of 14.4 GiB")
    assert "Predicted peak: 4.78 GiB allocated (" in text
    assert "stopped after 3 optimizer steps" in text
    report = text.index("cuda:0: peak 4.78 GiB allocated")
    assert report < text.index("What was assumed:")
    assert "  train.py:52: a condition was taken to be True (3 times)" in lines
    assert max(map(len, lines)) <= 80
    # The recording is not kept, so no command can be given for it.
    assert "Next:" not in text
    assert "-o FILE.gmp" in lines[-1]


def test_steps_that_leave_memory_behind_are_named(tmp_path: Path) -> None:
    options, single = single_of(tmp_path)
    assert single.run.prediction.grown_bytes_per_step == 0
    grown = replace(single.run.prediction, grown_bytes_per_step=16 << 20)
    text = answer.as_text(options, replace(single, run=replace(single.run, prediction=grown)))
    assert "Memory grew by 16.0 MiB a step" in " ".join(text.split())


def test_a_report_of_no_file_names_the_program(tmp_path: Path) -> None:
    options, single = single_of(tmp_path)
    text = answer.as_text(options, single)
    assert "train.py: PyTorch memory snapshot" in text
    assert "train.gmp" not in text


def test_a_report_of_no_file_that_grows_proposes_no_command_for_it(tmp_path: Path) -> None:
    options, single = single_of(tmp_path, snapshot="leak_loss_history")
    assert f"gpumemprof leaks {single.run.path}" in single.run.recording.to_text()
    text = answer.as_text(options, single)
    assert "Memory that grows, by line of your code" in text
    assert "gpumemprof leaks" not in text
    assert str(tmp_path) not in text


def test_a_kept_prediction_names_its_file(tmp_path: Path) -> None:
    options, single = single_of(tmp_path)
    kept = Options(options.program, options.card, output=str(single.run.path))
    text = answer.as_text(kept, single)
    assert f"gpumemprof report {single.run.path}" in text
    assert "-o FILE.gmp" not in text


def test_json_is_the_report_with_verdict_bands_and_assumptions(tmp_path: Path) -> None:
    options, single = single_of(tmp_path)
    found = json.loads(answer.as_json(options, single))
    assert found["provenance"] == "predicted"
    assert found["verdict"]["answer"] == "fits"
    assert found["verdict"]["peak_allocated_bytes"] == 5128137728
    band = found["bands"]["peak_allocated"]
    assert band["low_bytes"] < 5128137728 < band["high_bytes"]
    assert found["assumptions"][0] == {
        "kind": "value",
        "text": "a condition was taken to be True",
        "file": "/project/train.py",
        "line": 52,
        "count": 3,
    }
    assert found["card"]["id"] == "t4"
    assert found["devices"][0]["peak"]["allocated_bytes"] == 5128137728


def test_only_a_sure_fit_succeeds(tmp_path: Path) -> None:
    _, single = single_of(tmp_path)
    assert exit_code(single.verdict) == 0
    _, failed = single_of(tmp_path, "rtx-3080", snapshot=RUNNING_OUT, ended="out of memory")
    assert failed.verdict.answer is Answer.DOES_NOT_FIT
    assert exit_code(failed.verdict) == 1
    text = answer.as_text(Options(["train.py"], failed.card), failed)
    assert text.startswith("train.py does not fit an RTX 3080 10 GB: at case.py:52, short by")
    assert "Predicted peak until then: " in text


def test_what_was_assumed_is_listed_once_and_in_plain_words(tmp_path: Path) -> None:
    twice = [
        Assumption("behaviour", "compiled", file, line, 1) for file, line in (("", 0), ("a.py", 3))
    ]
    facts = {f"{ASSUMPTION}{at}": json.dumps(vars(entry)) for at, entry in enumerate(twice)}
    assert _assumptions(facts) == twice[1:]
    options, single = single_of(tmp_path)
    text = " ".join(answer.as_text(options, single).split())
    assert "what CUDA's own context takes of it (" in text
    assert ") is assumed." in text or "of it are" in text


def test_all_cards_start_with_the_smallest_that_fits(tmp_path: Path) -> None:
    limits = tuple(card.free_bytes for card in CARDS)
    run = predicted(tmp_path, RUNNING_OUT, limits=limits)
    answers = sorted(all_cards.judge_cards([run], list(CARDS)), key=all_cards._order)
    text = all_cards.as_text("train.py", answers)
    assert text.startswith("train.py fits 26 of 28 cards; the smallest: RTX 3060 12 GB\n")
    rows = text.splitlines()[3:]
    assert rows[0].split()[:4] == ["RTX", "3060", "12", "GB"]
    assert rows[27].endswith("does not fit")
    assert "RTX 3080 10 GB" in rows[27]
    shortage = text.partition("Memory runs out at case.py:52: ")[2].partition(".")[0]
    assert shortage == "RTX 2080 Ti, RTX 3080 10 GB"
    assert max(map(len, text.splitlines())) <= 80
    frees = [entry.card.free_bytes for entry in answers]
    assert frees[:26] == sorted(frees[:26])
    # Cards for which nothing is known are named before the table.
    missing = all_cards.MissingCards([find_card("v100-16gb")], UnpredictedError("too old"))
    lines = all_cards.as_text("train.py", answers, [missing]).splitlines()
    assert lines[1:3] == ["  Not predicted: V100 16 GB: too old", ""]
    found = json.loads(all_cards._as_json(answers, [missing]))
    assert found["not_predicted"] == [{"card": "v100-16gb", "problem": "too old"}]


def test_a_sweep_draws_bars_and_names_the_largest_that_fits(tmp_path: Path) -> None:
    room = Room.of_card(find_card("rtx-3080"))
    flags = [parse_sweep("batch=4,32,64")]
    points = []
    for value, snapshot in [("4", "gpt2_b4_fp32_adamw"), ("32", RUNNING_OUT)]:
        run = predicted(tmp_path, snapshot, limits=(room.free_bytes,))
        points.append(sweep.SweepPoint((value,), run, judge(run.prediction, room)))
    points.append(
        sweep.SweepPoint(("64",), None, None, UnpredictedError("train.py:3: no such data"))
    )
    text = sweep.as_text("a.py", room, flags, points)
    assert text.startswith("a.py fits an RTX 3080 10 GB with up to --batch 4: 4.45 GiB to spare")
    rows = text.splitlines()
    assert rows[2].split() == ["batch", "allocated", "reserved"]
    assert rows[3].split()[:1] == ["4"]
    assert rows[3].endswith("fits")
    assert rows[4].count("█") == 20
    assert rows[4].endswith("short by 1.84 GiB")
    assert rows[5].endswith("not predicted")
    assert "--batch 64: train.py:3: no such data" in text
    assert max(map(len, rows)) <= 80


def test_a_sweep_that_changes_nothing_says_so(tmp_path: Path) -> None:
    room = Room.of_card(find_card("rtx-3080"))
    run = predicted(tmp_path, "gpt2_b4_fp32_adamw", limits=(room.free_bytes,))
    verdict = judge(run.prediction, room)
    points = [sweep.SweepPoint((value,), run, verdict) for value in ("4", "32", "8")]
    text = sweep.as_text("a.py", room, [parse_sweep("batch=4,32,8")], points)
    assert "with up to --batch 32:" in text
    assert "All of them need the same: does a.py use --batch?" in text


def test_the_list_of_cards_fits_a_terminal() -> None:
    text = card_list.as_text()
    assert max(map(len, text.splitlines())) <= 80
    for card in CARDS:
        assert f"  {card.id} " in text
    assert len(json.loads(card_list.as_json())["cards"]) == len(CARDS)


def test_the_document_shows_the_table_of_cards() -> None:
    assert card_list.as_markdown() in DOCUMENT.read_text(encoding="utf-8")


def test_a_failure_that_a_gpu_would_bring_follows_the_verdict(tmp_path: Path) -> None:
    options, single = single_of(tmp_path)
    told = Assumption("failure", "torch would raise an error on a GPU: because", "/a/b.py", 7, 1)
    prediction = replace(single.run.prediction, assumptions=[told])
    text = answer.as_text(options, replace(single, run=replace(single.run, prediction=prediction)))
    rows = text.splitlines()
    assert rows[2] == "  But b.py:7: torch would raise an error on a GPU: because"
    assert text.count("because") == 1
