"""Runs a program recorded, with remedies applied: ``-m gpumemprof.applied REQUEST RUN'S WORDS``."""

from __future__ import annotations

import sys

from gpumemprof import run

if __name__ == "__main__":
    sys.exit(run.main(sys.argv[2:], is_quiet=True, applied=sys.argv[1]))
