"""Memory and disk during a long recording: resident growth over many events, bytes per event.

Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import gpumemprof
import torch
from workloads import make_training


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(pairs: int) -> None:
    folder = Path(tempfile.mkdtemp())
    torch.empty(1000, device="cuda")
    with gpumemprof.record(folder / "loop.gmp") as loop:
        for _ in range(20_000):
            torch.empty(1000, device="cuda")
        before = resident_bytes()
        for _ in range(pairs):
            torch.empty(1000, device="cuda")
        grown = resident_bytes() - before
    step = make_training()
    step()
    with gpumemprof.record(folder / "gpt.gmp") as gpt:
        for _ in range(100):
            step()
    print(
        json.dumps(
            {
                "events": loop.summary["events"],
                "lost": loop.summary["lost_events"],
                "grown_mib": grown / 2**20,
                "gpt_events": gpt.summary["events"],
                "gpt_bytes_per_event": gpt.summary["size_bytes"] / gpt.summary["events"],
                "loop_bytes_per_event": loop.summary["size_bytes"] / loop.summary["events"],
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
