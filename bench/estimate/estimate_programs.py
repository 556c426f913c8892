"""The whole programs by which `gpumemprof estimate` is judged, and what is known of each.

usage: python bench/estimate/estimate_programs.py list [--set SET]
       python bench/estimate/estimate_programs.py unpack FOLDER [--set SET] [--only NAME...]
       python bench/estimate/estimate_programs.py add SET FOLDER
       python bench/estimate/estimate_programs.py record FILE...

tests/data/estimate/programs.json has for each program its `path`, `kind`, `set` ("open", or the
blind test that it was written for), `tiny` (arguments for a small run on the CPU), what it `needs`
beside torch, `limit_seconds` where it runs for long on the GPU, its `truth` (peaks on the GPU), and
the `prediction` that was saved before the truth was recorded. Some programs are files in `programs`
beside it, for people to read; the others are in programs.tar.xz. Both have the same paths when
unpacked. Texts were recorded when all of them lay in tests/device/estimate_programs.

`add` takes new programs from a folder: its programs.json says for each name its path in the folder,
kind, tiny and perhaps limit_seconds. A program without a truth may be added again, to correct it.
`record` takes what `bench/estimate_accuracy.py --save` wrote, which is refused once the truth is
known, or the truth.json of `tests/device/estimate_truth.py`. So a blind test is, in this order:

    python bench/estimate/estimate_programs.py add blind_ten FOLDER
    python bench/estimate_accuracy.py --set blind_ten --save predictions.json
    python tests/device/estimate_truth.py --set blind_ten --out truth
    python bench/estimate/estimate_programs.py record predictions.json truth/truth.json
    python bench/estimate_accuracy.py --set blind_ten --saved
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import lzma
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "estimate"
MANIFEST = DATA / "programs.json"
ARCHIVE = DATA / "programs.tar.xz"
READABLE = DATA / "programs"
# What is measured has a line of its own in the manifest.
MEASURED = ("truth", "prediction")

Program = dict[str, Any]


def read_manifest() -> dict[str, Any]:
    """What the truth was recorded with, and `programs`, by name."""
    manifest: dict[str, Any] = json.loads(MANIFEST.read_text())
    return manifest


def sets() -> list[str]:
    return list(dict.fromkeys(facts["set"] for facts in read_manifest()["programs"].values()))


def read_programs(part: str, only: Sequence[str] = ()) -> list[Program]:
    """The programs of a set, or of all, with their names; `only` chooses by name instead."""
    programs = read_manifest()["programs"]
    if unknown := set(only) - set(programs):
        sys.exit(f"There is no program {min(unknown)!r} in {MANIFEST}.")
    return [
        {"name": name, **facts}
        for name, facts in programs.items()
        if (name in only if only else part in ("all", facts["set"]))
    ]


def read_archive() -> dict[str, bytes]:
    """The sources in the archive, by path."""
    with tarfile.open(ARCHIVE, "r:xz") as archive:
        return {
            member.name: file.read()
            for member in archive.getmembers()
            if (file := archive.extractfile(member)) is not None
        }


def packed(sources: dict[str, bytes]) -> bytes:
    """An archive that is the same to the byte for the same sources."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, source in sorted(sources.items()):
            member = tarfile.TarInfo(path)
            member.size = len(source)
            archive.addfile(member, io.BytesIO(source))
    return lzma.compress(tar.getvalue(), preset=9)


def unpack(programs: Sequence[Program], folder: Path) -> None:
    """Writes each program to its path below the folder."""
    archived = read_archive()
    for program in programs:
        path = program["path"]
        readable = READABLE / path
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(readable.read_bytes() if readable.exists() else archived[path])


@contextmanager
def unpacked(programs: Sequence[Program]) -> Iterator[Path]:
    """A temporary folder with the programs."""
    with tempfile.TemporaryDirectory(prefix="estimate-programs-") as folder:
        unpack(programs, Path(folder))
        yield Path(folder)


def needs(source: bytes) -> list[str]:
    """The packages that a program imports, without torch and Python's own."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return sorted({name.split(".")[0] for name in found} - sys.stdlib_module_names - {"torch"})


def entry(name: str, facts: Program) -> str:
    said = json.dumps({key: value for key, value in facts.items() if key not in MEASURED})
    measured = [f'"{key}": {json.dumps(facts[key])}' for key in MEASURED if key in facts]
    return f"  {json.dumps(name)}: " + ",\n   ".join([said[:-1], *measured]) + "}"


def manifest_text(manifest: dict[str, Any]) -> str:
    entries = ",\n".join(entry(name, facts) for name, facts in manifest["programs"].items())
    head = json.dumps({**manifest, "programs": {}}, indent=1).removesuffix("{}\n}")
    return f"{head}{{\n{entries}\n }}\n}}\n"


def add(part: str, folder: Path) -> None:
    manifest, sources = read_manifest(), read_archive()
    found: dict[str, Program] = json.loads((folder / "programs.json").read_text())
    for name, facts in found.items():
        if "truth" in manifest["programs"].get(name, {}):
            sys.exit(f"The truth of {name} is recorded, so it stays as it is.")
        source = (folder / facts["path"]).read_bytes()
        path = f"{part}/{facts['path']}"
        sources.pop(manifest["programs"].get(name, {}).get("path"), None)
        sources[path] = source
        said = {"path": path, "kind": facts["kind"], "set": part, "tiny": facts["tiny"]}
        limit = {key: facts[key] for key in ("limit_seconds",) if key in facts}
        manifest["programs"][name] = {**said, **limit, "needs": needs(source)}
    ARCHIVE.write_bytes(packed(sources))
    MANIFEST.write_text(manifest_text(manifest))
    print(f"{len(found)} programs added to {part}")


def without_paths(truth: dict[str, Any]) -> dict[str, Any]:
    """Cuts what the program printed before the first path of the machine that it ran on."""
    lines = truth.get("output", "").splitlines(keepends=True)
    end = next((at for at, line in enumerate(lines) if "/" in line and ".py" in line), len(lines))
    return {**truth, "output": "".join(lines[:end])}


def record(path: Path) -> None:
    manifest, found = read_manifest(), json.loads(path.read_text())
    if (is_truth := "programs" in found) and found["torch"] != manifest["torch"]:
        sys.exit(f"{path} was made with torch {found['torch']}, the data with {manifest['torch']}.")
    if is_truth and found["gpu"] != manifest["gpu"]:
        sys.exit(f"{path} was made on {found['gpu']}, the data on {manifest['gpu']}.")
    for name, facts in (found["programs"] if is_truth else found).items():
        program = manifest["programs"][name]
        if is_truth:
            known = {key: facts[key] for key in facts if key not in ("kind", "set")}
            program["truth"] = without_paths(known)
        elif "truth" in program:
            sys.exit(f"The truth of {name} is recorded, so this prediction of it is not blind.")
        else:
            program["prediction"] = facts
    MANIFEST.write_text(manifest_text(manifest))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("list", "unpack"):
        chosen = verbs.add_parser(verb)
        if verb == "unpack":
            chosen.add_argument("folder", type=Path)
            chosen.add_argument("--only", nargs="*", default=[], metavar="NAME")
        chosen.add_argument("--set", choices=[*sets(), "all"], default="all")
    adding = verbs.add_parser("add")
    adding.add_argument("set")
    adding.add_argument("folder", type=Path)
    verbs.add_parser("record").add_argument("files", type=Path, nargs="+")
    options = parser.parse_args()
    if options.verb == "list":
        for program in read_programs(options.set):
            cells = [program["name"], program["set"], program["kind"], *program["needs"]]
            print("  ".join(cells))
    elif options.verb == "unpack":
        unpack(read_programs(options.set, options.only), options.folder)
    elif options.verb == "add":
        add(options.set, options.folder)
    else:
        for path in options.files:
            record(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
