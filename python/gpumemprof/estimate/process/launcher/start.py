"""Becomes a program that is predicted: ``start.py ORDER RUN...``.

As a script, not with ``python -m``: that would put the current folder first on the path, so any
file there with the name of a standard module would run.
"""

import json
import sys
from pathlib import Path

# Where this package is, in case it was found through the current folder.
_PACKAGES = str(Path(__file__).resolve().parents[4])
if _PACKAGES not in sys.path:
    sys.path.append(_PACKAGES)

from gpumemprof.estimate.shelter.enter import enter  # noqa: E402
from gpumemprof.recorder import run  # noqa: E402

if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    enter(order["shelter"])
    sys.exit(
        run.main(sys.argv[2:], is_quiet=True, applied=order["applied"], estimate=order["estimate"])
    )
