"""Checks the tree: machine-specific paths, package hosts, control characters, odd words, size."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LIMIT_BYTES = 40 * 1024 * 1024

FORBIDDEN = [
    ("a path of one machine", re.compile(r"(?<![\w.])/(?:work|root|home/\w+)/")),
    ("a package host", re.compile(r"\b(?:pypi|pythonhosted|debian|npmjs)\.(?:org|com)\b")),
    (
        "a control character",
        re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\ufeff]"),
    ),
]

# Words that make a reader stop, and what to write instead.
ODD_WORDS = {
    r"lets? go(?: of)?": "freed",
    r"mend(?:s|ed|ing)?": "fix",
    r"dearer|dearest": "more expensive",
    r"at hand": "available",
    r"comes? to lie": "is placed",
    r"hangs? on": "depends on",
    r"none of ours": "ignored",
    r"bug of ours": "internal error",
    r"led through us": "redirected to our hook",
    r"how-manieth": "sequence number",
    r"ha(?:s|ve) no use for": "does not need",
    r"holes beside": "gaps between",
    r"(?:told|tells?) (?:of|as)": "reported (as)",
    r"told apart": "distinguished",
    r"such a file already": "already exists",
    r"what there was": "the available memory",
    r"were not there": "did not fit",
    r"would make of": "would save in",
    r"in sight": "visible",
    r"(?:breaks?|broke) off": "ends, is truncated",
    r"neither included": "both excluded",
}
# This list itself, and its test.
MAY_HOLD_ODD_WORDS = {"tools/check_tree.py", "tests/python/package/test_tools.py"}


def tracked_files(root: Path) -> list[Path]:
    """Tracked files and new ones that git does not ignore."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return [path for name in names.split("\0") if name and (path := root / name).is_file()]


def check_text(name: str, text: str) -> Iterator[str]:
    for number, line in enumerate(text.split("\n"), start=1):
        for what, pattern in FORBIDDEN:
            if match := pattern.search(line):
                yield f"{name}:{number}: {what}: {match[0]!r}"
        if name in MAY_HOLD_ODD_WORDS:
            continue
        for words, instead in ODD_WORDS.items():
            if match := re.search(rf"\b(?:{words})\b", line, re.IGNORECASE):
                yield f"{name}:{number}: {match[0]!r}: write {instead!r}"


def check_tree(root: Path) -> Iterator[str]:
    total = 0
    for path in tracked_files(root):
        name = str(path.relative_to(root))
        data = path.read_bytes()
        total += len(data)
        # Recordings and fuzz seeds are data and may contain any bytes.
        if name.startswith(
            ("tests/data/", "fuzz/corpus/", "fuzz/seeds/", "python/gpumemprof/data/")
        ):
            continue
        try:
            yield from check_text(name, data.decode("utf-8"))
        except UnicodeDecodeError:
            if path.suffix not in {".png", ".gz", ".xz", ".gmp", ".ico", ".woff2"}:
                yield f"{name}: not UTF-8 text"
    if total > LIMIT_BYTES:
        yield f"the tree holds {total / 2**20:.1f} MiB; the limit is {LIMIT_BYTES / 2**20:.0f} MiB"


def main(root: Path) -> int:
    problems = list(check_tree(root))
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
