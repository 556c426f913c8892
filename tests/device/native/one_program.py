"""A libtorch program in C++ that records itself on the GPU, compared with torch's own counters.

Builds the library, the native command and `program.cpp` against the torch of this Python, runs the
program in all its modes, and compares what `gpumemprof report --json` says with what torch counted,
byte for byte. Then processes take turns at the same training steps, plain and recorded: the ratio
of their step times, and the processor time that recording adds to an event. Prints one line of
JSON; "failed" lists what is wrong.

Usage: one_program.py [--cpu] [--build FOLDER] [--rounds N]; --cpu tries the script itself.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PROGRAM = HERE / "program.cpp"
LINE_MARK = "the line of the widest activations"
# The memory layout of a process is worth a few percent: several processes of each kind.
GENERATIONS = 2
Figures = dict[str, Any]

# What torch counts and where a report says the same.
AT_END = {
    "allocated_bytes.current": ("end", "allocated_bytes"),
    "active_bytes.current": ("end", "active_bytes"),
    "reserved_bytes.current": ("end", "reserved_bytes"),
    "requested_bytes.current": ("end", "requested_bytes"),
}
PEAKS = {
    "allocated_bytes.peak": ("peak", "allocated_bytes"),
    "reserved_bytes.peak": ("peak_reserved_bytes",),
    "active_bytes.peak": ("peak_active_bytes",),
    "requested_bytes.peak": ("peak_requested_bytes",),
}


class Trial:
    """The programs, where their files go, and what failed so far."""

    def __init__(self, build: Path, device: str) -> None:
        """Use `run`."""
        self.build = build
        self.device = device
        self.files = Path(tempfile.mkdtemp())
        self.failed: list[str] = []
        self.seen: dict[str, Any] = {}
        self.environment = dict(os.environ)
        folders = [str(path) for path in nvidia_folders()]
        if folders:
            known = self.environment.get("LD_LIBRARY_PATH", "")
            self.environment["LD_LIBRARY_PATH"] = ":".join([*folders, *filter(None, [known])])

    def check(self, case: str, is_right: bool, otherwise: str) -> None:
        if not is_right:
            self.failed.append(f"{case}: {otherwise}")

    def run(
        self, mode: str, recording: str | Path, steps: int, **environment: str
    ) -> tuple[int, str, str]:
        done = subprocess.run(
            [self.build / "program", mode, recording, self.device, str(steps)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**self.environment, **environment},
        )
        return done.returncode, done.stdout, done.stderr

    def command(self, verb: str, path: Path) -> Figures:
        words = [self.build / "gpumemprof/gpumemprof", verb, path, "--json"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        return json.loads(done.stdout)


def nvidia_folders() -> list[Path]:
    import torch

    packages = Path(torch.__file__).resolve().parents[1] / "nvidia"
    return sorted({path.parent for path in packages.glob("*/lib/*.so*")})


def build(folder: Path) -> float:
    """The seconds it took."""
    import torch

    began = time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    jobs = os.environ.get("GPUMEMPROF_BUILD_JOBS", str(os.cpu_count() or 1))
    torch_folder = Path(torch.__file__).resolve().parent
    words = ["cmake", *generator, "-S", HERE, "-B", folder, f"-DTORCH_FOLDER={torch_folder}"]
    for command in (
        [*words, "-DCMAKE_UNITY_BUILD=ON"],
        ["cmake", "--build", folder, "-j", jobs, "--target", "program", "gpumemprof_cli_exe"],
    ):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-40:])
            raise RuntimeError(f"{' '.join(map(str, command))}\n{tail}")
    return time.monotonic() - began


def at(device: Figures, place: tuple[str, ...]) -> Any:
    found: Any = device
    for key in place:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def compare(trial: Trial, case: str, path: Path, counted: Figures, has_peaks: bool = True) -> None:
    """What the report says against what torch counted."""
    report = trial.command("report", path)
    info = trial.command("info", path)
    (device,) = report["devices"]
    if trial.device == "cuda":
        for name, place in {**AT_END, **(PEAKS if has_peaks else {})}.items():
            ours = at(device, place)
            trial.check(case, ours == counted[name], f"{name} is {ours}, not {counted[name]}")
        ooms = at(device, ("counters", "ooms"))
        trial.check(case, ooms == counted["num_ooms"], f"ooms: {ooms}, not {counted['num_ooms']}")
        tested = report["input"]["facts"].get("self_test")
        trial.check(case, tested == "passed", f"self test: {tested}")
    trial.check(case, counted.get("lost_events", 0) == 0, f"lost {counted.get('lost_events')}")
    trial.seen[case] = {
        "events": counted.get("events"),
        "peak": at(device, ("peak", "allocated_bytes")),
        "exact_from_event": device.get("exact_from_event"),
    }
    if case == "plain":
        trial.seen["info"] = {name: info[name] for name in ("devices", "versions", "available")}
        if trial.device == "cuda":
            has_samples = info["available"]["card_samples"]
            trial.check(case, has_samples, "there are no samples of the card")


def record(
    trial: Trial, case: str, mode: str, steps: int, has_peaks: bool = True, **environment: str
) -> Path | None:
    """Run a mode with a recording and compare."""
    path = trial.files / f"{case}.gmp"
    code, out, problems = trial.run(mode, path, steps, **environment)
    killed = -signal.SIGKILL if mode == "killed" else 0
    if code != killed or not out.strip():
        trial.failed.append(f"{case}: exit {code}: {problems.strip()[-400:]}")
        return None
    if problems.strip():
        trial.failed.append(f"{case}: said: {problems.strip()[-400:]}")
    try:
        compare(trial, case, path, json.loads(out.splitlines()[-1]), has_peaks)
    except Exception as error:
        trial.failed.append(f"{case}: {type(error).__name__}: {error}")
    return path


def has_libdw() -> bool:
    with contextlib.suppress(OSError):
        ctypes.CDLL("libdw.so.1")
        return True
    return False


def check_lines(trial: Trial, path: Path) -> None:
    """Whether lines of the program are named, and what its modules own."""
    lines = PROGRAM.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if LINE_MARK in text)
    report = trial.command("report", path)
    frames = {
        (Path(frame["file"]).name, frame["line"], frame["name"])
        for row in report["devices"][0]["live_at_peak"]
        for frame in row["stack"]
    }
    mine = sorted(frame for frame in frames if frame[0].startswith("program"))
    trial.seen["frames"] = mine[:20]
    trial.seen["native_symbols"] = report["input"]["facts"].get("native_symbols")
    trial.seen["libdw"] = has_libdw()
    if has_libdw():
        named = any(frame[:2] == ("program.cpp", line) for frame in mine)
        trial.check("lines", named, f"program.cpp:{line} is not in the report")
    else:
        # Without it there are no lines, but functions, and a report says why.
        named = any("Training::step" in frame[2] for frame in mine)
        trial.check("lines", named, "no function of the program is named")
        said = "libdw" in (trial.seen["native_symbols"] or "")
        trial.check("lines", said, f"that libdw is missing is not said: {report['input']['facts']}")
    sources = report["devices"][0].get("sources", {})
    for name in ("parameters", "gradients", "optimizer_state"):
        source = sources.get(name, {})
        measured = source.get("max_provenance") == "measured" and source.get("bytes_max", 0) > 0
        trial.check("labels", measured, f"{name} is {source}")
    steps = report["devices"][0].get("steps", [])
    trial.check("steps", len(steps) >= 20, f"{len(steps)} steps")


def try_modes(trial: Trial) -> None:
    path = record(trial, "plain", "plain", 20)
    if path is not None:
        check_lines(trial, path)
        if "OUT" in os.environ:  # to be looked at elsewhere
            shutil.copy(path, os.environ["OUT"])
            shutil.copy(trial.build / "program", os.environ["OUT"])
    record(trial, "without_stacks", "without_stacks", 20)
    record(trial, "threads", "threads", 10)
    record(trial, "exit", "exit", 10)
    record(trial, "_exit", "_exit", 10)
    # Of a killed process the last moments may be missing, but nothing happened in them.
    record(trial, "killed", "killed", 10)
    if trial.device != "cuda":
        return
    record(trial, "initialised", "initialised", 20)
    record(trial, "late", "late", 20)
    record(trial, "out_of_memory", "out_of_memory", 5)
    record(trial, "streams", "streams", 40)
    record(trial, "pieces", "pieces", 20)
    for case, settings in {
        "expandable": "expandable_segments:True",
        "split": "max_split_size_mb:64,roundup_power2_divisions:4",
    }.items():
        record(trial, case, "pieces", 20, PYTORCH_CUDA_ALLOC_CONF=settings)
    code, _out, problems = trial.run(
        "plain", trial.files / "async.gmp", 3, PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"
    )
    refused = code == 0 and len(problems.strip().splitlines()) == 1
    trial.check("another allocator", refused, f"exit {code}: {problems.strip()[-300:]}")
    trial.seen["another allocator"] = problems.strip()
    code, _out, problems = trial.run("plain", "/missing/folder/run.gmp", 3)
    refused = code == 0 and len(problems.strip().splitlines()) == 1
    trial.check("no such folder", refused, f"exit {code}: {problems.strip()[-300:]}")


class Turn:
    """A process that trains when it is told to."""

    def __init__(self, trial: Trial, way: str) -> None:
        """Use `ask`."""
        recording = "-" if way.startswith("plain") else str(trial.files / f"turn_{way}.gmp")
        self.process = subprocess.Popen(
            [trial.build / "program", "serve", "-", trial.device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=trial.environment,
        )
        self.answer()
        self.ask("steps 30")
        if recording != "-":
            self.ask(f"record {recording} {int(way != 'no_stacks')}")
            self.ask("steps 30")

    def answer(self) -> Figures:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line)

    def ask(self, command: str) -> Figures:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self) -> None:
        self.process.communicate("end\n")


def interval(values: list[float]) -> dict[str, float]:
    """The median, and its 95 % confidence interval by the ranks of a binomial distribution."""
    ordered = sorted(values)
    count = len(ordered)
    reach = 0.98 * count**0.5
    low = max(0, int(count / 2 - reach))
    high = min(count - 1, int(count / 2 + reach) + 1)
    return {
        "median": round(statistics.median(ordered), 4),
        "low": round(ordered[low], 4),
        "high": round(ordered[high], 4),
        "count": count,
    }


def measure_processes(trial: Trial, rounds: int) -> None:
    """Processes that never recorded take turns with those that do."""
    ways = ("plain", "plain_again", "stacks", "no_stacks")
    ratios: dict[str, list[float]] = {way: [] for way in ways[1:]}
    cpu: dict[str, list[float]] = {way: [] for way in ways}
    events: dict[str, int] = {}
    for _ in range(GENERATIONS):
        turns = {way: Turn(trial, way) for way in ways}
        for _ in range(rounds):
            walls = {}
            for way in (*ways, "plain"):
                wall = turns[way].ask("steps 2")["wall_ns"]
                walls.setdefault(way, []).append(wall)
            base = statistics.mean(walls["plain"])
            for way in ways[1:]:
                ratios[way].append(walls[way][0] / base)
        for _ in range(3):
            for way in ways:
                cpu[way].append(turns[way].ask("long 100")["cpu_ns"] / 100)
        for way in ("stacks", "no_stacks"):
            done = 30 + 2 * rounds + 300
            events[way] = turns[way].ask("stop")["events"] // done
        for turn in turns.values():
            turn.end()
    base_cpu = statistics.median(cpu["plain"])
    trial.seen["turns"] = {
        "step_time_ratio": {way: interval(found) for way, found in ratios.items()},
        "cpu_us_per_step": {way: round(statistics.median(cpu[way]) / 1e3, 1) for way in ways},
        "events_per_step": events,
        "cpu_ns_per_event": {
            way: round((statistics.median(cpu[way]) - base_cpu) / max(1, events[way]), 1)
            for way in events
        },
    }


def measure_one_process(trial: Trial, rounds: int) -> None:
    """One process that starts and stops a recorder by turns."""
    turn = Turn(trial, "plain")
    path = trial.files / "by_turns.gmp"
    ratios = []
    for _ in range(rounds):
        turn.ask("steps 2")
        before = turn.ask("steps 6")["wall_ns"]
        started = turn.ask(f"record {path} 1")["ok"]
        turn.ask("steps 4")
        during = turn.ask("steps 6")["wall_ns"]
        stopped = turn.ask("stop")["events"]
        if not started or stopped <= 0:
            trial.failed.append(f"by turns: started {started}, {stopped} events")
            break
        turn.ask("steps 2")
        after = turn.ask("steps 6")["wall_ns"]
        ratios.append(2 * during / (before + after))
    turn.end()
    if ratios:
        trial.seen["start_and_stop_ratio"] = interval(ratios)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build/device-native")
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    result: dict[str, Any] = {"failed": []}
    try:
        result["build_seconds"] = round(build(options.build), 1)
        trial = Trial(options.build, "cpu" if options.cpu else "cuda")
        result["failed"] = trial.failed
        result["seen"] = trial.seen
        began = time.monotonic()
        try_modes(trial)
        result["modes_seconds"] = round(time.monotonic() - began, 1)
        measure_processes(trial, options.rounds)
        measure_one_process(trial, options.rounds)
        result["seconds"] = round(time.monotonic() - began, 1)
    except Exception as error:
        result["failed"].append(f"{type(error).__name__}: {error}"[-3000:])
    print(json.dumps(result))
    sys.exit(bool(result["failed"]))


if __name__ == "__main__":
    main()
