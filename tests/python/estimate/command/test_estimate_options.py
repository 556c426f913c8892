"""What ``gpumemprof estimate`` accepts, and how it refuses the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpumemprof.errors import UsageError
from gpumemprof.estimate.command.options import parse


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()


def test_what_follows_the_script_belongs_to_it() -> None:
    options = parse(["--gpu", "l4", "train.py", "--gpu", "t4", "--steps", "9", "--", "-h"])
    assert options is not None
    assert options.card.id == "l4"
    assert options.steps == 3
    assert options.program == ["train.py", "--gpu", "t4", "--steps", "9", "--", "-h"]
    assert options.name == "train.py"


def test_a_module_is_run_as_python_runs_it() -> None:
    options = parse(["--steps", "all", "-m", "package.train", "--lr", "1"])
    assert options is not None
    assert options.program == ["-m", "package.train", "--lr", "1"]
    assert (options.is_module, options.name, options.steps) == (True, "package.train", None)


def test_every_flag_is_understood() -> None:
    words = ["--gpu", "all", "--limit", "12.5", "--assume", "train.py:52=8", "--json"]
    options = parse([*words, "--assume", "a/b.py:7=true", "train.py"])
    assert options is not None
    assert options.is_for_all_cards
    assert options.json
    assert options.seconds == 12.5
    assert options.assumed == {"train.py:52": 8.0, "a/b.py:7": 1.0}
    fitted = parse(["--fit", "24GiB", "-o", "out.gmp", "train.py"])
    assert fitted is not None
    assert (fitted.fit_bytes, fitted.output) == (24 << 30, "out.gmp")
    swept = parse(["--sweep", "batch=1,2", "--sweep", "seq=512", "train.py"])
    assert swept is not None
    assert [(flag.flag, flag.values) for flag in swept.sweeps] == [
        ("--batch", ("1", "2")),
        ("--seq", ("512",)),
    ]


def test_help_and_the_list_of_cards_need_no_program() -> None:
    assert parse(["--help"]) is None
    listed = parse(["--gpus"])
    assert listed is not None
    assert listed.lists_cards


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "estimate needs a script, or -m and a module"),
        (["-m"], "-m needs a value"),
        (["gone.py"], "gone.py: no such script"),
        (["--gpu", "abacus", "train.py"], "unknown card 'abacus'"),
        (["--gpus-all", "train.py"], "unknown flag '--gpus-all', did you mean '--gpus'?"),
        (["--steps", "0", "train.py"], "--steps takes a number above 0, or all, not '0'"),
        (["--limit", "inf", "train.py"], "--limit takes a number of seconds above 0, not 'inf'"),
        (["--fit", "small", "train.py"], "--fit takes a size, not 'small'"),
        (["--sweep", "batch", "train.py"], "--sweep takes a flag and its values, not 'batch'"),
        (["--sweep", "batch=", "train.py"], "--sweep takes a flag and its values, not 'batch='"),
        (["--assume", "train.py=1", "train.py"], "--assume takes FILE:LINE=VALUE"),
        (["--assume", "a.py:1=x", "train.py"], "--assume takes a number, True or False, not 'x'"),
        (["--gpu", "all", "--fit", "1GiB", "train.py"], "--gpu all and --fit cannot be combined"),
        (["--sweep", "a=1", "-o", "o.gmp", "train.py"], "--sweep makes several predictions"),
        (["-o", ".", "train.py"], ". is a folder; name a file with -o"),
        (["-o", "none/run.gmp", "train.py"], "none is no folder; name another file with -o"),
        (["."], ". is a folder without __main__.py; name a script"),
        ([""], "an empty name: no such script"),
        (["-o", "train.py", "train.py"], "train.py exists; add -f to replace it"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(words)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


def test_ranks_are_chosen() -> None:
    options = parse(["--nproc", "8", "--nnodes", "128", "train.py"])
    assert options is not None
    assert (options.per_node, options.nodes, options.ranks) == (8, 128, [0, 1, 7, 1016, 1023])
    chosen = parse(["--nproc", "4", "--ranks", "3,1", "-o", "out.gmp", "train.py"])
    assert chosen is not None
    assert chosen.ranks == [1, 3]
    for several in (["--gpu", "all"], ["--sweep", "batch=1,2"], ["--fit", "1GiB"]):
        tabled = parse(["--nproc", "2", *several, "train.py"])
        assert tabled is not None
        assert tabled.ranks == [0, 1]
    alone = parse(["train.py"])
    assert alone is not None
    assert (alone.per_node, alone.ranks) == (None, [])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--nnodes", "2", "train.py"], "--nnodes needs --nproc"),
        (["--nproc", "0", "train.py"], "--nproc takes a number from 1 to 8, not '0'"),
        (["--nproc", "9", "train.py"], "torch simulates at most 8 cards of a machine"),
        (["--nproc", "4", "--ranks", "4", "train.py"], "--ranks takes numbers from 0 to 3"),
        (
            ["--nproc", "2", "--gpu", "all", "--sweep", "batch=1,2", "train.py"],
            "--gpu all and --sweep cannot be combined",
        ),
        (
            ["--nproc", "2", "--gpu", "all", "-o", "out.gmp", "train.py"],
            "--gpu all makes several predictions; -o keeps one",
        ),
        (["-m", "torch.distributed.run", "train.py"], "name the program itself"),
    ],
)
def test_ranks_that_cannot_be_are_a_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse(words)


@pytest.mark.parametrize(
    "behind", [["--lr", "1", "--fit", "24GiB"], ["--fit", "24GiB", "--lr", "1"]]
)
def test_an_own_flag_behind_a_script_without_it_is_understood(behind: list[str]) -> None:
    options = parse(["--nproc", "8", "train.py", *behind])
    assert options is not None
    assert options.fit_bytes == 24 << 30
    assert options.program == ["train.py", "--lr", "1"]
    assert options.notes == [
        "--fit 24GiB was taken as a flag of estimate, since train.py has no such flag; write it "
        "before the script to be sure"
    ]


def test_several_sweeps_behind_the_script_are_understood() -> None:
    options = parse(["train.py", "--sweep", "batch=1,2", "--sweep", "seq=8,16"])
    assert options is not None
    assert [flag.flag for flag in options.sweeps] == ["--batch", "--seq"]
    assert options.program == ["train.py"]


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        ("parser.add_argument('--fit')", ["--fit", "24GiB"]),
        ("class Config:\n    fit: str = ''", ["--fit", "24GiB"]),
        ("def main(fit): pass", ["--fit", "24GiB"]),
        ("", ["--fit", "24"]),
        ("", ["--fit", "tight"]),
        ("", ["--fit"]),
        ("", ["--", "--fit", "24GiB"]),
        ("", ["--sweep", "wide"]),
        ("not Python (", ["--fit", "24GiB"]),
    ],
)
def test_a_flag_that_may_be_the_programs_own_is_left_to_it(text: str, behind: list[str]) -> None:
    Path("train.py").write_text(text)
    options = parse(["train.py", *behind])
    assert options is not None
    assert options.program == ["train.py", *behind]
    assert (options.fit_bytes, options.sweeps, options.notes) == (None, [], [])
