"""The native command: the same output as the Python package's, and no Python."""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from native_tree import ROOT, run

pytest_plugins = ("native_install",)

GOLDEN = ROOT / "tests/golden"
NEED_PYTHON = ("run", "live", "estimate", "calibrate", "ranks", "export")
PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PATH": "/usr/bin:/bin"}


def is_native(case: Path) -> bool:
    """Whether no line of the case is for a part of the Python package."""
    lines = [shlex.split(line)[1:] for line in (case / "command").read_text().splitlines()]
    return not any(
        (words[:1] and words[0] in NEED_PYTHON) or "--verify" in words or names_ranks(words)
        for words in lines
    )


def names_ranks(words: list[str]) -> bool:
    named = [ROOT / "tests" / word for word in words[1:] if not word.startswith("-")]
    return words[:1] in (["report"], ["view"]) and len(named) == 1 and named[0].is_dir()


CASES = [case for case in sorted(p.parent for p in GOLDEN.rglob("command")) if is_native(case)]


def command(prefix: Path, *words: object, **options: object) -> subprocess.CompletedProcess[str]:
    line = [str(prefix / "bin/gpumemprof"), *map(str, words)]
    return subprocess.run(line, capture_output=True, text=True, env=PLAIN, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.relative_to(GOLDEN)))
def test_prints_what_the_package_prints(case: Path, installed: Path, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "tests/data")
    out = err = ""
    code = 0
    for line in (case / "command").read_text().splitlines():
        done = command(installed, *shlex.split(line)[1:], cwd=tmp_path)
        out, err, code = out + done.stdout, err + done.stderr, done.returncode
    expected = {path.name: path.read_text() for path in case.iterdir()}
    assert code == int(expected.get("status", "0"))
    assert err == expected.get("stderr", "")
    assert out == expected.get("expected", "")


def native_verbs() -> set[str]:
    table = (ROOT / "src/cli/verb_table.cpp").read_text()
    return set(re.findall(r"^  VERB\((\w+),", table, re.MULTILINE)) - set(NEED_PYTHON)


def test_the_cases_cover_every_verb_that_reads() -> None:
    verbs = {word for case in CASES for word in shlex.split((case / "command").read_text())[1:2]}
    assert native_verbs() <= verbs


def test_the_document_lists_every_verb_that_reads() -> None:
    section = (ROOT / "docs/cpp.md").read_text().partition("## The native command\n")[2]
    assert set(re.findall(r"`(\w+)`", section.partition(" print")[0])) == native_verbs()


@pytest.mark.parametrize("words", [*([verb, "x"] for verb in NEED_PYTHON), ["ranks"]])
def test_says_how_to_get_what_needs_python(installed: Path, words: list[str]) -> None:
    done = command(installed, *words)
    assert done.returncode == 4
    assert done.stdout == ""
    assert re.fullmatch(
        rf"gpumemprof: {words[0]} needs the Python package, .* with pip, from a wheel .*"
        rf"python -m gpumemprof {words[0]}\b.*\n",
        done.stderr,
    )


def test_a_manual_page_holds_the_help_of_each_verb(installed: Path) -> None:
    source = gzip.decompress((installed / "share/man/man1/gpumemprof.1.gz").read_bytes()).decode()
    for verb in native_verbs() | set(NEED_PYTHON):
        assert f"\n.SS {verb}\n.nf\n" in source
    reader = shutil.which("mandoc") or shutil.which("groff")
    if reader is None:
        pytest.skip("there is neither mandoc nor groff")
    lint = ["-Werror"] if reader.endswith("mandoc") else ["-ww", "-mandoc"]
    shown = subprocess.run(
        [reader, "-Tascii", *lint], input=source, capture_output=True, text=True, check=False
    )
    assert shown.stderr == ""
    text = re.sub("\x1b[^m]*m|.\x08", "", shown.stdout)
    for verb in native_verbs():
        lines = command(installed, verb, "--help").stdout.splitlines()
        assert [line for line in lines if line.strip() not in text] == [], verb


def test_says_so_of_parts_of_its_own_verbs(installed: Path, tmp_path: Path) -> None:
    verify = command(installed, "advise", "--verify", "fused", "--", "train.py", "--json")
    ranks = command(installed, "report", tmp_path)
    parquet = command(installed, "convert", tmp_path, tmp_path / "out.parquet")
    assert (verify.returncode, ranks.returncode, parquet.returncode) == (4, 4, 4)
    assert "python -m gpumemprof convert FILE OUT --to parquet" in parquet.stderr
    assert "with pip, from a wheel" in verify.stderr
    assert f"python -m gpumemprof ranks {tmp_path}" in ranks.stderr
    assert command(installed, "report", tmp_path, "--help").returncode == 0


def libraries_of(program: Path) -> list[Path]:
    """The shared libraries that it loads, the loader among them."""
    listed = run(["ldd", program]).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", listed)]


def in_root(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a file system of its own; skips where the system does not allow that."""
    chroot = shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if chroot is None:
        pytest.skip("there is no chroot")
    enter = [chroot, root] if os.geteuid() == 0 else ["unshare", "-r", chroot, root]
    done = subprocess.run([*enter, *words], capture_output=True, text=True, env=PLAIN)
    if "not permitted" in done.stderr:
        pytest.skip("this system allows no root file system of one's own")
    return done


def test_runs_where_nothing_but_its_libraries_is_installed(installed: Path, tmp_path: Path) -> None:
    program = installed / "bin/gpumemprof"
    libraries = libraries_of(program)
    assert not [path for path in libraries if "python" in path.name]
    root = tmp_path / "root"
    for path in libraries:
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    shutil.copytree(installed, root / "opt")
    # Without /proc, where the program would look for itself.
    (root / "usr/local").mkdir(parents=True, exist_ok=True)
    shutil.copytree(installed / "share", root / "usr/local/share")
    shutil.copy(ROOT / "tests/data/snapshots/clean_training.pickle.gz", root / "run.pickle.gz")

    demo = in_root(root, "/opt/bin/gpumemprof", "demo")
    assert demo.stderr == ""
    assert "ran out of memory" in demo.stdout
    for words in (
        ["report", "run.pickle.gz"],
        ["report", "run.pickle.gz", "--html", "run.html"],
        ["info", "run.pickle.gz"],
        ["leaks", "run.pickle.gz"],
        ["simulate", "run.pickle.gz"],
        ["advise", "run.pickle.gz"],
        ["convert", "run.pickle.gz", "--to", "gmp", "run.gmp"],
        ["report", "run.gmp"],
    ):
        done = in_root(root, "/opt/bin/gpumemprof", *words)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert done.stdout


def test_finds_its_files_wherever_it_is_moved(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(installed, tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere/bin/gpumemprof")
    done = subprocess.run([tmp_path / "link", "demo"], capture_output=True, text=True, env=PLAIN)
    assert done.returncode == 0, done.stderr
    assert "ran out of memory" in done.stdout
