"""A libtorch program in C++ that records itself on the GPU, compared with torch's own counters.

Builds the library, the native command and `program.cpp` against the torch of this Python, runs the
program in all its modes, and compares what `gpumemprof report --json` says with what torch counted,
byte for byte. Then it measures what recording costs, in step time and in processor time of the
threads that train, in two ways, each with its 95 % interval:

- `in_one_process`: processes that record by turns, with stacks, not at all, and without stacks.
  Each stretch is compared with those beside it, in the same process: nothing else differs.
- `between_processes`: processes that record, that have the library and record nothing, and that
  never load it (`program_alone`), by turns. The memory layout of a process is worth a few percent:
  the interval is over generations of processes.

Prints one line of JSON; "failed" lists what is wrong. The lines of C++ need libdw; where it is not
installed, that in `.deps/lib` is used, which `tools/carry-deps` copies there.

Usage: one_program.py [--cpu] [--build FOLDER] [--rounds N] [--generations N]
       [--only modes|overhead]; --cpu tries the script itself.
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
TARGETS = ("program", "program_alone", "gpumemprof_cli_exe")
LINE_MARK = "the line of the widest activations"
# Of a process that records by turns: the steps of a stretch, and those before it (not counted).
STRETCH = 8
WARM_UP = 4
# Requests and frees with nothing in between; few enough that the ring does not fill.
PAIRS = 2000
EVENTS_OF_A_PAIR = 3
CARRIED_LIBRARIES = ROOT / ".deps/lib"
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
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=120, env=reading_environment()
        )
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
        ["cmake", "--build", folder, "-j", jobs, "--target", *TARGETS],
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
        # A program that ends within milliseconds does not wait for the test.
        outcomes = ("passed",) if case == "plain" else ("passed", "not done")
        trial.check(case, tested in outcomes, f"self test: {tested}")
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


def is_libdw_installed() -> bool:
    with contextlib.suppress(OSError):
        ctypes.CDLL("libdw.so.1")
        return True
    return False


def reading_environment() -> dict[str, str]:
    """With the libraries that were carried here, where libdw is not installed."""
    environment = dict(os.environ)
    if not is_libdw_installed() and (CARRIED_LIBRARIES / "libdw.so.1").exists():
        known = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(CARRIED_LIBRARIES), known]))
    return environment


def has_libdw() -> bool:
    """Whether the command will find it; asked of a process of its own, with its environment."""
    words = [sys.executable, "-c", "import ctypes; ctypes.CDLL('libdw.so.1')"]
    return (
        subprocess.run(words, env=reading_environment(), stderr=subprocess.DEVNULL).returncode == 0
    )


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
    trial.seen["libdw"] = {"installed": is_libdw_installed(), "found": has_libdw()}
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
        program = "program_alone" if way.startswith("alone") else "program"
        self.recording = trial.files / f"turn_{way}.gmp"
        self.process = subprocess.Popen(
            [trial.build / program, "serve", "-", trial.device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=trial.environment,
        )

    def answer(self) -> Figures:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line)

    def ask(self, command: str) -> Figures:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def record(self, way: str) -> bool:
        return bool(self.ask(f"record {self.recording} {int(way == 'stacks')}")["ok"])

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


METRICS = ("wall_ns", "median_step_ns", "training_cpu_ns")
STUDENT_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


def mean_interval(values: list[float]) -> dict[str, Any]:
    """The mean, and its 95 % confidence interval by Student's t."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return {"mean": round(mean, 4), "count": len(values)}
    error = statistics.stdev(values) / len(values) ** 0.5
    reach = STUDENT_95.get(len(values) - 1, 2.1) * error
    return {
        "mean": round(mean, 4),
        "low": round(mean - reach, 4),
        "high": round(mean + reach, 4),
        "count": len(values),
    }


def stretch(turn: Turn) -> Figures:
    turn.ask(f"steps {WARM_UP}")
    return turn.ask(f"steps {STRETCH}")


def measure_in_one_process(trial: Trial, rounds: int, processes: int = 3) -> None:
    """What recording changes in the same process, against the stretches before and after it."""
    ratios: dict[str, dict[str, list[float]]] = {
        way: {metric: [] for metric in METRICS} for way in ("stacks", "no_stacks", "nothing")
    }
    added: dict[str, list[float]] = {way: [] for way in ratios}
    events: dict[str, int] = {}
    step_ms: list[float] = []
    labels_us: dict[str, list[float]] = {way: [] for way in ratios}
    pair_ns: dict[str, list[float]] = {way: [] for way in ratios}
    for number in range(processes):
        turn = Turn(trial, f"in_turns_{number}")
        turn.answer()
        turn.ask("steps 30")
        turn.record("stacks")  # what the first recording of a process sets up
        turn.ask("steps 5")
        turn.ask("stop")
        before = stretch(turn)
        for count in range(rounds):
            # "nothing" tells what two stretches without recording differ by.
            for way in ("stacks", "no_stacks", "nothing")[:: 1 if count % 2 else -1]:
                if way != "nothing" and not turn.record(way):
                    trial.failed.append(f"by turns: a recording {way} did not start")
                during = stretch(turn)
                labels_us[way].append(during["labels_ns"] / STRETCH / 1e3)
                pair_ns[way].append(turn.ask(f"pairs {PAIRS}")["wall_ns"] / PAIRS)
                if way != "nothing":
                    made = turn.ask("stop")["events"] - EVENTS_OF_A_PAIR * PAIRS
                    events[way] = made // (WARM_UP + STRETCH)
                after = stretch(turn)
                for metric in METRICS:
                    base = (before[metric] + after[metric]) / 2
                    if base > 0:
                        ratios[way][metric].append(during[metric] / base)
                cpu = "training_cpu_ns"
                added[way].append((during[cpu] - (before[cpu] + after[cpu]) / 2) / STRETCH)
                step_ms.append(after["wall_ns"] / STRETCH / 1e6)
                before = after
        turn.end()
    trial.check("by turns", all(count > 0 for count in events.values()), f"events: {events}")
    trial.seen["in_one_process"] = {
        "step_ms": round(statistics.median(step_ms), 3),
        "events_per_step": events,
        **{
            way: {metric: interval(found) for metric, found in metrics.items() if found}
            for way, metrics in ratios.items()
        },
        "labels_us_per_step": {
            way: round(statistics.median(found), 1) for way, found in labels_us.items()
        },
        "pair_ns": {way: round(statistics.median(found), 1) for way, found in pair_ns.items()},
        "training_cpu_ns_per_event": {
            way: round(statistics.median(added[way]) / max(1, events[way]), 1) for way in events
        },
    }


def measure_between_processes(trial: Trial, rounds: int, generations: int) -> None:
    """Processes that never load the library take turns with those that do."""
    ways = ("alone", "alone_again", "idle", "no_stacks", "stacks")
    means: dict[str, dict[str, list[float]]] = {
        way: {metric: [] for metric in METRICS} for way in ways[1:]
    }
    for _ in range(generations):
        turns = {way: Turn(trial, way) for way in ways}  # they start side by side
        for way, turn in turns.items():
            turn.answer()
            turn.ask("steps 20")
            if way in ("stacks", "no_stacks"):
                turn.record(way)
                turn.ask("steps 10")
        ratios: dict[str, dict[str, list[float]]] = {
            way: {metric: [] for metric in METRICS} for way in ways[1:]
        }
        for count in range(rounds):
            found: dict[str, Figures] = {}
            for way in ways[:: 1 if count % 2 else -1]:
                turns[way].ask("steps 1")  # the caches are its own again
                found[way] = turns[way].ask("steps 5")
            for way in ways[1:]:
                for metric in METRICS:
                    if found["alone"][metric] > 0:
                        ratios[way][metric].append(found[way][metric] / found["alone"][metric])
        for way in ways[1:]:
            for metric in METRICS:
                if ratios[way][metric]:
                    means[way][metric].append(statistics.median(ratios[way][metric]))
        for turn in turns.values():
            turn.end()
    trial.seen["between_processes"] = {
        way: {metric: mean_interval(found) for metric, found in metrics.items() if found}
        for way, metrics in means.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--build", type=Path, default=ROOT / "build/device-native")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--generations", type=int, default=4)
    parser.add_argument("--only", choices=("modes", "overhead"))
    options = parser.parse_args()
    result: dict[str, Any] = {"failed": []}
    try:
        result["build_seconds"] = round(build(options.build), 1)
        trial = Trial(options.build, "cpu" if options.cpu else "cuda")
        result["failed"] = trial.failed
        result["seen"] = trial.seen
        began = time.monotonic()
        if options.only != "overhead":
            try_modes(trial)
        result["modes_seconds"] = round(time.monotonic() - began, 1)
        if options.only != "modes":
            measure_in_one_process(trial, options.rounds)
            result["one_process_seconds"] = round(time.monotonic() - began, 1)
            measure_between_processes(trial, options.rounds, options.generations)
        result["seconds"] = round(time.monotonic() - began, 1)
    except Exception as error:
        result["failed"].append(f"{type(error).__name__}: {error}"[-3000:])
    print(json.dumps(result))
    sys.exit(bool(result["failed"]))


if __name__ == "__main__":
    main()
