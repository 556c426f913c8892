"""Adds the truth of a blind set to the data, and prints its table for docs/accuracy.md.

usage: python bench/estimate/judge_blind.py SET TRUTH

First, on the machine with the GPU, predictions before any program runs, then the truth:

    python bench/estimate_accuracy.py --set SET --jobs 15 \\
        --save tests/data/estimate/SET_predictions.json
    python tests/device/estimate_truth.py --set SET --out truth

SET is a list of names beside tests/device/estimate_programs/index.json, such as blind_eight, and
TRUTH the file truth/truth.json. Texts that programs printed are cut before the first path of that
machine. `bench/estimate_accuracy.py --set SET --predictions FILE` then says whether bars are met.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "estimate"
sys.path.insert(0, str(ROOT / "tests" / "device"))

from estimate_programs.read_index import read_index  # noqa: E402


def without_paths(facts: dict[str, Any]) -> dict[str, Any]:
    if "output" not in facts:
        return facts
    lines = facts["output"].splitlines(keepends=True)
    end = next((at for at, line in enumerate(lines) if "/" in line and ".py" in line), len(lines))
    return {**facts, "output": "".join(lines[:end])}


def merge(path: Path) -> dict[str, Any]:
    known = json.loads((DATA / "truth.json").read_text())
    found = json.loads(path.read_text())
    for name in ("torch", "gpu"):
        if known[name] != found[name]:
            sys.exit(f"{path} was made with {name} {found[name]}, the data with {known[name]}.")
    known["programs"].update(
        {name: without_paths(facts) for name, facts in found["programs"].items()}
    )
    (DATA / "truth.json").write_text(json.dumps(known, indent=1) + "\n")
    programs: dict[str, Any] = known["programs"]
    return programs


def cells(prediction: dict[str, Any], truth: dict[str, Any]) -> Iterator[str]:
    for which in ("allocated", "reserved"):
        if truth["exit_code"] != 0:
            yield from ("\u2013", "failed on the GPU")
            continue
        true = truth[f"peak_{which}_bytes"]
        if "failed" in prediction:
            yield from (f"{true / 2**30:.3f} GiB", "not predicted")
            continue
        error = f"{100 * (prediction[f'peak_{which}_bytes'] - true) / true:+.3f} %"
        error = error.replace("+0.000", "0.000").replace("-0.000", "0.000")
        band = prediction["bands"][f"peak_{which}"]
        is_within = band["low_bytes"] <= true <= band["high_bytes"]
        yield from (f"{true / 2**30:.3f} GiB", error if is_within else f"{error} *")


def main() -> int:
    if len(sys.argv) != 3:
        sys.exit(f"usage: {__doc__.split('usage: ')[1].splitlines()[0]}")
    part, path = sys.argv[1], Path(sys.argv[2])
    predictions = json.loads((DATA / f"{part}_predictions.json").read_text())
    truths = merge(path)
    print("| program | kind | allocated | blind | reserved | blind |\n|---|---|---|---|---|---|")
    for program in sorted(read_index(part), key=lambda each: each["name"]):
        name = program["name"]
        if name not in predictions or name not in truths:
            sys.exit(f"{name} has no prediction or no truth.")
        row = [name, program["kind"], *cells(predictions[name], truths[name])]
        print("| " + " | ".join(row) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
