"""How well the sources of memory are inferred: errors against what the tensors really held.

usage: python bench/source_accuracy.py FOLDER [--cut PART] [--without-stacks]

The folder holds pairs: NAME.pickle.gz, a PyTorch memory snapshot of a few training steps with its
history from the start, and NAME.json, what the program itself knew: `params` and `buffers` (bytes
by storage), and for every step `grads` and `optimizer` and the allocator's counter `allocated`
after each phase. The counters show where in the history a phase ended: at the first event after the
previous phase that leaves exactly this many bytes allocated.

For every case the table has the largest error of parameters (with buffers), gradients and optimizer
state over all moments in the JSON, and the unknown share of the peak. --cut drops this part of the
history from its beginning, as a full ring buffer does, and the stacks of the blocks listed at the
end; --without-stacks drops all stacks.
"""

from __future__ import annotations

import argparse
import gzip
import json
import pickle
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gpumemprof
import numpy as np
import pyarrow as pa

MOMENTS = ["after_input", "after_forward", "after_backward", "after_step", "after_zero_grad"]
NO_EVENT = np.iinfo(np.int64).max

Numbers = Any  # numpy arrays: their types cannot be spelled for all versions
Json = dict[str, Any]


class Lives(NamedTuple):
    """The allocations of a recording: lifetimes, bytes and sources."""

    birth: Numbers
    death: Numbers
    block: Numbers
    requested: Numbers
    source: Numbers

    def held(self, event: int, source: str) -> int:
        """Requested bytes of a source after the event."""
        is_live = (self.birth <= event) & (self.death > event)
        return int(self.requested[is_live & (self.source == source)].sum())


def lives_of(recording: gpumemprof.Recording) -> Lives:
    table = pa.table(recording.allocations)

    def numbers(name: str, missing: int) -> Numbers:
        column = table[name].fill_null(0).to_numpy().astype(np.int64)
        column[table[name].is_null().to_numpy()] = missing
        return column

    sources = np.asarray(table["source"].combine_chunks().cast(pa.string()).to_pylist())
    birth, death = numbers("alloc_event", -1), numbers("free_requested_event", NO_EVENT)
    return Lives(birth, death, numbers("size_bytes", 0), numbers("requested_bytes", 0), sources)


def allocated_after_each(lives: Lives, events: int) -> Numbers:
    change = np.zeros(events + 1, dtype=np.int64)
    np.add.at(change, np.maximum(lives.birth, 0), lives.block)
    dies = lives.death != NO_EVENT
    np.subtract.at(change, lives.death[dies], lives.block[dies])
    return np.cumsum(change[:events])


def moments(truth: Json, totals: Numbers) -> Iterator[tuple[Json, str, int]]:
    """Every moment in the JSON with the event after which it occurred."""
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


def impoverished(snapshot: Path, out: Path, part: float, has_stacks: bool) -> int:
    """Write the snapshot with less information; returns how many events were cut off."""
    with gzip.open(snapshot) as file:
        content = pickle.load(file)
    trace = max(content["device_traces"], key=len)
    cut = int(len(trace) * part)
    del trace[:cut]
    if not has_stacks:
        for event in trace:
            event["frames"] = []
    for segment in content["segments"]:
        segment["frames"] = []
        for block in segment["blocks"]:
            block["frames"] = []
    out.write_bytes(pickle.dumps(content))
    return cut


class Errors(NamedTuple):
    """In percent."""

    parameters: float
    gradients: float
    optimizer_state: float
    unknown_at_peak: float


def error(found: int, true: int, whole: int) -> float:
    """The error in percent of the true value, or of the whole if the true value is 0."""
    return 100.0 * abs(found - true) / (true or whole)


def errors_of(snapshot: Path, truth: Json, part: float, has_stacks: bool) -> Errors:
    recording = gpumemprof.load(snapshot)
    lives = lives_of(recording)
    totals = allocated_after_each(lives, recording.report()["devices"][0]["events"])
    found = list(moments(truth, totals))
    peak_bytes, peak_event, cut = int(totals.max()), int(totals.argmax()), 0
    if part > 0 or not has_stacks:
        with tempfile.TemporaryDirectory() as folder:
            poorer = Path(folder) / "poorer.pickle"
            cut = impoverished(snapshot, poorer, part, has_stacks)
            lives = lives_of(gpumemprof.load(poorer))
    worst = {"parameters": 0.0, "gradients": 0.0, "optimizer_state": 0.0}

    def compare(source: str, event: int, true: int) -> None:
        if event >= cut:
            held = lives.held(event - cut, source)
            worst[source] = max(worst[source], error(held, true, peak_bytes))

    compare("parameters", peak_event, truth["params"] + truth["buffers"])
    for step, name, event in found:
        compare("parameters", event, truth["params"] + truth["buffers"])
        if name in ("after_backward", "after_step"):
            compare("gradients", event, step["grads"])
        if name in ("after_step", "after_zero_grad"):
            compare("optimizer_state", event, step["optimizer"])
        if name == "after_zero_grad" and not truth["spec"].get("zero_first"):
            compare("gradients", event, 0)
    unknown = lives.held(max(peak_event - cut, 0), "unknown")
    return Errors(*worst.values(), 100.0 * unknown / peak_bytes)


def print_row(name: str, figures: Sequence[float]) -> None:
    print(f"| {name} | " + " | ".join(f"{figure:.3f} %" for figure in figures) + " |")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="pairs of NAME.pickle.gz and NAME.json")
    parser.add_argument("--cut", type=float, default=0.0, metavar="PART", help="from 0 to 1")
    parser.add_argument("--without-stacks", action="store_true")
    arguments = parser.parse_args()
    print("| case | parameters | gradients | optimizer state | unknown at the peak |")
    print("|---|---|---|---|---|")
    worst = [0.0] * len(Errors._fields)
    for path in sorted(arguments.folder.glob("*.json")):
        truth = json.loads(path.read_text())
        if "params" not in truth or "steps" not in truth:
            continue
        snapshot = path.with_name(path.stem + ".pickle.gz")
        errors = errors_of(snapshot, truth, arguments.cut, not arguments.without_stacks)
        worst = [max(pair) for pair in zip(worst, errors)]
        print_row(truth["name"], errors)
    print_row("worst", worst)
    return 0


if __name__ == "__main__":
    sys.exit(main())
