"""How exact predictions are: `gpumemprof estimate` of whole programs against a GPU's counters.

usage: python bench/estimate_accuracy.py [--set open|blind|...|blind_nine|all]
                                         [--only NAME...]
                                         [--save FILE | --saved | --predictions FILE] [--markdown]

The programs and their truth, the peaks that the allocator counted on the GPU, are in
tests/data/estimate; bench/estimate/estimate_programs.py says how, and how programs are added. For
every program the table has both true peaks, the errors of the prediction, whether each truth is
within its band, and the seconds; then a summary by kind of program and of the whole. The
last lines say whether the bars are met, programs that are not predicted counted as misses; so does
the exit code. A program that failed on the GPU is listed apart and not judged: its peaks are those
of a run that ended early, which nobody predicted.

`--save` keeps the predictions. `--predictions` compares those of such a file instead of predicting
again, and `--saved` those of the blind tests, which were recorded before the truth.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent / "estimate"))

from estimate_programs import read_programs, sets, unpacked

# What a prediction may be off, as a share of the truth: of half and of 95 % of all programs.
BARS = {"allocated": (0.1, 2.0), "reserved": (0.5, 5.0)}
# A verdict other than "fits" is an answer, not a failure.
ANSWERED = (0, 1)


class Figure(NamedTuple):
    """One of the two peaks of a program: predicted and true."""

    predicted: int
    low: int
    high: int
    truth: int

    @property
    def error_pct(self) -> float:
        return 100 * (self.predicted - self.truth) / self.truth

    @property
    def is_within(self) -> bool:
        return self.low <= self.truth <= self.high


class Row(NamedTuple):
    """A program whose prediction and truth are both known."""

    name: str
    kind: str
    part: str  # "open", or the name of a blind set
    allocated: Figure
    reserved: Figure
    seconds: float


def predict(program: dict[str, Any], folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The head of the prediction's JSON, or `failed` with the sentence that was printed."""
    command = [options.python, "-m", "gpumemprof", "estimate", "--json"]
    command += ["--gpu", options.gpu, "--steps", "all", "--limit", str(options.limit)]
    command.append(program["path"])
    started = time.perf_counter()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=2 * options.limit,
            cwd=folder,  # so that sentences name programs alike wherever they were unpacked
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"no answer after {2 * options.limit} s"}
    seconds = time.perf_counter() - started
    if done.returncode not in ANSWERED:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"failed": lines[-1] if lines else f"exit code {done.returncode}"}
    report = json.loads(done.stdout)
    return {
        "peak_allocated_bytes": report["verdict"]["peak_allocated_bytes"],
        "peak_reserved_bytes": report["verdict"]["peak_reserved_bytes"],
        "verdict": report["verdict"]["answer"],
        "bands": report["bands"],
        "assumptions": len(report["assumptions"]),
        "ended": report["ended"],
        "seconds": round(seconds, 1),
    }


def predict_all(
    programs: Sequence[dict[str, Any]], options: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    predictions: dict[str, dict[str, Any]] = {}

    def answer(program: dict[str, Any]) -> None:
        prediction = predict(program, folder, options)
        print(f"{program['name']}: {prediction.get('failed', 'predicted')}", file=sys.stderr)
        predictions[program["name"]] = prediction
        # After every program, so that a run that is stopped keeps what it has.
        if options.save:
            options.save.write_text(json.dumps(predictions, indent=1, sort_keys=True) + "\n")

    with unpacked(programs) as folder, ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(answer, programs))
    return predictions


def figure(prediction: dict[str, Any], truth: dict[str, Any], which: str) -> Figure:
    band = prediction["bands"][f"peak_{which}"]
    name = f"peak_{which}_bytes"
    return Figure(prediction[name], band["low_bytes"], band["high_bytes"], truth[name])


def failed_on_gpu(truth: dict[str, Any]) -> bool:
    return truth.get("exit_code", 0) != 0


def compare(
    programs: Sequence[dict[str, Any]],
    predictions: dict[str, dict[str, Any]],
    truths: dict[str, dict[str, Any]],
) -> Iterator[Row]:
    for program in programs:
        name = program["name"]
        prediction, truth = predictions.get(name, {}), truths.get(name, {})
        if failed_on_gpu(truth):
            continue
        if "peak_allocated_bytes" in prediction and truth.get("peak_allocated_bytes"):
            yield Row(
                name,
                program["kind"],
                program["set"],
                figure(prediction, truth, "allocated"),
                figure(prediction, truth, "reserved"),
                prediction["seconds"],
            )


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]


def summary(title: str, rows: Sequence[Row]) -> list[str]:
    cells = [title, str(len(rows))]
    for which in ("allocated", "reserved"):
        errors = [abs(getattr(row, which).error_pct) for row in rows]
        cells += [
            f"{statistics.median(errors):.3f} %",
            f"{quantile(errors, 0.95):.3f} %",
            f"{max(errors):.3f} %",
            f"{sum(getattr(row, which).is_within for row in rows)} of {len(rows)}",
        ]
    return cells


def print_table(header: Sequence[str], lines: Sequence[Sequence[str]], markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
        print("\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n")
        return
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    for line in [header, *lines]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    print()


def describe(row: Row) -> list[str]:
    cells = [row.name, row.kind]
    for peak in (row.allocated, row.reserved):
        cells += [f"{peak.truth / 2**30:.3f} GiB", f"{peak.error_pct:+.3f} %"]
        cells.append("within" if peak.is_within else "OUTSIDE")
    return [*cells, f"{row.seconds:.1f} s"]


def print_rows(rows: Sequence[Row], markdown: bool) -> None:
    header = ["program", "kind", "allocated", "error", "band"]
    header += ["reserved", "error", "band", "time"]
    print_table(header, [describe(row) for row in rows], markdown)
    kinds = sorted({row.kind for row in rows})
    lines = [summary(kind, [row for row in rows if row.kind == kind]) for kind in kinds]
    header = ["kind", "programs"]
    for which in ("allocated", "reserved"):
        header += [f"{which}: median", "95 %", "worst", "within band"]
    for part in sorted({row.part for row in rows}):
        of_part = [row for row in rows if row.part == part]
        lines += [summary(f"all {part}", of_part)]
    print_table(header, [*lines, summary("all", rows)], markdown)


def print_bars(rows: Sequence[Row], unpredicted: int) -> bool:
    """Whether the bars are met; programs without a prediction count as misses."""
    is_met = True
    count = len(rows) + unpredicted
    for which, (median, most) in BARS.items():
        errors = [abs(getattr(row, which).error_pct) for row in rows]
        near = sum(error <= most for error in errors)
        outside = [row.name for row in rows if not getattr(row, which).is_within]
        above = [row.name for row in rows if getattr(row, which).truth > getattr(row, which).high]
        errors += [math.inf] * unpredicted
        print(
            f"{which}: median {statistics.median(errors):.3f} % (bar {median} %); within {most} %: "
            f"{near} of {count}, {100 * near / count:.1f} % (bar 95 %); outside their band: "
            f"{', '.join(outside) or 'none'}; above it: {', '.join(above) or 'none'}"
        )
        is_met &= statistics.median(errors) <= median and near >= 0.95 * count and not outside
    return is_met


def known(programs: Sequence[dict[str, Any]], what: str) -> dict[str, dict[str, Any]]:
    return {program["name"]: program[what] for program in programs if what in program}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", choices=[*sets(), "all"], default="all")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--truth", type=Path, metavar="FILE", help="instead of the recorded one")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--python", default=sys.executable, help="that has the programs' libraries")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=int, default=300, metavar="SECONDS")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--saved", action="store_true")
    parser.add_argument("--predictions", type=Path, metavar="FILE")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    # Programs are predicted in another folder.
    options.python = str(Path(shutil.which(options.python) or options.python).absolute())
    programs = read_programs(options.set, options.only)
    if options.predictions:
        predictions = json.loads(options.predictions.read_text())
    elif options.saved:
        predictions = known(programs, "prediction")
    else:
        predictions = predict_all(programs, options)
    if options.truth:
        truths = json.loads(options.truth.read_text())["programs"]
    else:
        truths = known(programs, "truth")
    rows = list(compare(programs, predictions, truths))
    if rows:
        print_rows(rows, options.markdown)
    unknown = [program["name"] for program in programs if program["name"] not in truths]
    if unknown:
        print(f"Without a truth: {', '.join(unknown)}")
    failed = {
        program["name"]: predictions[program["name"]]["failed"]
        for program in programs
        if "failed" in predictions.get(program["name"], {})
    }
    for name, sentence in failed.items():
        print(f"Not predicted: {name}: {sentence}")
    ended_early = [
        program["name"] for program in programs if failed_on_gpu(truths.get(program["name"], {}))
    ]
    if ended_early:
        print(f"Failed on the GPU, not judged: {', '.join(ended_early)}")
    measured = sum(name in truths and name not in ended_early for name in failed)
    return 0 if rows and print_bars(rows, measured) and not unknown else 1


if __name__ == "__main__":
    sys.exit(main())
