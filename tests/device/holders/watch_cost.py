"""On a GPU: what watching for leaks adds to a training step, and whether a leak's holder is found.

python tests/device/holders/watch_cost.py [SECONDS] prints one line of JSON; about 90 s by default.
It is the benchmark of the same name, which describes the figures.
"""

from __future__ import annotations

import runpy
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parents[3]
    runpy.run_path(str(root / "bench" / "holders" / "watch_cost.py"), run_name="__main__")
