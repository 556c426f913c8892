"""Records a program with remedies applied: ``-m gpumemprof.verify.apply REQUEST RUN...``."""

from __future__ import annotations

import sys

from gpumemprof.recorder import run

__all__ = ["main"]


def main(words: list[str]) -> int:
    """Become the program; returns only if that fails."""
    return run.main(words[1:], is_quiet=True, applied=words[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
