"""On a GPU: ranks that share one card, with NCCL and with gloo, and what their summaries cost.

    python tests/device/ranks/one_card.py [--pairs 3] [--seconds 12] [--keep FILE]

- One rank with NCCL and two with gloo, under torchrun and ``gpumemprof run``: recordings, summaries
  that were there before the end, the report, and NCCL's bytes named, compared with what the card's
  use grew by.
- A rank that is killed leaves a summary.
- Cost: the same training with a summary every second, sixty times as often as usual, and with none,
  by turns; and the processor time that starting the process beside it takes in this one.

Prints one line of JSON; "failed" lists what is not as it should be. With --keep, reports, what the
programs printed and the first lines of summaries are written to that file. About 2.5 minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).resolve().with_name("training.py")
LIMIT_SECONDS = 150
SPAWNS = 50
FAILED: list[str] = []


def check(is_right: bool, what: str) -> None:
    if not is_right:
        FAILED.append(what)


def torchrun(
    folder: Path, ranks: int, backend: str, seconds: float, environment: dict[str, str]
) -> subprocess.Popen[str]:
    folder.mkdir(parents=True)
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    words += ["--master-port", str(29500 + os.getpid() % 1000), "-m", "gpumemprof", "run"]
    words += [str(PROGRAM), backend, str(seconds), str(folder / "figures")]
    return subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "2", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], folder: Path, what: str) -> bool:
    try:
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    (folder / "output.txt").write_text(output)
    check(process.returncode == 0, f"{what}: exit {process.returncode}: {output[-800:]}")
    return process.returncode == 0


def figures_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(folder.glob("figures-*"))]


def heads(folder: Path) -> list[dict[str, Any]]:
    found = [
        json.loads(path.open().readline()) for path in sorted(folder.glob("*.gmp.summary.jsonl"))
    ]
    return sorted(found, key=lambda head: head["process"]["rank"])


def report(folder: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "gpumemprof", "ranks", str(folder)]
    text = subprocess.run(words, capture_output=True, text=True)
    (folder / "ranks.txt").write_text(text.stdout + text.stderr)
    check(text.returncode == 0, f"ranks: {text.stderr[-500:]}")
    done = subprocess.run([*words, "--json"], capture_output=True, text=True)
    return dict(json.loads(done.stdout)["jobs"][0]) if done.returncode == 0 else {}


def wait_for_summary(folder: Path, process: subprocess.Popen[str], ranks: int) -> bool:
    """Whether summaries appear while the program runs."""
    while process.poll() is None:
        if len(list(folder.glob("*.gmp.summary.jsonl"))) >= ranks:
            return True
        time.sleep(0.2)
    return False


def run_job(folder: Path, ranks: int, backend: str, seconds: float) -> dict[str, Any]:
    process = torchrun(folder, ranks, backend, seconds, {"GPUMEMPROF_SUMMARY_SECONDS": "3"})
    was_there = wait_for_summary(folder, process, ranks)
    if not finish(process, folder, backend):
        return {}
    check(was_there, f"{backend}: no summary before the end")
    found = heads(folder)
    check(len(found) == ranks, f"{backend}: {len(found)} summaries, {ranks} ranks")
    job = report(folder)
    check(job.get("world_size") == ranks, f"{backend}: the report says {job.get('world_size')}")
    check(not job.get("missing_ranks"), f"{backend}: missing {job.get('missing_ranks')}")
    devices = [head["devices"][0] for head in found]
    for head, device in zip(found, devices):
        where = f"{backend} rank {head['process']['rank']}"
        check(head["ending"]["is_closed"] is True, f"{where}: not closed")
        check(bool(device["outside_bytes"]), f"{where}: nothing outside of the pool")
        check(device["steps"] > 20, f"{where}: {device['steps']} steps")
        check(device["is_exact"], f"{where}: not exact")
    keys = ("outside_bytes", "outside_by_kind", "nccl", "other_processes_bytes", "reserved_bytes")
    keys += ("peak_bytes", "total_bytes", "least_free_bytes")
    own = figures_of(folder)
    return {
        "was_there_before_the_end": was_there,
        "ranks": [{key: device[key] for key in keys} for device in devices],
        "own": own,
        "summary_bytes_per_step": [
            path.stat().st_size / max(own[0]["steps"], 1)
            for path in sorted(folder.glob("*.summary.jsonl"))
        ],
    }


def check_nccl(result: dict[str, Any]) -> None:
    if not result:
        return
    nccl = result["ranks"][0]["nccl"]
    check(nccl is not None, "NCCL's bytes are not named")
    if nccl is None:
        return
    growth = result["own"][0]["outside_growth_bytes"]
    # The program's own measurement also has what cuBLAS or new kernels took meanwhile.
    result["nccl_share_of_growth"] = nccl["bytes"] / max(growth, 1)
    check(nccl["communicators"] >= 1, "no communicator was counted")
    if nccl["provenance"] == "inferred":
        check(
            0.5 * growth <= nccl["bytes"] <= 1.5 * growth + (64 << 20),
            f"NCCL: {nccl['bytes']} inferred, the card's use grew by {growth}",
        )


def kill_rank(folder: Path) -> dict[str, Any]:
    """With kill -9 after its first summary; nobody tells the process beside it."""
    process = torchrun(folder, 1, "nccl", 60, {"GPUMEMPROF_SUMMARY_SECONDS": "2"})
    check(wait_for_summary(folder, process, 1), "killed: no summary before the end")
    time.sleep(1.5)
    for path in folder.glob("*.gmp.summary.jsonl"):
        head = json.loads(path.open().readline())
        os.kill(head["process"]["pid"], signal.SIGKILL)
    process.communicate(timeout=LIMIT_SECONDS)
    time.sleep(3)
    found = heads(folder)
    sizes = [path.stat().st_size for path in folder.glob("*.gmp")]
    is_last = [head["recording_bytes"] for head in found] == sizes
    check(is_last, f"killed: recordings {sizes}, summaries of {found and found[0]}")
    return {"summaries": len(found), "is_of_all_that_was_recorded": is_last}


def compare_cost(folder: Path, pairs: int, seconds: float) -> dict[str, Any]:
    ways = {"with": {"GPUMEMPROF_SUMMARY_SECONDS": "1"}, "without": {"GPUMEMPROF_SUMMARY": "0"}}
    found: dict[str, list[dict[str, Any]]] = {"with": [], "without": []}
    for pair in range(pairs):
        for way in ("with", "without") if pair % 2 else ("without", "with"):
            place = folder / f"{way}-{pair}"
            if finish(torchrun(place, 1, "nccl", seconds, ways[way]), place, f"cost {way}"):
                found[way] += figures_of(place)
    result: dict[str, Any] = {}
    for key in ("step_ms", "step_cpu_ms"):
        ratios = [one[key] / other[key] - 1 for one, other in zip(found["with"], found["without"])]
        result[f"{key}_without"] = [round(one[key], 4) for one in found["without"]]
        result[f"{key}_more_percent"] = [round(100 * ratio, 3) for ratio in ratios]
        if ratios:
            result[f"{key}_median_more_percent"] = round(100 * statistics.median(ratios), 3)
    return result


def spawn_cost() -> dict[str, Any]:
    """All that a summary costs in the process of the rank: starting the other one, once a run."""
    code = f"""
import json, os, time, torch, gpumemprof
from gpumemprof import _core
torch.ones(1 << 28, device="cuda")
recording = gpumemprof.start("cost.gmp", overwrite=True)
time.sleep(0.5)
idle = time.process_time(); time.sleep(2); idle = time.process_time() - idle
begin = time.process_time(); wall = time.thread_time()
for _ in range({SPAWNS}):
    recording.start_later([b"/bin/true"], 0.0)
calls = time.thread_time() - wall
time.sleep(2)
spent = time.process_time() - begin - idle
recording.stop()
found = {{"ms": spent, "of_training_thread_ms": calls}}
print(json.dumps({{name: 1000 * value / {SPAWNS} for name, value in found.items()}}))
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=120
        )
    check(done.returncode == 0, f"spawn: {done.stderr[-500:]}")
    found: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {}
    if found:
        # One start in the first minute, then none: the bar is 0.1 % of the time.
        found["percent_of_the_first_minute"] = 100 * found["ms"] / 60_000
        check(found["percent_of_the_first_minute"] <= 0.1, f"starting takes {found['ms']} ms")
    return found


def guarded(name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return work()
    except Exception as error:
        FAILED.append(f"{name}: {error!r}")
        return {}


def kept_text(folder: Path) -> str:
    parts = []
    for path in sorted(folder.rglob("*")):
        if path.name in ("ranks.txt", "output.txt"):
            parts.append(f"== {path.relative_to(folder)}\n{path.read_text()[-6000:]}")
        elif path.name.endswith(".summary.jsonl"):
            parts.append(f"== {path.relative_to(folder)}\n{path.open().readline()}")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, work in (
            ("nccl", lambda: run_job(folder / "nccl", 1, "nccl", options.seconds)),
            ("gloo", lambda: run_job(folder / "gloo", 2, "gloo", options.seconds)),
            ("killed", lambda: kill_rank(folder / "killed")),
            ("spawn", spawn_cost),
            ("cost", lambda: compare_cost(folder / "cost", options.pairs, options.seconds)),
        ):
            result[name] = guarded(name, work)
        check_nccl(result.get("nccl", {}))
        if options.keep is not None:
            options.keep.write_text(kept_text(folder))
    print(json.dumps({**result, "failed": FAILED}))
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
