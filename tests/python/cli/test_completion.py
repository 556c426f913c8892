"""``gpumemprof completion``: what the shells themselves complete with the scripts it prints."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Command

GOLDEN = Path(__file__).resolve().parents[2] / "golden/usage"
VERBS = sorted(path.name[5:] for path in GOLDEN.glob("help_*"))
VERBS = [verb for verb in VERBS if verb not in {"as_word", "verify"}]
FORMATS = "torch-snapshot gmp folded pprof speedscope perfetto csv parquet arrow"

# What is typed, the cursor at its end → what it may become; nothing: file names.
CASES = {
    "gpumemprof rep": "report",
    "gpumemprof ru": "run",
    "gpumemprof --v": "--version",
    "gpumemprof report --mo": "--modules",
    "gpumemprof report x.gmp --h": "--html --help",
    "gpumemprof report --at ": "step: peak end",
    "gpumemprof report --at p": "peak",
    "gpumemprof report --top 5 --at e": "end",
    "gpumemprof report ": "",
    "gpumemprof report --html ": "",
    "gpumemprof table --by ": "line allocation",
    "gpumemprof table --sort ": "live bytes count largest lifetime",
    "gpumemprof table --sort l": "live largest lifetime",
    "gpumemprof convert x.gmp out --to ": FORMATS,
    "gpumemprof convert x.gmp out --to=p": "--to=pprof --to=perfetto --to=parquet",
    "gpumemprof convert x.gmp out --to=": " ".join(f"--to={name}" for name in FORMATS.split()),
    "gpumemprof export --to ": "parquet",
    "gpumemprof completion ": "bash zsh fish",
    "gpumemprof run --leaks": "--leaks --leaks-signal",
    "gpumemprof run --keep 2GiB --ou": "--output",
    "gpumemprof run --keep ": "",
    "gpumemprof run train.py --live": "",
    "gpumemprof run -- --live": "",
    "gpumemprof run -f --keep 2GiB train.py --l": "",
    "gpumemprof estimate --nn": "--nnodes",
    "gpumemprof nonsense --f": "",
}


def script_of(command: Command, shell: str, tmp_path: Path) -> Path:
    done = command("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    path = tmp_path / "completion"
    path.write_text(done.stdout)
    return path


def bash_words(line: str) -> list[str]:
    """As readline splits a line for a completion function: "=" and ":" are words."""
    words = [part for word in line.split(" ") for part in re.split("([=:])", word)]
    words = [word for word in words[:-1] if word] + words[-1:]
    return words[:-1] if words[-2:-1] == ["="] and not words[-1] else words


def by_bash(script: Path, line: str) -> list[str]:
    words = bash_words(line)
    program = f"""
        set -eu
        source {shlex.quote(str(script))}
        COMP_WORDS=({shlex.join(words)}) COMP_CWORD={len(words) - 1}
        [[ $(complete -p gpumemprof) == *"-o default"*_gpumemprof* ]]
        _gpumemprof gpumemprof {shlex.quote(words[-1])} {shlex.quote(words[-2])} || true
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def by_zsh(script: Path, line: str) -> list[str]:
    words = line.split(" ")
    program = f"""
        compdef() {{}}
        source {shlex.quote(str(script))}
        words=({shlex.join(words)}) CURRENT={len(words)}
        _files() {{}}
        compadd() {{ shift; print -rl -- ${{(M)@:#${{words[CURRENT]}}*}} }}
        _gpumemprof
    """
    done = subprocess.run(["zsh", "-fc", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def by_fish(script: Path, line: str) -> list[str]:
    program = f"source {script}; cd {script.parent}; complete -C {shlex.quote(line)}"
    done = subprocess.run(["fish", "-Nc", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    found = [word.partition("\t")[0] for word in done.stdout.splitlines()]
    return [word for word in found if word != script.name]


SHELLS = {"bash": by_bash, "zsh": by_zsh, "fish": by_fish}


@pytest.mark.parametrize("shell", SHELLS)
def test_completes_commands_flags_and_choices(command: Command, tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    script = script_of(command, shell, tmp_path)
    for line, expected in CASES.items():
        found = SHELLS[shell](script, line)
        wanted = expected.split()
        if shell == "bash":  # which completes what follows the "="
            wanted = [word.partition("=")[2] or word for word in wanted]
        assert sorted(found) == sorted(wanted), line


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_quote_what_they_hold(command: Command, shell: str) -> None:
    script = command("completion", shell).stdout
    program = script.split("awk -- '")[1].split("'")[0]
    assert "END {" in program
    assert program.rstrip().endswith("}")
    assert "\\" not in program


def test_every_command_completes_all_flags_of_its_help(command: Command, tmp_path: Path) -> None:
    script = script_of(command, "bash", tmp_path)
    assert sorted(by_bash(script, "gpumemprof ")) == VERBS
    for verb in VERBS:
        help_text = (GOLDEN / f"help_{verb}/expected").read_text()
        rows = re.findall(r"^  (-[^\s,]+)(?:, (--\S+))?", help_text, re.MULTILINE)
        flags = [flag for row in rows for flag in row if flag]
        assert by_bash(script, f"gpumemprof {verb} -") == flags, verb


def test_only_lists_are_taken_for_choices(command: Command) -> None:
    program = command("completion", "bash").stdout.split("awk -- '")[1].split("'")[0]
    found = {}
    for verb in VERBS:
        help_text = (GOLDEN / f"help_{verb}/expected").read_text()
        for flag in re.findall(r"^  .*?(--\S+) [^ ]", help_text, re.MULTILINE):
            line = ["awk", "--", program, verb, flag, ""]
            choices = subprocess.run(line, input=help_text, capture_output=True, text=True)
            if choices.stdout:
                found[f"{verb} {flag}"] = " ".join(choices.stdout.split())
    moments = "step: peak end"
    assert found == {
        **{f"{verb} --at": moments for verb in ("report", "demo", "tree", "table")},
        "advise --code": "all",
        "convert --at": "peak end",
        "convert --to": FORMATS,
        "export --to": "parquet",
        "table --by": "line allocation",
        "table --sort": "live bytes count largest lifetime",
    }


def test_another_shell_is_one_sentence(command: Command) -> None:
    done = command("completion", "tcsh")
    assert done.returncode == 2
    assert done.stderr == "gpumemprof: unknown shell 'tcsh'; name bash, zsh or fish\n"
