"""The declared types of the JSON results are those of the results, key by key."""

from __future__ import annotations

import sys
import types
import typing
from pathlib import Path
from typing import Any, Union

import gpumemprof
import pytest
from gpumemprof.read.json_advice import AdviceJson
from gpumemprof.read.json_report import ReportJson
from gpumemprof.read.json_simulation import SimulationJson

pytestmark = [
    pytest.mark.filterwarnings("ignore::gpumemprof.CutFileWarning"),
    pytest.mark.skipif(sys.version_info < (3, 10), reason="reads types written as int | None"),
]

DATA = Path(__file__).resolve().parents[2] / "data"
FILES = [
    "snapshots/clean_training.pickle.gz",
    "snapshots/gpt2_b4_fp32_adamw.pickle.gz",
    "snapshots/gpt2_b32_fp32_adamw_oom.pickle.gz",
    "snapshots/leak_loss_history.pickle.gz",
    "snapshots/oom_fragmented.pickle.gz",
    "traces/cpu_training.gmp",
    "traces/cpu_training_cut.gmp",
    "traces/everything.gmp",
]


def problems(value: Any, kind: Any, where: str) -> list[str]:
    """What in the value is not as declared."""
    if typing.is_typeddict(kind):
        return _problems_of_keys(value, kind, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        found = [problems(value, one, where) for one in arguments]
        return [] if [] in found else found[0]
    if origin is list:
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no list"]
        return [each for item in value for each in problems(item, arguments[0], f"{where}[]")]
    if origin is dict:
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no dict"]
        return [each for key in value for each in problems(value[key], arguments[1], f"{where}.*")]
    is_right = type(value) is kind or (kind is float and type(value) is int)
    return [] if is_right else [f"{where}: {value!r} is no {kind.__name__}"]


def _problems_of_keys(value: Any, kind: Any, where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: {value!r} is no dict"]
    declared = typing.get_type_hints(kind)
    found = [f"{where}: {key} is not declared" for key in value.keys() - declared.keys()]
    found += [f"{where}: {key} is missing" for key in kind.__required_keys__ - value.keys()]
    for key in value.keys() & declared.keys():
        found += problems(value[key], declared[key], f"{where}.{key}")
    return found


def test_the_check_itself_finds_a_wrong_type_and_a_wrong_key() -> None:
    report = gpumemprof.load(gpumemprof.demo_path()).report()
    device: Any = report["devices"][0]
    device["peak"]["step"] = "one"
    device["new"] = 1
    del device["events"]
    assert sorted(problems(report, ReportJson, "report")) == [
        "report.devices[].peak.step: 'one' is no int",
        "report.devices[]: events is missing",
        "report.devices[]: new is not declared",
    ]


@pytest.mark.parametrize("file", FILES)
def test_a_report_has_the_declared_types(file: str) -> None:
    recording = gpumemprof.load(DATA / file)
    for at in ("peak", "end"):
        assert problems(recording.report(at=at), ReportJson, "report") == []


@pytest.mark.parametrize("file", FILES)
def test_advice_has_the_declared_types(file: str) -> None:
    recording = gpumemprof.load(DATA / file)
    for fit in (None, 1 << 20, 100 << 20):
        advice = recording.advise(fit=fit, together=["fused+autocast_bf16"])
        assert problems(advice, AdviceJson, "advice") == []


@pytest.mark.parametrize("file", [file for file in FILES if "cpu" not in file])
def test_a_simulation_has_the_declared_types(file: str) -> None:
    simulation = gpumemprof.load(DATA / file).replay(search=True)
    assert problems(simulation, SimulationJson, "simulation") == []
