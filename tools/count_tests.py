"""count_tests.py FAILED_STEPS FILE...: sums JUnit files; prints a line for each, then the total.

What failed in X.xml and passed in X-again.xml, where it ran alone, is listed as FLAKY and counts as
passed. FAILED_STEPS is how many steps of the run failed; a failed step with no failed test (a
build, a fuzzer) still shows in the total. A missing file counts as one failure.

count_tests.py --failed FILE: prints a pattern for node of the tests that failed, with those that
they are part of.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Counts(NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text

    def plus(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(self, other)))


# The output of a failed test may contain colour codes, which XML cannot hold.
_NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def _cases(path: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each with its name and what became of it; ctest and pytest fill in totals differently."""
    yield from _cases_in(ElementTree.fromstring(_NO_TEXT.sub(b"", path.read_bytes())), ())


def _cases_in(
    element: ElementTree.Element, names: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str]]:
    for child in element:
        name = child.get("name") or ""
        if child.tag == "testsuite":
            yield from _cases_in(child, (*names, name))
        elif child.tag == "testcase":
            outcome = "passed"
            if child.find("failure") is not None or child.find("error") is not None:
                outcome = "failed"
            elif child.find("skipped") is not None:
                outcome = "skipped"
            yield (*names, child.get("classname") or "", name), outcome


def count_file(path: Path) -> tuple[Counts, list[str]]:
    """Also the names of what was flaky."""
    if not path.exists():
        return Counts(failed=1), []
    again = path.with_name(f"{path.stem}-again.xml")
    passed_again = {
        name for name, outcome in (_cases(again) if again.exists() else ()) if outcome == "passed"
    }
    outcomes = []
    flaky = []
    for name, outcome in _cases(path):
        if outcome == "failed" and name in passed_again:
            flaky.append("::".join(part for part in name if part))
            outcome = "passed"
        outcomes.append(outcome)
    return Counts(*(outcomes.count(one) for one in ("passed", "failed", "skipped"))), flaky


def failed_pattern(path: Path) -> str:
    """For node's --test-name-pattern, which knows a test by its own name alone."""
    failed = [name for name, outcome in _cases(path) if outcome == "failed"]
    names = {part for (*suites, _, name) in failed for part in (*suites, name)}
    return f"^({'|'.join(sorted(map(re.escape, names)))})$" if names else ""


def main(failed_steps: int, paths: list[Path]) -> int:
    total = Counts()
    for path in paths:
        counts, flaky = count_file(path)
        for name in flaky:
            print(f"FLAKY: {name}")
        print(f"{path.stem}: {counts if path.exists() else 'did not run'}")
        total = total.plus(counts)
    total = total._replace(failed=max(total.failed, failed_steps))
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    if sys.argv[1] == "--failed":
        print(failed_pattern(Path(sys.argv[2])))
        sys.exit()
    sys.exit(main(int(sys.argv[1]), [Path(name) for name in sys.argv[2:]]))
