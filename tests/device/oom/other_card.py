"""A machine with one card: its recording is moved to a second one, which ran out of memory.

Only the reading is tested like this; which card torch names in its error is torch's own.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path


def problems(recording: Path) -> list[str]:
    """What the moved recording does not say."""
    moved = recording.with_name("moved.pickle")
    convert = [sys.executable, "-m", "gpumemprof", "convert", str(recording), str(moved)]
    done = subprocess.run([*convert, "--to", "torch-snapshot"], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"cannot be moved to a second card: {done.stderr[-300:]}"]
    snapshot = pickle.loads(moved.read_bytes())
    traces = snapshot["device_traces"]
    if sum(map(bool, traces)) == 1 and not any(traces[1:]):
        snapshot["device_traces"] = [[], traces[0]]
        for segment in snapshot["segments"]:
            segment["device"] = 1
        moved.write_bytes(pickle.dumps(snapshot))
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", "report", str(moved)], capture_output=True, text=True
    )
    text = " ".join(done.stdout.split())
    is_named = "cuda:1" in text and "limit on this process refused" in text
    return [] if is_named else [f"of a second card, the report begins: {text[:600]}"]
