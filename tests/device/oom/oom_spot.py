"""Runs out of memory in many ways and checks what the failing program itself prints. Prints JSON.

Usage: python tests/device/oom/oom_spot.py [--only CASE...]

Each case is a program of its own, recorded by `gpumemprof run`, by `start()` or by GPUMEMPROF=1,
and once not recorded: exit code and exception must be the same. Also checked: the cause named on
the page and in the report, and that what was caught costs one line. Cases that need the whole card
run alone, the others side by side under a limit; one that fails is tried once more alone, and what
it printed is in the result. About three minutes on one H200.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import host_limit
import other_card
from spot_programs import HOLDER, OPENING, PROGRAMS

MOST_SECONDS = 80
SIDE_BY_SIDE = 6
SHOWN = 3000


@dataclass
class Case:
    says: str
    """What the page must contain, in one line."""
    cause: str | None = None
    """In the report of the recording; None: PyTorch's allocator did not fail."""
    code: int = 1
    raises: str = r"torch\.OutOfMemoryError: CUDA out of memory"
    """A pattern."""
    pages: tuple[int, ...] = (1,)
    is_alone: bool = False
    how: str = "run"
    """``run``, ``start``, ``variable`` or ``torchrun``."""
    is_held: bool = False
    """Another process holds most of the card."""


LIMIT = "a limit on this process refused"
OUTSIDE = "memory outside PyTorch's allocator ran out"
CASES = {
    "limit": Case(LIMIT, cause="limit"),
    "gaps": Case("gets past this request", cause="fragmentation"),
    "small_gaps": Case(
        "ran out of memory: fragmentation: 1000 MiB in use and 2.00 GiB more would have fit, but "
        "not in one piece",
        cause="fragmentation",
    ),
    "other_process": Case(
        "other processes on the card hold", cause="other_processes", is_alone=True, is_held=True
    ),
    "outside_pool": Case("outside PyTorch's pool", cause="outside_pool", is_alone=True),
    "shortage": Case("true shortage", cause="shortage", is_alone=True),
    "one_request": Case("one request for", cause="single_request", is_alone=True),
    "absurd": Case("alone is larger than the card", cause="larger_than_card"),
    "graph_pool": Case("only for a CUDA graph", cause="private_pool"),
    "mem_pool": Case("another owner of a private pool", cause="private_pool"),
    # Ending the capture may fail, too, and then be what ends the program.
    "deferred_frees": Case("a stream still used them", cause="deferred_frees", raises=""),
    "leak": Case("memory kept from step to step", cause="growth"),
    "host_memory": Case(OUTSIDE, raises="can't allocate memory"),
    "driver": Case(OUTSIDE, raises="CUDA error: out of memory"),
    "nccl": Case(OUTSIDE, raises="NCCL", is_alone=True),
    "caught": Case("out of memory: 16.00 GiB requested", "limit", code=0, raises="", pages=(0,)),
    "no_such_device": Case("", raises="invalid device ordinal", pages=(0,)),
    "second_device": Case(LIMIT, cause="limit"),
    "backward": Case(LIMIT, cause="limit"),
    "optimizer": Case(LIMIT, cause="limit"),
    "thread": Case(LIMIT, cause="limit", code=0),
    "started": Case(LIMIT, cause="limit", how="start"),
    "variable": Case(LIMIT, cause="limit", how="variable"),
    # The launcher ends the other rank once one has failed, perhaps before it has printed.
    "torchrun": Case(LIMIT, cause="limit", pages=(1, 2), how="torchrun"),
    "host_killed": Case("", code=-9, raises="", pages=(0,)),
}
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "train.py"]


def command(name: str, is_recorded: bool) -> list[str]:
    how = CASES[name].how
    words = [sys.executable, *(TORCHRUN if how == "torchrun" else ["train.py"])]
    if how == "run" and is_recorded:
        words[1:] = ["-m", "gpumemprof", "run", "-o", "out.gmp", "train.py"]
    return host_limit.limited(words) if name == "host_killed" else words


def started(name: str, folder: Path, is_recorded: bool) -> subprocess.CompletedProcess[str]:
    how = CASES[name].how
    environment = {
        key: text for key, text in os.environ.items() if not key.startswith("GPUMEMPROF")
    }
    opening = OPENING
    if is_recorded and how == "start":
        opening += "recording = gpumemprof.start('out.gmp')\n"
    if is_recorded and how in ("variable", "torchrun"):
        environment["GPUMEMPROF"] = "1"
    (folder / "train.py").write_text(opening + PROGRAMS[name])
    return subprocess.run(
        command(name, is_recorded),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
    )


def held_elsewhere() -> subprocess.Popen[str]:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    return holder


def recorded_cause(folder: Path) -> str | None:
    import warnings

    import gpumemprof

    causes = []
    for path in sorted(folder.glob("*.gmp")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for device in gpumemprof.load(path).report(top=1)["devices"]:
                causes += [oom["cause"] for oom in device["oom_reports"]]
    return causes[-1] if causes else None


def exception_of(stderr: str) -> str:
    """The first sentence of the last exception; ranks may fail in any order."""
    found = re.findall(
        r"^(?:\[rank\d+\]:\s*)?((?:\w+\.)*\w*(?:Error|Exception)\b[^.\n]*)", stderr, re.MULTILINE
    )
    return re.sub(r"0x[0-9a-f]+|\d+", "N", found[-1]) if found else ""


def problems(name: str, done: subprocess.CompletedProcess[str], folder: Path) -> list[str]:
    case = CASES[name]
    unmarked = re.sub(r"^\[rank\d+\]: ?", "", done.stderr, flags=re.MULTILINE)
    page = " ".join(unmarked.split())
    wrong = []
    if done.returncode != case.code:
        wrong.append(f"exit code {done.returncode}")
    if case.raises and not re.search(case.raises, done.stderr):
        wrong.append("another exception")
    if case.says and case.says not in page:
        wrong.append("does not say why")
    pages = len(re.findall(r"^  Next: gpumemprof report", unmarked, re.MULTILINE))
    if pages not in case.pages:
        wrong.append(f"{pages} pages")
    if "gpumemprof/failure" in done.stderr:
        wrong.append("a frame of gpumemprof in the traceback")
    if (cause := recorded_cause(folder)) != case.cause:
        wrong.append(f"the report says {cause}")
    if name == "second_device":
        wrong += other_card.problems(folder / "out.gmp")
    if name == "host_killed":
        wrong += host_limit.problems(folder / "out.gmp")
    return wrong


def check(name: str, root: Path, attempt: int = 1) -> dict[str, object]:
    if name == "host_killed" and not host_limit.is_possible():
        return {"wrong": [], "seconds": "not possible here: no control group can be made"}
    folder = root / f"{name}-{attempt}"
    plain = root / f"{name}-{attempt}-plain"
    folder.mkdir()
    plain.mkdir()
    holder = held_elsewhere() if CASES[name].is_held else None
    start = time.monotonic()
    try:
        done = started(name, folder, True)
        seconds = time.monotonic() - start
        unrecorded = started(name, plain, False)
    except subprocess.TimeoutExpired as late:
        printed = late.stderr or b""
        text = printed.decode(errors="replace") if isinstance(printed, bytes) else printed
        return {"wrong": [f"took more than {MOST_SECONDS} s"], "stderr": text[-SHOWN:]}
    finally:
        if holder is not None:
            holder.communicate("")
    wrong = problems(name, done, folder)
    if unrecorded.returncode != done.returncode:
        wrong.append(f"exit code {unrecorded.returncode} when not recorded")
    if exception_of(unrecorded.stderr) != exception_of(done.stderr):
        wrong.append(f"raises {exception_of(unrecorded.stderr)!r} when not recorded")
    result: dict[str, object] = {"wrong": wrong, "seconds": round(seconds, 1)}
    if wrong:
        result |= {"stderr": done.stderr[-SHOWN:], "stdout": done.stdout[-300:]}
        result |= {"unrecorded": unrecorded.stderr[-500:]}
    return result


def check_all(chosen: list[str], root: Path) -> dict[str, dict[str, object]]:
    shared = [case for case in chosen if not CASES[case].is_alone]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        results = dict(zip(shared, pool.map(lambda case: check(case, root), shared)))
    for case in chosen:
        if CASES[case].is_alone:
            results[case] = check(case, root)
        elif results[case]["wrong"]:
            results[case]["alone"] = check(case, root, 2)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(CASES))
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        results = check_all(options.only or list(CASES), Path(name))
    summary = {
        "right": sum(not result["wrong"] for result in results.values()),
        "cases": len(results),
        "seconds": round(time.monotonic() - start, 1),
        "results": {
            case: result if result["wrong"] else result["seconds"]
            for case, result in results.items()
        },
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
