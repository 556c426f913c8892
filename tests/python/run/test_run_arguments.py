"""The command line of ``gpumemprof run``: which words are ours, and which are the program's."""

from __future__ import annotations

import pytest
from gpumemprof.errors import UsageError
from gpumemprof.recorder.run import _Options, _parse, _parser


def parse(*words: str) -> _Options:
    options = _parse(_parser(), words)
    assert options is not None
    return options


@pytest.mark.parametrize(
    ("words", "program"),
    [
        (["train.py"], ["train.py"]),
        (["train.py", "-f", "--cpu", "-h"], ["train.py", "-f", "--cpu", "-h"]),
        (["train.py", "-o", "x", "--", "-m", "y"], ["train.py", "-o", "x", "--", "-m", "y"]),
        (["train.py", "--", "--"], ["train.py", "--", "--"]),
        (["train.py", "--no-such=1", "-fx", "-mx"], ["train.py", "--no-such=1", "-fx", "-mx"]),
        (["--", "-odd.py", "--cpu"], ["-odd.py", "--cpu"]),
        (["--", "train.py", "--", "x"], ["train.py", "--", "x"]),
        (["-o", "train.py", "train.py", ""], ["train.py", ""]),
    ],
)
def test_what_follows_the_script_is_the_programs(words: list[str], program: list[str]) -> None:
    for ours in ([], ["-f", "--no-stacks"], ["--cpu"]):
        options = parse(*ours, *words)
        assert [options.script, *options.arguments] == program
        assert options.how == ""
        assert options.settings.force == ("-f" in ours)
        assert options.settings.cpu == (True if "--cpu" in ours else None)


@pytest.mark.parametrize(
    "arguments", [[], ["-f"], ["--cpu", "-m", "x"], ["--", "-f"], ["a", "--", "b", "--"], ["-h"]]
)
def test_what_follows_a_module_is_the_programs(arguments: list[str]) -> None:
    options = parse("--no-labels", "-m", "package.train", *arguments)
    assert options.how == "-m"
    assert [options.script, *options.arguments] == ["package.train", *arguments]
    assert not options.settings.labels
    assert not options.settings.force


@pytest.mark.parametrize("arguments", [[], ["-f"], ["-m", "x"], ["--", "-f"], ["-h"]])
def test_what_follows_code_is_the_programs(arguments: list[str]) -> None:
    options = parse("--no-labels", "-c", "-1; print()", *arguments)
    assert options.how == "-c"
    assert [options.script, *options.arguments] == ["-1; print()", *arguments]
    assert not options.settings.labels
    assert not options.settings.force


def test_values_come_in_both_forms() -> None:
    assert parse("-o", "a.gmp", "x.py").output == "a.gmp"
    assert parse("--output", "a.gmp", "x.py").output == "a.gmp"
    assert parse("--output=a=b.gmp", "x.py").output == "a=b.gmp"
    assert parse("--output=-a.gmp", "x.py").output == "-a.gmp"
    assert parse("-o=-a.gmp", "x.py").output == "-a.gmp"
    assert parse("x.py").output is None


@pytest.mark.parametrize("words", [["-h"], ["--help"], ["--cpu", "-h"], ["-h", "--bogus", "x.py"]])
def test_help_is_printed_whatever_else_is_given(words: list[str]) -> None:
    assert _parse(_parser(), words) is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--forse", "x.py"], "unknown flag '--forse', did you mean '--force'?"),
        (["--ouput=x", "x.py"], "unknown flag '--ouput', did you mean '--output'?"),
        (["--zzz", "x.py"], "unknown flag '--zzz'; see gpumemprof run --help"),
        (["--cpu=3", "x.py"], "--cpu takes no value, but has '3'; see gpumemprof run --help"),
        (["-o"], "-o needs a value; see gpumemprof run --help"),
        (["--output"], "-o needs a value; see gpumemprof run --help"),
        (
            ["-o", "-a.gmp", "x.py"],
            "-o needs a value; if -a.gmp is it, write -o=-a.gmp; see gpumemprof run --help",
        ),
        (["-o", "--cpu", "x.py"], "-o needs a value; see gpumemprof run --help"),
        (["-m"], "-m needs a value; see gpumemprof run --help"),
        (["-mtrain", "-f"], "unexpected argument '-mtrain'; see gpumemprof run --help"),
        (["-c"], "-c needs a value; see gpumemprof run --help"),
        (["-cpass", "-f"], "unexpected argument '-cpass'; see gpumemprof run --help"),
        (["--"], "run -- needs a script; see gpumemprof run --help"),
        ([], "run needs a script, -m and a module, or -c and code; see gpumemprof run --help"),
        (
            ["--cpu"],
            "run needs a script, -m and a module, or -c and code; see gpumemprof run --help",
        ),
    ],
)
def test_mistakes_are_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(*words)
    assert str(raised.value) == sentence
