"""The line that a recording names for an exception that ended the program."""

from __future__ import annotations

import sys

import pytest
from gpumemprof.recorder import program_end


def test_deep_traceback_costs_one_look_at_each_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def deeper(depth: int) -> None:
        if depth == 0:
            raise KeyError("innermost")
        deeper(depth - 1)

    shown = []
    monkeypatch.setattr(program_end, "_shown", lambda file: shown.append(file) or "train.py")
    program_end._is_library.cache_clear()
    with pytest.raises(KeyError) as caught:
        deeper(500)
    monkeypatch.setattr(sys, "last_value", caught.value, raising=False)
    monkeypatch.setattr(sys, "last_traceback", caught.value.__traceback__, raising=False)
    place = program_end.failure_facts()["failure_place"]
    assert place == f"train.py:{deeper.__code__.co_firstlineno + 2} deeper"
    assert len(shown) == 1
    assert program_end._is_library.cache_info().misses == 1
