"""How well a run that ran out of memory is completed: recorded runs, cut, against the whole run.

usage: python bench/advice_completion.py FOLDER [--markdown]

The folder holds PyTorch memory snapshots of a few training steps, NAME.pickle.gz, and NAME.json
with the counters of each step. Every run is cut at several requests of every step, as a smaller
memory would have ended it, and advised. If the advice completes it, the completed peak is compared
with the recorded peak, and every remedy with its prediction for the whole run. If not, every figure
must be a lower bound and every fit must be refused. Snapshots are unpickled: use only your own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gpumemprof
from cut_snapshot import Snapshot

PARTS = (0.05, 0.3, 0.5, 0.7, 0.95)  # of a step's events


class Cut(NamedTuple):
    """One truncated run."""

    name: str
    step: int
    phase: str
    peak_error_pct: float | None  # None: not completed
    worst_remedy_pct: float | None
    is_in_band: bool  # the recorded peak, or the lower bounds
    is_refused: bool


def compare(name: str, cut: gpumemprof.Recording, whole: dict[str, Any], where: Any) -> Cut:
    step, phase = where
    peak = whole["baseline"]["peak_allocated_bytes"]
    predicted = {
        entry["name"]: entry["predicted_peak_allocated_bytes"]
        for entry in whole["remedies"]
        if entry["predicted_peak_allocated_bytes"] is not None
    }
    advice = cut.advise(fit=peak // 2)
    refused = advice["fit"]["refusal"] is not None
    if advice["completed"] is None:
        bounds = [
            entry["at_least_peak_allocated_bytes"] or 0
            for entry in advice["remedies"]
            if entry["name"] in predicted
        ]
        truths = [predicted[e["name"]] for e in advice["remedies"] if e["name"] in predicted]
        is_bound = all(bound <= 1.01 * truth for bound, truth in zip(bounds, truths))
        return Cut(name, step, phase, None, None, is_bound, refused)
    completed = advice["completed"]["peak_allocated_bytes"]
    errors = []
    is_in_band = True
    for entry in advice["remedies"]:
        truth = predicted.get(entry["name"])
        if truth is None or entry["predicted_peak_allocated_bytes"] is None:
            continue
        errors.append(100 * (entry["predicted_peak_allocated_bytes"] - truth) / truth)
        band = entry["predicted_peak_allocated_band"]
        is_in_band = is_in_band and band["low_bytes"] <= truth <= band["high_bytes"]
    worst = max(errors, key=abs, default=0.0)
    return Cut(name, step, phase, 100 * (completed - peak) / peak, worst, is_in_band, refused)


def phases_of(whole: gpumemprof.Recording) -> list[dict[str, Any]]:
    steps = whole.report(top=0)["devices"][0]["steps"]
    return [step for step in steps if step["step"] > 0]


def cuts_of(path: Path, folder: Path, parts: Sequence[float] = PARTS) -> Iterator[Cut]:
    snapshot = Snapshot(path)
    whole = gpumemprof.load(path)
    advice = whole.advise()
    out = folder / "cut.pickle.gz"
    for step in phases_of(whole):
        for phase in step["phases"]:
            if phase["phase"] == "other":
                continue
            length = phase["last_event"] - phase["first_event"] + 1
            if length < 2 * len(parts):
                continue
            for part in parts:
                event = phase["first_event"] + int(part * length)
                try:
                    snapshot.cut(event, out)
                except IndexError:  # no request follows
                    continue
                where = (step["step"], phase["phase"])
                yield compare(path.name, gpumemprof.load(out), advice, where)


def show(cuts: Sequence[Cut], markdown: bool) -> None:
    names = ["run", "cut in", "cuts", "completed", "peak, worst", "remedies, worst", "right"]
    if markdown:
        print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    groups: dict[tuple[str, str], list[Cut]] = {}
    for cut in cuts:
        kind = f"step 1, {cut.phase}" if cut.step == 1 else "a later step"
        groups.setdefault((cut.name.removesuffix(".pickle.gz"), kind), []).append(cut)
    for (name, kind), members in groups.items():
        done = [cut for cut in members if cut.peak_error_pct is not None]
        peak = max((cut.peak_error_pct or 0.0 for cut in done), key=abs, default=None)
        worst = max((cut.worst_remedy_pct or 0.0 for cut in done), key=abs, default=None)
        right = all(cut.is_in_band and cut.is_refused == (cut not in done) for cut in members)
        cells = [
            *(name, kind, str(len(members)), str(len(done))),
            "at least" if peak is None else f"{peak:+.1f} %",
            "refused" if worst is None else f"{worst:+.1f} %",
            "yes" if right else "no",
        ]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells), flush=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    all_cuts: list[Cut] = []
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(options.folder.glob("*.json")):
            facts = json.loads(path.read_text())
            snapshot = path.with_suffix(".pickle.gz")
            if not snapshot.exists() or not facts.get("steps") or facts.get("oom"):
                continue
            all_cuts += cuts_of(snapshot, Path(folder))
    if not all_cuts:
        print("the folder holds no training runs", file=sys.stderr)
        return 1
    show(all_cuts, options.markdown)
    done = [cut for cut in all_cuts if cut.peak_error_pct is not None]
    errors = sorted(abs(cut.peak_error_pct or 0.0) for cut in done)
    right = sum(
        cut.is_in_band and cut.is_refused == (cut.peak_error_pct is None) for cut in all_cuts
    )
    median, worst = (errors[len(errors) // 2], errors[-1]) if errors else (0.0, 0.0)
    print(
        f"\n{len(all_cuts)} cuts, {len(done)} completed: median error {median:.1f} %, "
        f"worst {worst:.1f} %; {right} right"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
