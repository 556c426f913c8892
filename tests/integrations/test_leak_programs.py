"""All programs of tests/leaks: also the slow ones, and those written after the rules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "leaks"))

import evaluate


@pytest.mark.parametrize("which", ["main", "blind"])
def test_leaks_are_found_and_nothing_else(which: str, tmp_path: Path) -> None:
    chosen = evaluate.programs(which)
    evaluate.record(chosen, tmp_path)
    judged = [evaluate.judge(program, tmp_path) for program in chosen]
    figures = evaluate.table(judged)
    assert figures["false alarms"] == 0, evaluate.problems(judged)
    assert figures["recall"] >= evaluate.LEAST_RECALL, evaluate.problems(judged)
    assert figures["lines right"] == figures["found"], evaluate.problems(judged)
