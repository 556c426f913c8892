"""Checks that the binary interface of libgpumemprof changes only together with its version.

include/gpumemprof/abi.txt lists every function, struct and constant of the C headers, and the
version that they belong to. `tools/check_abi.py --update` writes it for a new version; the listing
of a version that was committed is never another one.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

LISTING = Path("include/gpumemprof/abi.txt")

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_PREPROCESSOR = re.compile(r"^[ \t]*#(?!define GPUMEMPROF_[A-Z0-9_]+ \S).*?(?<!\\)$", re.MULTILINE)
_BLOCK = re.compile(r'^extern "C" \{$|^\}$', re.MULTILINE)
_FUNCTION = re.compile(r"\b(gpumemprof_\w+)\(")


def declarations(text: str) -> list[str]:
    """Each declaration of a C header on a line, without comments."""
    text = _BLOCK.sub("", _PREPROCESSOR.sub("", _COMMENT.sub("", text)))
    constants = re.findall(r"^#define (.+)$", text, re.MULTILINE)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    found = [f"constant {line.strip()}" for line in constants if "GPUMEMPROF_API" not in line]
    depth = 0
    current = ""
    for character in text:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == ";" and depth == 0:
            line = " ".join(current.replace("GPUMEMPROF_API", "").split())
            found.append(line.replace("( ", "("))
            current = ""
        else:
            current += character
    return found


def current_listing(root: Path) -> list[str]:
    """What the headers declare now."""
    headers = [
        *root.glob("include/gpumemprof/gpumemprof.h"),
        *root.glob("include/gpumemprof/c/*.h"),
    ]
    lines = (line for header in headers for line in declarations(header.read_text()))
    return sorted(set(lines))


def function_names(listing: list[str]) -> set[str]:
    """The functions among the lines of a listing."""
    found = (_FUNCTION.search(line) for line in listing if not line.startswith("typedef"))
    return {match[1] for match in found if match}


def committed_listing(root: Path) -> list[str]:
    """The lines of the last commit; none where there is no such file, or no repository."""
    words = ["git", "show", f"HEAD:./{LISTING}"]
    return subprocess.run(words, cwd=root, capture_output=True, text=True).stdout.splitlines()


def check(root: Path) -> list[str]:
    """What is wrong; nothing where the listing is that of the headers."""
    path = root / LISTING
    version = (root / "VERSION").read_text().strip()
    if not path.exists():
        return [f"{LISTING} is missing; write it with tools/check_abi.py --update"]
    kept_version, *kept = path.read_text().splitlines()
    committed = committed_listing(root)
    if committed[:1] == [kept_version] and committed[1:] != kept:
        return [f"{LISTING} changed, but still belongs to {version}: raise VERSION"]
    now = current_listing(root)
    problems = [f"{LISTING}: gone or changed: {line}" for line in kept if line not in now]
    problems += [f"{LISTING}: new: {line}" for line in now if line not in kept]
    if problems and version == kept_version:
        problems.append(
            f"The interface of {version} changed: raise VERSION (its last number if it only"
            " grew) and run tools/check_abi.py --update."
        )
    elif problems or version != kept_version:
        problems.append("Run tools/check_abi.py --update.")
    return problems


def update(root: Path) -> list[str]:
    """Write the listing; refused where the version is still the same."""
    path = root / LISTING
    version = (root / "VERSION").read_text().strip()
    now = current_listing(root)
    if path.exists():
        kept_version, *kept = path.read_text().splitlines()
        if kept_version == version and kept != now:
            return [f"{LISTING} belongs to {version}, as VERSION does; raise VERSION first"]
    path.write_text("\n".join([version, *now]) + "\n")
    return []


def main(root: Path, words: list[str]) -> int:
    problems = update(root) if words == ["--update"] else check(root)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent, sys.argv[1:]))
