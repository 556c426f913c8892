"""``--sweep`` finds the program's own flags, and changes nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpumemprof.errors import UsageError
from gpumemprof.estimate.command.sweep_flags import (
    SweptFlag,
    combinations,
    exact_flags,
    parse_sweep,
    with_values,
)

SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
parser.add_argument("--seq_len", type=int)
parser.add_argument("--lr")
parser.add_argument("--lr-decay")
parser.add_argument("--hidden-size")
parser.add_argument("--hidden-layers")
parser.add_argument("-a", "--amp", action="store_true", help="use autocast")
parser.add_argument("--compile", action=argparse.BooleanOptionalAction)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("batch", "--batch-size"),
        ("batch-size", "--batch-size"),
        ("batch_size", "--batch-size"),
        ("seq-len", "--seq_len"),
        ("seq", "--seq_len"),
        ("lr", "--lr"),
        ("unknown", "--unknown"),
    ],
)
def test_the_flag_is_spelled_as_the_program_spells_it(script: str, asked: str, found: str) -> None:
    assert exact_flags([script], [parse_sweep(f"{asked}=1")])[0].flag == found


def test_a_flag_among_the_arguments_needs_no_search(tmp_path: Path) -> None:
    program = [str(tmp_path / "gone.py"), "--micro-batch=4"]
    assert exact_flags(program, [parse_sweep("micro-batch=1")])[0].flag == "--micro-batch"
    assert exact_flags(program, [parse_sweep("micro=1")])[0].flag == "--micro-batch"


def test_a_name_that_fits_several_flags_is_refused(script: str) -> None:
    with pytest.raises(UsageError, match="--hidden-layers, --hidden-size"):
        exact_flags([script], [parse_sweep("hidden=1")])


def test_values_replace_those_that_were_given() -> None:
    sweeps = [SweptFlag("--batch", ("8",)), SweptFlag("--seq", ("64",))]
    words = ["data", "--batch", "4", "--seq=32", "--name", "x"]
    assert with_values(words, sweeps, ("8", "64")) == [
        *["data", "--batch", "8", "--seq=64", "--name", "x"]
    ]
    assert with_values([], sweeps, ("8", "64")) == ["--batch", "8", "--seq", "64"]
    assert words[2] == "4"


def test_every_combination_is_tried_once() -> None:
    sweeps = [parse_sweep("a=1,2,2"), parse_sweep("b=x,y")]
    assert combinations(sweeps) == [("1", "x"), ("1", "y"), ("2", "x"), ("2", "y")]
    many = ",".join(map(str, range(11)))
    with pytest.raises(UsageError, match="121 runs of the program, of at most 100"):
        combinations([parse_sweep(f"a={many}"), parse_sweep(f"b={many}")])


def test_a_flag_without_a_value_is_given_or_left_out(script: str) -> None:
    flags = exact_flags([script], [parse_sweep("amp=true,false"), parse_sweep("compile=on,off")])
    assert with_values(["--lr", "1"], flags, ("true", "on")) == ["--lr", "1", "--amp", "--compile"]
    assert with_values(["--amp", "--compile"], flags, ("false", "off")) == ["--no-compile"]
    assert with_values(["--no-compile", "data"], flags, ("True", "1")) == [
        "data",
        "--amp",
        "--compile",
    ]
    with pytest.raises(UsageError, match="--amp of the program takes no value") as raised:
        exact_flags([script], [parse_sweep("amp=fp16")])
    assert "--sweep amp=true,false" in str(raised.value)
