"""The programs of tests/leaks are recorded and judged: leaks are found, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "leaks"))

import evaluate


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[evaluate.Judged]:
    folder = tmp_path_factory.mktemp("leaks")
    chosen = evaluate.programs("main", with_slow=False)
    evaluate.record(chosen, folder)
    return [evaluate.judge(program, folder) for program in chosen]


def test_nearly_all_leaks_are_found(judged: list[evaluate.Judged]) -> None:
    figures = evaluate.table(judged)
    assert figures["leaking"] >= 45
    assert figures["recall"] >= evaluate.LEAST_RECALL, evaluate.problems(judged)


def test_no_healthy_program_is_called_leaking(judged: list[evaluate.Judged]) -> None:
    assert sum(not each.program.leaks for each in judged) >= 45
    alarms = [each.program.name for each in judged if not each.program.leaks and each.is_alarm]
    assert alarms == []


def test_every_leak_is_found_at_its_line(judged: list[evaluate.Judged]) -> None:
    wrong = [
        each.program.name
        for each in judged
        if each.program.leaks and each.is_alarm and not each.are_lines_right
    ]
    assert wrong == []


def test_every_leak_says_what_to_change(judged: list[evaluate.Judged]) -> None:
    for each in judged:
        for leak in each.found["leaks"]:
            assert leak["advice"].endswith(".")
            assert leak["blocks"] > 0 or leak["bytes"] >= 0
