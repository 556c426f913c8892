"""Judges the programs of this corpus with ``gpumemprof leaks``, and prints how well that works.

evaluate.py [--set main|blind|third|all] [--keep FOLDER] [--reuse] [--without-slow] [--predict]
            [--within STEPS]

Runs every program, records it and compares the verdict, the lines and the prediction of when memory
runs out with what the program declares. With --within, the programs whose memory grows in every
step run once more, and end that many steps after the growth began. Exits with 1 if a bar is missed:
recall of 95 %, also within those steps, no false alarm, every line right, steps to out of memory
within 15 %.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ALARMS = ("leak", "cycles")
PROGRAMS_PER_PROCESS = 40
USUAL_STEPS = 18
LEAST_RECALL = 0.95
MOST_ERROR = 0.15
PREDICTED = ("containers", "paces")  # topics whose programs train in steps of equal size


@dataclass
class Program:
    path: Path
    expected: dict[str, Any]
    lines: list[int]  # that allocate what leaks

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}.{self.path.stem}"

    @property
    def leaks(self) -> bool:
        return self.expected["verdict"] in ALARMS


@dataclass
class Judged:
    program: Program
    found: dict[str, Any]

    @property
    def is_alarm(self) -> bool:
        return self.found["verdict"] in ALARMS

    @property
    def is_right(self) -> bool:
        if not self.program.leaks:
            return not self.is_alarm
        return bool(self.found["verdict"] == self.program.expected["verdict"])

    @property
    def are_lines_right(self) -> bool:
        """Each is one that the program declares, or is called by one (a helper allocates)."""
        return bool(self.found["leaks"]) and all(
            self._is_declared(leak) for leak in self.found["leaks"]
        )

    def _is_declared(self, leak: dict[str, Any]) -> bool:
        path = str(self.program.path)
        inner = leak["stack"][0]["file"] if leak["stack"] else None
        if inner == path:
            return leak["line"] in self.program.lines
        return any(
            frame["file"] == path and frame["line"] in self.program.lines for frame in leak["stack"]
        )


def read_program(path: Path) -> Program:
    text = path.read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXPECTED":
            expected = ast.literal_eval(node.value)
    lines = [n for n, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith("# leaks")]
    return Program(path, expected, lines)


def programs(which: str, with_slow: bool = True) -> list[Program]:
    folders = {"main": ("leaking", "healthy"), "blind": ("blind",), "third": ("third",)}
    chosen = sum(folders.values(), ()) if which == "all" else folders[which]
    found = [read_program(path) for name in chosen for path in sorted((HERE / name).glob("*/*.py"))]
    return [program for program in found if with_slow or not program.expected.get("slow")]


def record(chosen: list[Program], folder: Path) -> float:
    """Record the programs, many in one process; returns the CPU seconds they took."""
    seconds = 0.0
    for first in range(0, len(chosen), PROGRAMS_PER_PROCESS):
        paths = [str(program.path) for program in chosen[first : first + PROGRAMS_PER_PROCESS]]
        ran = subprocess.run(
            [sys.executable, str(HERE / "record_programs.py"), str(folder), *paths],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        seconds += sum(json.loads(ran.stdout.splitlines()[-1]).values())
    return seconds


def found_within(chosen: list[Program], steps: int, folder: Path) -> list[Judged]:
    """The programs that leak in every step, ended so many steps after the first that leaks."""
    folder.mkdir(exist_ok=True)
    judged = []
    for begins in sorted({program.expected.get("begins", 0) for program in chosen}):
        group = [
            program
            for program in chosen
            if program.expected["verdict"] == "leak"
            and program.expected.get("begins", 0) == begins
            and (begins or "steps" not in program.expected)  # others leak in some steps only
        ]
        os.environ["LEAKS_STEPS"] = str(begins + steps)
        try:
            record(group, folder)
        finally:
            del os.environ["LEAKS_STEPS"]
        judged += [judge(program, folder) for program in group]
    return judged


def steps_error(program: Program, folder: Path) -> float | None:
    """The relative error of the steps until a limit is reached, predicted from a short recording.

    The truth is a longer run of the same program: the limit is the peak of its last step.
    """
    import gpumemprof

    long_folder = folder / "long"
    long_folder.mkdir(exist_ok=True)
    path = long_folder / f"{program.name}.gmp"
    steps = 3 * program.expected.get("steps", USUAL_STEPS)
    if not path.exists():
        environment = {**os.environ, "LEAKS_STEPS": str(steps)}
        command = [sys.executable, str(HERE / "record_programs.py"), str(long_folder)]
        subprocess.run(
            [*command, str(program.path)], stdout=subprocess.PIPE, check=True, env=environment
        )
    peaks = [
        step["peak_bytes"]
        for step in gpumemprof.load(path).report()["devices"][0]["steps"]
        if step["step"] > 0
    ]
    recording = gpumemprof.load(folder / f"{program.name}.gmp")
    done = recording.leaks()["devices"][0]["last_step"]
    limit = max(peaks[:-2])
    truth = next(number for number, peak in enumerate(peaks, 1) if peak >= limit) - done
    predicted = recording.leaks(memory_limit=limit)["steps_to_oom"]
    if predicted is None or truth <= 0:
        return None
    return abs(predicted["steps"] - truth) / truth


def judge(program: Program, folder: Path) -> Judged:
    import gpumemprof

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recording = gpumemprof.load(folder / f"{program.name}.gmp")
    return Judged(program, recording.leaks())


def table(judged: list[Judged]) -> dict[str, Any]:
    leaking = [each for each in judged if each.program.leaks]
    healthy = [each for each in judged if not each.program.leaks]
    caught = [each for each in leaking if each.is_alarm]
    alarms = [each for each in healthy if each.is_alarm]
    return {
        "leaking": len(leaking),
        "found": len(caught),
        "recall": len(caught) / len(leaking) if leaking else None,
        "verdict right": sum(each.is_right for each in leaking),
        "lines right": sum(each.are_lines_right for each in caught),
        "healthy": len(healthy),
        "false alarms": len(alarms),
        "precision": len(caught) / (len(caught) + len(alarms)) if caught or alarms else None,
        "healthy without a verdict": sum(each.found["verdict"] == "too_short" for each in healthy),
    }


def problems(judged: list[Judged]) -> list[str]:
    found = []
    for each in judged:
        verdict = each.found["verdict"]
        if not each.is_right:
            found.append(f"{each.program.name}: {verdict}, not {each.program.expected['verdict']}")
        elif each.is_alarm and not each.are_lines_right:
            lines = [(Path(leak["file"] or "?").name, leak["line"]) for leak in each.found["leaks"]]
            found.append(f"{each.program.name}: lines {lines}, not {each.program.lines}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="main", choices=["main", "blind", "third", "all"])
    parser.add_argument("--keep", type=Path, help="a folder for the recordings")
    parser.add_argument("--reuse", action="store_true", help="use the recordings that are there")
    parser.add_argument("--without-slow", action="store_true")
    parser.add_argument("--predict", action="store_true", help="also steps to out of memory")
    parser.add_argument("--within", type=int, help="also how many are found in so many steps")
    arguments = parser.parse_args()
    chosen = programs(arguments.set, not arguments.without_slow)
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made)
        folder.mkdir(exist_ok=True)
        seconds = 0.0 if arguments.reuse else record(chosen, folder)
        judged = [judge(program, folder) for program in chosen]
        errors = {}
        for each in judged if arguments.predict else []:
            if each.program.path.parent.name in PREDICTED and each.is_alarm:
                error = steps_error(each.program, folder)
                if error is not None:
                    errors[each.program.name] = error
        early = found_within(chosen, arguments.within, folder / "early") if arguments.within else []
    for problem in problems(judged):
        print(problem)
    figures = table(judged)
    for name, figure in figures.items():
        print(f"{name:28} {figure:.3f}" if isinstance(figure, float) else f"{name:28} {figure}")
    print(f"{'CPU seconds':28} {seconds:.0f}")
    if errors:
        worst = max(errors, key=lambda name: errors[name])
        print(f"{'steps to oom, worst error':28} {errors[worst]:.3f} of {len(errors)} ({worst})")
    early_ones = [each for each in early if each.is_alarm]
    if early:
        print(f"{f'found in {arguments.within} steps':28} {len(early_ones)} of {len(early)}")
        for each in early:
            if not each.is_alarm:
                print(f"  not {each.program.name}: {each.found['verdict']}")
    is_good = (
        len(early_ones) >= LEAST_RECALL * len(early)
        and max(errors.values(), default=0) <= MOST_ERROR
        and (figures["recall"] or 0) >= LEAST_RECALL
        and figures["false alarms"] == 0
        and figures["lines right"] == figures["found"]
    )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
