"""count_tests.py FAILED_STEPS FILE...: sums JUnit files; prints a line for each, then the total.

FAILED_STEPS is how many steps of the run failed; a failed step with no failed test (a build, a
fuzzer) still shows in the total. A missing file counts as one failure.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
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


def count_file(path: Path) -> Counts:
    """Count cases instead of trusting the totals, which ctest and pytest fill in differently."""
    if not path.exists():
        return Counts(failed=1)
    passed = failed = skipped = 0
    for case in ElementTree.fromstring(_NO_TEXT.sub(b"", path.read_bytes())).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return Counts(passed, failed, skipped)


def main(failed_steps: int, paths: list[Path]) -> int:
    total = Counts()
    for path in paths:
        counts = count_file(path)
        print(f"{path.stem}: {counts if path.exists() else 'did not run'}")
        total = total.plus(counts)
    total = total._replace(failed=max(total.failed, failed_steps))
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), [Path(name) for name in sys.argv[2:]]))
