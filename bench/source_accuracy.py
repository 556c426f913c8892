"""How well the sources of memory are inferred: a table of errors against what the tensors really held.

usage: python bench/source_accuracy.py FOLDER [--markdown]

The folder holds pairs: NAME.pickle.gz, a PyTorch memory snapshot of a few training steps, and NAME.json, what the
program itself knew: `params` and `buffers` (bytes by storage), and for every step `grads` and `optimizer` and the
allocator's counter `allocated` after each phase. The counters tell where in the history a phase ended: the first event
behind the last such place after which exactly so many bytes are allocated.

For every case the table has the largest error of parameters (with buffers), gradients and optimizer state over all
moments the JSON gives, and the unknown share of the peak.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gpumemprof
import numpy as np
import pyarrow as pa

MOMENTS = ["after_input", "after_forward", "after_backward", "after_step", "after_zero_grad"]
NO_EVENT = np.iinfo(np.int64).max


class Lives(NamedTuple):
    birth: np.ndarray[Any, Any]
    death: np.ndarray[Any, Any]
    block: np.ndarray[Any, Any]
    requested: np.ndarray[Any, Any]
    source: np.ndarray[Any, Any]

    def live_at(self, event: int) -> np.ndarray[Any, Any]:
        """Which rows are allocated after the event."""
        live: np.ndarray[Any, Any] = (self.birth <= event) & (self.death > event)
        return live

    def held(self, event: int, source: str) -> int:
        """Requested bytes of a source after the event."""
        return int(self.requested[self.live_at(event) & (self.source == source)].sum())


def lives_of(recording: gpumemprof.Recording) -> Lives:
    table = pa.table(recording.allocations)

    def numbers(name: str, missing: int) -> np.ndarray[Any, Any]:
        column: np.ndarray[Any, Any] = table[name].fill_null(0).to_numpy().astype(np.int64)
        column[table[name].is_null().to_numpy()] = missing
        return column

    sources = np.asarray(table["source"].combine_chunks().cast(pa.string()).to_pylist())
    return Lives(
        numbers("alloc_event", -1),
        numbers("free_requested_event", NO_EVENT),
        numbers("size_bytes", 0),
        numbers("requested_bytes", 0),
        sources,
    )


def allocated_after_each(lives: Lives, events: int) -> np.ndarray[Any, Any]:
    change = np.zeros(events + 1, dtype=np.int64)
    np.add.at(change, np.maximum(lives.birth, 0), lives.block)
    dies = lives.death != NO_EVENT
    np.subtract.at(change, lives.death[dies], lives.block[dies])
    totals: np.ndarray[Any, Any] = np.cumsum(change[:events])
    return totals


def moments(truth: dict[str, Any], totals: np.ndarray[Any, Any]) -> Iterator[tuple[dict[str, Any], str, int]]:
    """Every moment of the JSON with the event after which it was."""
    at = 0
    for step in truth["steps"]:
        for name in MOMENTS:
            if name not in step:
                continue
            found = np.flatnonzero(totals[at:] == step[name]["allocated"])
            if len(found) == 0:
                raise SystemExit(f"{truth['name']}: no event has the bytes of {name}")
            at += int(found[0])
            yield step, name, at


class Errors(NamedTuple):
    parameters: float
    gradients: float
    optimizer_state: float
    unknown_at_peak: float


def error(found: int, true: int, whole: int) -> float:
    """In percent: of what is true, or of the whole where nothing should be there."""
    return 100.0 * abs(found - true) / (true or whole)


def errors_of(snapshot: Path, truth: dict[str, Any]) -> Errors:
    recording = gpumemprof.load(snapshot)
    device = recording.report()["devices"][0]
    lives = lives_of(recording)
    totals = allocated_after_each(lives, device["events"])
    peak = int(totals.max())
    worst = {"parameters": 0.0, "gradients": 0.0, "optimizer_state": 0.0}

    def compare(source: str, event: int, true: int) -> None:
        worst[source] = max(worst[source], error(lives.held(event, source), true, peak))

    event_of_peak = int(totals.argmax())
    compare("parameters", event_of_peak, truth["params"] + truth["buffers"])
    for step, name, event in moments(truth, totals):
        compare("parameters", event, truth["params"] + truth["buffers"])
        if name in ("after_backward", "after_step"):
            compare("gradients", event, step["grads"])
        if name in ("after_step", "after_zero_grad"):
            compare("optimizer_state", event, step["optimizer"])
        if name == "after_zero_grad" and not truth["spec"].get("zero_first"):
            compare("gradients", event, 0)
    unknown = 100.0 * lives.held(event_of_peak, "unknown") / peak
    return Errors(*worst.values(), unknown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="pairs of NAME.pickle.gz and NAME.json")
    parser.add_argument("--markdown", action="store_true", help="print a table for a document")
    arguments = parser.parse_args()
    left = "| case | parameters | gradients | optimizer state | unknown at the peak |"
    print(left + "\n|---|---|---|---|---|" if arguments.markdown else left.replace("|", " "))
    worst = [0.0] * 4
    for path in sorted(arguments.folder.glob("*.json")):
        truth = json.loads(path.read_text())
        if "params" not in truth or "steps" not in truth:
            continue
        found = errors_of(path.with_suffix("").with_suffix(".pickle.gz"), truth)
        worst = [max(a, b) for a, b in zip(worst, found)]
        print_row(truth["name"], found, arguments.markdown)
    print_row("worst", worst, arguments.markdown)
    return 0


def print_row(name: str, figures: Any, markdown: bool) -> None:
    if markdown:
        print(f"| {name} | " + " | ".join(f"{figure:.2f} %" for figure in figures) + " |")
    else:
        print(f"{name:36s}" + "".join(f"{figure:10.3f} %" for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
