"""How exact predictions of recorded training runs are, against what the allocator counted.

usage: python bench/estimate/training_runs.py RECORDINGS PROGRAM [--only NAME...] [--python PYTHON]

RECORDINGS has a NAME.json for each run, with its `spec`, and the counters of each step and at the
end. PROGRAM trains as a spec says: `PROGRAM SPEC.json FOLDER`. It is predicted for its three steps;
the table has both true peaks and the errors.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# What peaks may be off, in percent, and how many of them may be off by more than the first.
ALLOCATED_PCT = 0.1
RESERVED_PCT, MOST_RESERVED_PCT, RESERVED_EXCEPTIONS = 1.0, 5.0, 3
STEPS = 3


def predicted(python: str, program: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """The verdict of `estimate`, or what it printed last."""
    environment = dict(os.environ)
    if spec.get("alloc_conf"):
        environment["PYTORCH_CUDA_ALLOC_CONF"] = spec["alloc_conf"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spec.json"
        path.write_text(json.dumps({**spec, "record": False}))
        command = [python, "-m", "gpumemprof", "estimate", "--json", "--gpu", "h200"]
        command += ["--steps", str(STEPS), str(program), str(path), folder]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
        )
    if done.returncode not in (0, 1):
        return {"failed": (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]}
    return dict(json.loads(done.stdout)["verdict"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("program", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    errors: dict[str, tuple[float, float]] = {}
    failed = 0
    for path in sorted(options.recordings.glob("*.json")):
        if options.only and path.stem not in options.only:
            continue
        truth = json.loads(path.read_text())
        verdict = predicted(options.python, options.program.resolve(), truth["spec"])
        if "failed" in verdict:
            print(f"{path.stem}: {verdict['failed']}", flush=True)
            failed += 1
            continue
        peaks = [mark for step in truth["steps"] for mark in step.values() if type(mark) is dict]
        true_peaks = (
            max([mark["peak"] for mark in peaks] + [truth["stats"]["allocated_bytes.all.peak"]]),
            truth["stats"]["reserved_bytes.all.peak"],
        )
        found = (verdict["peak_allocated_bytes"], verdict["peak_reserved_bytes"])
        off = [100 * (one - other) / other for one, other in zip(found, true_peaks)]
        errors[path.stem] = (off[0], off[1])
        print(f"{path.stem:40} {off[0]:+.3f} % allocated, {off[1]:+.3f} % reserved", flush=True)
    exact = sum(abs(one) <= ALLOCATED_PCT for one, _ in errors.values())
    near = sum(abs(other) <= RESERVED_PCT for _, other in errors.values())
    worst = max((abs(other) for _, other in errors.values()), default=0.0)
    print(
        f"{len(errors)} runs: allocated within {ALLOCATED_PCT} % in {exact}; reserved within "
        f"{RESERVED_PCT} % in {near}, at worst {worst:.3f} % off"
    )
    is_met = exact == len(errors) and near >= len(errors) - RESERVED_EXCEPTIONS
    return 0 if errors and not failed and is_met and worst <= MOST_RESERVED_PCT else 1


if __name__ == "__main__":
    sys.exit(main())
