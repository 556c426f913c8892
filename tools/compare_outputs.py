"""Checks that two builds of gpumemprof print the same figures for the same recordings.

Usage: python tools/compare_outputs.py BEFORE AFTER FILE_OR_FOLDER...

BEFORE and AFTER are the folders in which the two builds' ``gpumemprof`` command and ``python`` are.
Compared are exit codes, the JSON of every command that prints JSON, the tables as Arrow, and the
bytes of each recording converted to .gmp. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SUFFIXES = (".gmp", ".pickle", ".pkl", ".gz")
COMMANDS = {
    "report": ["report", "--json"],
    "simulate": ["simulate", "--json"],
    "advise": ["advise", "--json"],
    "fit": ["advise", "--json", "--fit", "1GiB"],
}
TABLES = """
import hashlib, sys
import gpumemprof, pyarrow
recording = gpumemprof.load(sys.argv[1])
for name in ("events", "allocations", "segments"):
    table = getattr(recording, name, None)
    if table is not None:
        table = pyarrow.table(table)
        digest = hashlib.sha256(repr(table.to_pydict()).encode()).hexdigest()
        print(name, table.schema.names, table.num_rows, digest)
"""
LIMIT_SECONDS = 300
PARALLEL = 2


def recordings(paths: list[Path]) -> list[Path]:
    found: set[Path] = set()
    for path in paths:
        inside = path.rglob("*") if path.is_dir() else [path]
        found.update(each for each in inside if each.name.endswith(SUFFIXES))
    return sorted(found)


def outputs(binaries: Path, recording: Path) -> dict[str, str]:
    """What one build says of one recording, each output as its exit code and a digest."""
    found = {}
    for name, command in COMMANDS.items():
        found[name] = digest([str(binaries / "gpumemprof"), *command, str(recording)])
    found["tables"] = digest([str(binaries / "python"), "-c", TABLES, str(recording)])
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "out.gmp"
        convert = [str(binaries / "gpumemprof"), "convert", str(recording), str(written)]
        # What it prints names the folder, which is another one each time.
        found["convert"] = digest([*convert, "--to", "gmp"]).split(" ")[1]
        if written.exists():
            found["bytes"] = hashlib.sha256(written.read_bytes()).hexdigest()
    return found


def digest(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS)
    return f"exit {done.returncode} {hashlib.sha256(done.stdout).hexdigest()}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("paths", type=Path, nargs="+")
    options = parser.parse_args()
    files = recordings(options.paths)
    if not files:
        sys.exit("no recording found: name files or folders with .gmp or snapshot files")
    different = 0
    with ThreadPoolExecutor(PARALLEL) as pool:
        before = pool.map(lambda file: outputs(options.before, file), files)
        after = pool.map(lambda file: outputs(options.after, file), files)
        for file, old, new in zip(files, before, after):
            changed = [name for name in old if old[name] != new.get(name)]
            different += bool(changed)
            if changed:
                print(f"{file}: {', '.join(changed)}", flush=True)
    print(f"{len(files)} recordings, {different} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
