"""check_docs.py [BIN_FOLDER]: do the commands and paths in README.md and docs/ exist?

- A path in backticks (`src/...`, `tools/...`) and the target of a relative link must exist.
- In a fenced ```console or ```sh block, `$ gpumemprof VERB --flag` must name a verb and flags that
  VERB --help knows.
- Every verb in the general help has a page docs/cli/VERB.md, linked from README.md.
- A block right below `<!-- run -->` is run, in a temporary folder that holds tests/data and the
  package's demo files. Every command must exit with 0, or with N below `<!-- run exit=N -->`;
  `<!-- run a.pickle=tests/data/b.pickle -->` gives a file another name. Output lines in the block
  must equal the real output; a line of `…` alone stands for any lines. A ```python block is run as
  one script.

Commands come from BIN_FOLDER, where gpumemprof and python are installed; without it, only paths are
checked.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ANY_LINES = "…"

REPO_PATH = re.compile(
    r"`((?:src|tools|docs|tests|python|cmake|bench|fuzz|examples|viewer|changes|\.ci)/[^`\s]+)`"
)
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(?:#[^)]*)?\)")
FENCE = re.compile(r"^\s*```(\w*)")
RUN = re.compile(r"^\s*<!-- run\b(.*?)-->\s*$")


@dataclass
class Block:
    """One fenced block. `run` holds the arguments of its run comment, or None if it has none."""

    language: str
    line: int
    run: list[str] | None
    lines: list[str] = field(default_factory=list)


@dataclass
class Command:
    text: str
    line: int
    output: list[str] = field(default_factory=list)


def parse_blocks(text: str) -> Iterator[Block]:
    block: Block | None = None
    run: list[str] | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if block is not None:
            if fence:
                yield block
                block = run = None
            else:
                block.lines.append(line)
        elif fence:
            block = Block(fence[1], number, run)
        elif match := RUN.match(line):
            run = match[1].split()
        elif line.strip():
            run = None


def outside_blocks(text: str) -> Iterator[tuple[int, str]]:
    inside = False
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def parse_commands(block: Block) -> list[Command]:
    """Lines with a `$ ` prompt and their output; without prompts, every line is a command."""
    prompted = any(line.startswith("$ ") for line in block.lines)
    commands: list[Command] = []
    continued = False
    for offset, line in enumerate(block.lines, start=1):
        if continued:
            commands[-1].text += "\n" + line
        elif prompted and not line.startswith("$ "):
            if commands:
                commands[-1].output.append(line)
            continue
        elif line.strip() and not line.startswith("#"):
            commands.append(Command(line[2:] if prompted else line, block.line + offset))
        continued = bool(commands) and line.endswith("\\")
    return commands


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether the lines are equal, `…` standing for any number of lines."""
    if not expected:
        return not actual
    if expected[0].strip() == ANY_LINES:
        return any(matches(expected[1:], actual[start:]) for start in range(len(actual) + 1))
    return bool(actual) and expected[0] == actual[0] and matches(expected[1:], actual[1:])


def strip_blank(lines: list[str]) -> list[str]:
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n")


def check_paths(text: str, folder: Path) -> Iterator[tuple[int, str]]:
    for number, line in outside_blocks(text):
        for name in REPO_PATH.findall(line):
            if "<" in name or "…" in name:  # a pattern for the reader, such as docs/cli/<verb>
                continue
            plain = name.rstrip("/")
            if not (any(ROOT.glob(plain)) if "*" in plain else (ROOT / plain).exists()):
                yield number, f"`{name}` does not exist"
        for target in LINK.findall(line):
            # The repository's own pages on the web.
            if not target.startswith("../../actions/") and not (folder / target).exists():
                yield number, f"the link to {target} leads nowhere"


class Runner:
    """Runs commands with the package's own gpumemprof and python first on PATH."""

    def __init__(self, bin_folder: Path) -> None:
        path = f"{bin_folder}{os.pathsep}{os.environ.get('PATH', '')}"
        self.environment = {**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"}

    def run(self, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )

    @cache  # noqa: B019 (one runner per process)
    def has(self, module: str) -> bool:
        """Whether the package's python can import it; blocks that need torch wait for one."""
        return not module or self.run(["python", "-c", f"import {module}"], ROOT).returncode == 0

    @cache  # noqa: B019 (one runner per process)
    def help_of(self, verb: str) -> str | None:
        done = self.run(["gpumemprof", *([verb] if verb else []), "--help"], ROOT)
        return done.stdout if done.returncode == 0 else None

    def check_flags(self, line: str) -> Iterator[str]:
        for command in re.split(r" (?:&&|\||;) ", line.replace("\\\n", " ")):
            yield from self.check_flags_of_one(shlex.split(command, comments=True))

    def check_flags_of_one(self, words: list[str]) -> Iterator[str]:
        if words[:1] != ["gpumemprof"]:
            return
        verb = words[1] if len(words) > 1 and not words[1].startswith("-") else ""
        known = self.help_of("") or ""
        text = self.help_of(verb)
        # An unknown verb may still print the general help.
        if text is None or not re.search(rf"^\s*{re.escape(verb)}\b", known, re.MULTILINE):
            yield f"gpumemprof has no verb {verb}"
            return
        for word in words[1:]:
            # From here on, arguments belong to the program being run.
            if word in {"--", "-m"} or (verb in {"run", "estimate"} and word.endswith(".py")):
                break
            flag = word.split("=")[0]
            if flag.startswith("-") and not re.search(
                rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text
            ):
                yield f"gpumemprof {verb} has no flag {flag}"

    def run_block(self, block: Block) -> Iterator[tuple[int, str]]:
        options = dict(argument.split("=", 1) for argument in block.run or [])
        expected_code = int(options.pop("exit", "0"))
        if not self.has(options.pop("needs", "")):
            return
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "tests").mkdir()
            (folder / "tests/data").symlink_to(ROOT / "tests/data")
            for demo in (ROOT / "python/gpumemprof/data").glob("*"):
                (folder / demo.name).symlink_to(demo)
            for alias, target in options.items():
                (folder / alias).symlink_to(ROOT / target)

            if block.language == "python":
                done = self.run(["python", "-c", "\n".join(block.lines)], folder)
                if done.returncode != expected_code:
                    yield block.line, f"the script ends with {done.returncode}:\n{done.stdout}"
                return
            for command in parse_commands(block):
                done = self.run(["bash", "-c", command.text], folder)
                if done.returncode != expected_code:
                    yield (
                        command.line,
                        f"`{command.text}` ends with {done.returncode}:\n{done.stdout}",
                    )
                expected = strip_blank(command.output)
                actual = strip_blank(done.stdout.splitlines())
                if expected != [""] and not matches(expected, actual):
                    shown = "\n".join(actual)
                    yield command.line, f"`{command.text}` prints something else:\n{shown}"


def check_file(path: Path, runner: Runner | None) -> Iterator[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    yield from check_paths(text, path.parent)
    for block in parse_blocks(text) if runner else ():
        if block.language in {"console", "sh"}:
            for command in parse_commands(block):
                for problem in runner.check_flags(command.text):
                    yield command.line, problem
        if block.run is not None:
            yield from runner.run_block(block)


def check_verbs(general_help: str, readme: str, pages: set[str]) -> Iterator[str]:
    """The help lists every verb below `Commands:`, indented by two columns."""
    listed = general_help.partition("Commands:")[2].partition("\n\n")[0]
    verbs = re.findall(r"^  (\w+)", listed, re.MULTILINE)
    if not verbs:
        yield "the help lists no verbs"
    for verb in verbs:
        if verb not in pages:
            yield f"docs/cli/{verb}.md is missing"
        if f"[{verb}](docs/cli/{verb}.md)" not in readme:
            yield f"README.md does not link docs/cli/{verb}.md"
    for page in sorted(pages - set(verbs)):
        yield f"docs/cli/{page}.md describes a verb that does not exist"


def main(arguments: list[str]) -> int:
    runner = Runner(Path(arguments[0]).resolve()) if arguments else None
    failed = False
    if runner:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        pages = {path.stem for path in (ROOT / "docs/cli").glob("*.md")}
        for problem in check_verbs(runner.help_of("") or "", readme, pages):
            print(problem)
            failed = True
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if not path.exists():
            continue
        for line, problem in check_file(path, runner):
            print(f"{path.relative_to(ROOT)}:{line}: {problem}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
