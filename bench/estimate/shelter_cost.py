"""What it costs `gpumemprof estimate` to keep a program's writes from the user's files.

usage: python bench/estimate/shelter_cost.py [--rounds N] [--json]

A program that trains GPT-2, reads a folder of data and saves checkpoints is predicted with each
layer alone and with real writes (`--let-write /`), one after the other in turns, in a folder of its
own. For each layer: the median, over the rounds, of the ratio to real writes in the same
round, with the range of its middle half. The bar is a ratio of 1.05. Needs transformers and a
machine that does nothing else. Layers that the machine does not offer are left out, and said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from prediction_time import ANSWERED, TRAINING, Cost, run

LAYERS = ("overlay", "redirect,landlock", "landlock")
REAL = "real writes"
BAR = 1.05
FILES = 200
PROGRAM = f"""
import os, shutil
for name in sorted(os.listdir("data")):
    with open(os.path.join("data", name), "rb") as file:
        file.read()
{TRAINING}
for step in range(10):
    try:
        torch.save(model.state_dict(), f"step-{{step}}.tmp")
        os.replace(f"step-{{step}}.tmp", "last.pt")
    except (OSError, RuntimeError):  # A program that may write nothing is predicted, too.
        pass
"""


def predict(folder: Path, layer: str) -> Cost | None:
    """None if the machine does not offer the layer."""
    more = ["--let-write", "/"] if layer == REAL else []
    os.environ["GPUMEMPROF_SHELTER"] = "" if layer == REAL else layer
    command = [sys.executable, "-m", "gpumemprof", "estimate", "--gpu", "h200", *more, "train.py"]
    cost = run(command, folder)
    if cost.exit_code == 4 and layer != REAL:
        return None
    if cost.exit_code not in ANSWERED:
        raise SystemExit(f"the prediction with {layer} ended with exit code {cost.exit_code}")
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "data").mkdir()
        for number in range(FILES):
            (folder / "data" / f"{number}.bin").write_bytes(os.urandom(4096))
        (folder / "train.py").write_text(PROGRAM)
        layers = [each for each in LAYERS if predict(folder, each) is not None]
        rounds = []
        for number in range(arguments.rounds):
            turn = [REAL, *layers]
            turn = turn[number % len(turn) :] + turn[: number % len(turn)]
            rounds.append({each: predict(folder, each) for each in turn})
    found = {}
    for layer in layers:
        of_layer = {}
        for what in ("wall_seconds", "processor_seconds"):
            ratios = [getattr(each[layer], what) / getattr(each[REAL], what) for each in rounds]
            lower, median, upper = statistics.quantiles(ratios, n=4)
            of_layer[what] = {"median": median, "middle_half": [lower, upper]}
        found[layer] = of_layer
    if arguments.json:
        print(json.dumps(found))
    else:
        for layer, of_layer in found.items():
            for what, ratio in of_layer.items():
                lower, upper = ratio["middle_half"]
                print(f"{layer:18} {what:18} {ratio['median']:.3f} ({lower:.3f} to {upper:.3f})")
        for layer in set(LAYERS) - set(layers):
            print(f"{layer}: not offered by this machine")
    is_met = all(each["wall_seconds"]["median"] <= BAR for each in found.values())
    sys.exit(0 if is_met and found else 1)


if __name__ == "__main__":
    main()
