"""How well remedies are predicted: the advice for one run against the run that has the remedy.

usage: python bench/advice_accuracy.py FOLDER [--markdown]

The folder holds pairs: NAME.pickle.gz, a PyTorch memory snapshot of a few training steps, and
NAME.json with `spec` (what was run: `model`, `batch`, `seq`, `precision`, `optimizer`, `ckpt`,
`accum`, `alloc_conf`) and for every step the allocator's own peak `peak`. Two cases are a pair
if their specs differ in exactly what a remedy changes. For every pair the table has the predicted
and the true peak of allocated bytes, the error, the band, and whether the truth is within it; the
last lines summarize by the model of the first case.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gpumemprof

Spec = dict[str, Any]
MIB = 1 << 20
DEFAULTS: Spec = {
    "precision": "fp32",
    "optimizer": "adamw",
    "ckpt": False,
    "accum": 1,
    "alloc_conf": "",
    "seq": 512,
    "zero_first": False,
}


class Case(NamedTuple):
    """One run: its settings, and what the allocator's counters reported."""

    path: Path
    spec: Spec
    peak_bytes: int
    peak_reserved_bytes: int


class Pair(NamedTuple):
    """A prediction and the truth."""

    before: Case
    after: Case
    remedy: str
    predicted: int
    low: int
    high: int
    predicted_reserved: int

    @property
    def error_pct(self) -> float:
        return 100 * (self.predicted - self.after.peak_bytes) / self.after.peak_bytes

    @property
    def is_within(self) -> bool:
        return self.low <= self.after.peak_bytes <= self.high


def read_cases(folder: Path) -> Iterator[Case]:
    for path in sorted(folder.glob("*.json")):
        snapshot = path.with_suffix(".pickle.gz")
        facts = json.loads(path.read_text())
        if not isinstance(facts, dict) or not facts.get("steps") or facts.get("oom"):
            continue
        if not snapshot.exists():
            continue
        spec = {**DEFAULTS, **{k: v for k, v in facts["spec"].items() if k != "name"}}
        marks = [step["after_zero_grad"] for step in facts["steps"]]
        yield Case(
            snapshot,
            spec,
            max(mark["peak"] for mark in marks),
            max(mark["peak_reserved"] for mark in marks),
        )


OPTIMIZERS = {
    "sgd": "sgd",
    "sgdm": "sgd_momentum",
    "lion": "lion",
    "adafactor": "adafactor",
    "adamw_loop": "foreach_off",
    "adamw_fused": "fused",
}


def remedy_between(before: Spec, after: Spec) -> str | None:
    """The remedy that turns one run into the other; None if there is none, or more than one."""
    changes = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if len(changes) != 1:
        return None
    key = changes.pop()
    if key == "precision" and before[key] == "fp32":
        return {"amp_bf16": "autocast_bf16", "amp_fp16": "autocast_fp16", "bf16": "pure_bf16"}.get(
            after[key]
        )
    if key == "optimizer":
        # How the optimizer steps is a remedy for Adam only.
        is_stepping = after[key] in ("adamw_loop", "adamw_fused")
        if is_stepping and before[key] != "adamw":
            return None
        return OPTIMIZERS.get(after[key])
    if key == "ckpt" and after[key]:
        return "checkpointing"
    if key == "accum" and (before[key], after[key]) == (1, 4):
        return "accumulate_x4"
    if key == "alloc_conf" and not before[key]:
        return "expandable_segments" if after[key] == "expandable_segments:True" else None
    if key == "batch":
        return {2.0: "batch_x2", 0.5: "batch_x0.5"}.get(after[key] / before[key])
    if key == "seq":
        return {2.0: "sequence_x2", 0.5: "sequence_x0.5"}.get(after[key] / before[key])
    if key == "zero_first" and before[key]:
        return "zero_grad_early"
    return None


def predict(cases: Sequence[Case]) -> Iterator[Pair]:
    for before in cases:
        wanted = [
            (after, name)
            for after in cases
            if (name := remedy_between(before.spec, after.spec)) is not None
        ]
        # No recorded run differs from this one by a single remedy.
        if not wanted:
            continue
        advice = gpumemprof.load(before.path).advise()
        remedies = {entry["name"]: entry for entry in advice["remedies"]}
        for after, name in wanted:
            entry = remedies[name]
            if entry["predicted_peak_allocated_bytes"] is None:
                print(f"{before.path.name}: {name}: {entry['why']}", file=sys.stderr)
                continue
            band = entry["predicted_peak_allocated_band"]
            yield Pair(
                before,
                after,
                name,
                entry["predicted_peak_allocated_bytes"],
                band["low_bytes"],
                band["high_bytes"],
                entry["predicted_peak_reserved_bytes"],
            )


def stem(case: Case) -> str:
    return case.path.name.removesuffix(".pickle.gz")


def print_pairs(pairs: Sequence[Pair], markdown: bool) -> None:
    names = ["from", "to", "remedy", "predicted", "true", "error", "band", "in", "reserved"]
    if markdown:
        print("| " + " | ".join(names) + " |")
        print("|" + "---|" * len(names))
    for pair in pairs:
        reserved = pair.after.peak_reserved_bytes
        cells = [
            stem(pair.before),
            stem(pair.after),
            pair.remedy,
            f"{pair.predicted / MIB:.0f}",
            f"{pair.after.peak_bytes / MIB:.0f}",
            f"{pair.error_pct:+.1f} %",
            f"{pair.low / MIB:.0f} to {pair.high / MIB:.0f}",
            "yes" if pair.is_within else "no",
            f"{100 * (pair.predicted_reserved - reserved) / reserved:+.1f} %",
        ]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args(arguments)
    pairs = list(predict(list(read_cases(options.folder))))
    if not pairs:
        print("no two cases of the folder differ by one remedy", file=sys.stderr)
        return 1
    print_pairs(pairs, options.markdown)
    print()
    groups: dict[str, list[Pair]] = {"all": pairs}
    for pair in pairs:
        groups.setdefault(str(pair.before.spec["model"]), []).append(pair)
        groups.setdefault("from " + stem(pair.before), []).append(pair)
    for name, members in groups.items():
        errors = [abs(pair.error_pct) for pair in members]
        within = sum(pair.is_within for pair in members)
        print(
            f"{name}: {len(members)} pairs, median error {statistics.median(errors):.1f} %, "
            f"worst {max(errors):.1f} %, {within} in the band"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
