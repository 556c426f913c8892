"""check_tidy.py BUILD_FOLDER [--all]: runs clang-tidy on the C++ sources that changed, or on all.

Changed means: since the merge base with origin/main (or since the previous commit, if that base is
HEAD), plus anything uncommitted. A source is skipped if its text, our headers it includes and the
configuration are the same as in its last clean run.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def git(*args: str) -> str | None:
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def changed_files() -> set[Path]:
    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "origin/main")
    if base is None or base == head:
        base = git("rev-parse", "--verify", "--quiet", "HEAD~1")
    names = git("ls-files", "--others", "--exclude-standard") or ""
    if base is None:  # no previous commit: everything is new
        names += "\n" + (git("ls-files") or "")
    else:
        names += "\n" + (git("diff", "--name-only", base) or "")
    return {ROOT / name for name in names.split("\n") if name}


def our_headers(source: Path, include_roots: list[Path], seen: set[Path]) -> set[Path]:
    """The source and all of our headers it includes, directly or not."""
    if source in seen:
        return seen
    seen.add(source)
    for match in INCLUDE.findall(source.read_bytes()):
        for root in (source.parent, *include_roots):
            header = root / match.decode()
            if header.is_file():
                our_headers(header.resolve(), include_roots, seen)
                break
    return seen


def digest(files: set[Path], arguments: list[str]) -> str:
    total = hashlib.sha256(" ".join(arguments).encode())
    for path in sorted(files | {ROOT / ".clang-tidy", ROOT / "tools/check-requirements.txt"}):
        total.update(str(path).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def sources(build: Path) -> dict[Path, list[str]]:
    """Each of our sources in the compilation database, with its compile command."""
    entries = json.loads((build / "compile_commands.json").read_text())
    found = {Path(e["file"]).resolve(): shlex.split(e["command"]) for e in entries}
    foreign = ROOT / "build"  # holds the virtual environments, with nanobind's sources in them
    return {
        path: command
        for path, command in found.items()
        if ROOT in path.parents and foreign not in path.parents
    }


def run_one(source: Path, build: Path) -> tuple[bool, str]:
    done = subprocess.run(
        ["clang-tidy", "--quiet", "-p", str(build), str(source)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return done.returncode == 0, done.stdout + (done.stderr if done.returncode else "")


def main(build: Path, everything: bool) -> int:
    stamps_file = build / "tidy-stamps.json"
    stamps = json.loads(stamps_file.read_text()) if stamps_file.exists() else {}
    changed = changed_files()
    include_roots = [ROOT / "src", ROOT / "tests/cpp", ROOT / "fuzz", ROOT / "bench"]

    work: dict[Path, str] = {}
    for source, command in sorted(sources(build).items()):
        files = our_headers(source, include_roots, set())
        key = digest(files, command)
        if (everything or files & changed) and stamps.get(str(source)) != key:
            work[source] = key

    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(lambda source: run_one(source, build), work)
        for (source, key), (clean, text) in zip(work.items(), outcomes):
            if clean:
                stamps[str(source)] = key
            else:
                failed += 1
                print(text)
    stamps_file.write_text(json.dumps(stamps, indent=1))
    print(f"{len(work)} files looked at, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), "--all" in sys.argv))
