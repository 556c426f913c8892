"""Builds gpumemprof offline, runs every device test and prints one table. Needs a GPU; never in CI.

Usage: python tests/device/run_all.py [--no-build] [--only NAME...]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROWS: list[tuple[str, str, str, bool]] = []
LIMIT_SECONDS = 400
SIDE_BY_SIDE = 6
# What a recording asks when it could not prove that it reads the same values itself.
ASKED = {"torch": "reads_tensors", "Python": "reads_threads"}


def build() -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-build-isolation",
        "--no-deps",
    ]
    subprocess.run([*command, "--break-system-packages", str(ROOT)], check=True)


def ask(script: str, *arguments: str, settings: str = "") -> Any:
    """The JSON a script printed, or what went wrong."""
    environment = dict(os.environ)
    if settings:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = settings
    try:
        done = subprocess.run(
            [sys.executable, str(HERE / script), *arguments],
            capture_output=True,
            text=True,
            env=environment,
            timeout=LIMIT_SECONDS,
            cwd=HERE,
        )
    except subprocess.TimeoutExpired:
        return {"failed": "ran too long"}
    if done.returncode != 0:
        return {"failed": f"exit code {done.returncode}: {done.stderr[-1500:]}"}
    return json.loads(done.stdout.splitlines()[-1])


def row(what: str, measured: str, bar: str, is_met: bool) -> None:
    ROWS.append((what, measured, bar, is_met))
    print(f"{'ok  ' if is_met else 'FAIL'}  {what:<42} {measured:<58} {bar}", flush=True)


def broken(what: str, result: dict[str, Any]) -> bool:
    if "failed" in result:
        row(what, result["failed"], "", False)
    return "failed" in result


def exactness() -> None:
    sys.path.insert(0, str(HERE))
    from workloads import SETTINGS, WORKLOADS

    for name in WORKLOADS:
        result = ask("exact.py", name, settings=SETTINGS.get(name, ""))
        if broken(f"exact: {name}", result):
            continue
        wrong = [*result["wrong"], *result["notes"]]
        told = (
            "; ".join(wrong) or f"{result['events']} events, {result['bytes_per_event']:.2f} B each"
        )
        row(f"exact: {name}", told, "torch's counters", not wrong and result["lost"] == 0)


def overhead() -> None:
    result = ask("overhead.py")
    if broken("overhead", result):
        return
    steps, pair = result["steps"], result["pair_us"]
    with_stacks = steps["stacks"]["median"]
    torchs = steps["torch"]["median"]
    asks = [whom for whom, reads in ASKED.items() if not steps[reads]]
    told = (
        f"{percent(steps['stacks'])} of {steps['step_ms']:.1f} ms in {steps['rounds']} rounds; in "
        f"hooks {steps['labels']:.2%}{' (asking ' + ', '.join(asks) + ')' if asks else ''}; torch "
        f"{percent(steps['torch'])}, {with_stacks / torchs:.3f} of it"
    )
    is_met = with_stacks <= 0.03 and with_stacks <= torchs / 6
    row("step with stacks and labels", told, "<= 3 %, <= 1/6 of torch's", is_met)
    without = steps["no_stacks"]
    row("step with labels, without stacks", percent(without), "<= 1 %", without["median"] <= 0.01)
    told = (
        f"{pair['stacks']['median']:.3f} us ({pair['stacks']['low']:.3f} to "
        f"{pair['stacks']['high']:.3f}; torch {pair['torch']['median']:.2f}, "
        f"without stacks {pair['no_stacks']['median']:.3f})"
    )
    row("allocate/free pair, 30 frames deep", told, "<= 0.4 us", pair["stacks"]["median"] <= 0.4)


def turns() -> None:
    result = ask("turns.py")
    if broken("turns", result):
        return
    noise = percent(result["plain_again"]["wall"])
    rest = f"{result['rounds']} rounds; two plain ones differ by {noise}"
    for way, what, bar in (("stacks", "with stacks", 0.02), ("no_stacks", "without stacks", 0.01)):
        wall, processor = result[way]["wall"], result[way]["processor"]
        told = f"{percent(wall)} of {result['step_ms']:.1f} ms; {rest}"
        row(f"step {what}, never attached", told, f"<= {bar:.0%}", wall["median"] <= bar)
        told = f"{percent(processor)} of {result['processor_ms']:.1f} ms"
        is_met = processor["median"] <= 0.05
        row(f"processor time {what}", told, "<= 5 %", is_met)
        row(f"events lost {what}", str(result[way]["lost"]), "0", result[way]["lost"] == 0)
    for way, what in (("attached", "torch's entries alone"), ("torch", "torch's own recorder")):
        told = f"{percent(result[way]['wall'])}; processor {percent(result[way]['processor'])}"
        row(f"step with {what}", told, "for comparison", True)


def percent(range_: dict[str, float]) -> str:
    return f"{range_['median']:+.2%} ({range_['low']:+.2%} to {range_['high']:+.2%})"


def bounded() -> None:
    result = ask("bounded.py")
    if broken("bounded", result):
        return
    told = f"{result['grown_mib']:.1f} MiB over {result['events']:,} events, {result['lost']} lost"
    row("resident growth", told, "< 64 MiB", result["grown_mib"] < 64 and result["lost"] == 0)
    told = f"{result['gpt_bytes_per_event']:.2f} B over {result['gpt_events']:,} events"
    row("disk an event, GPT-2 with stacks", told, "<= 5 B", result["gpt_bytes_per_event"] <= 5)


def endings() -> None:
    result = ask("endings.py", "cuda")
    if not broken("endings", result):
        told = (
            "; ".join(result["wrong"])
            or f"at most {max(result['seconds_lost'].values()):.2f} s lost"
        )
        row("kill -9, SIGTERM, exit, _exit, raise, crash", told, "< 1 s", not result["wrong"])


def coexistence() -> None:
    result = ask("coexist.py")
    if not broken("coexist", result):
        told = "; ".join(result["wrong"]) or f"{result['events']} events"
        row(
            "beside torch's recorder and profiler",
            told,
            "all see what they should",
            not result["wrong"],
        )


def ways() -> None:
    result = ask("ways.py")
    if broken("ways", result):
        return
    for name, way in result.items():
        row(f"way: {name}", "; ".join(way["wrong"]) or way["told"], way["bar"], not way["wrong"])


def modules() -> None:
    result = ask("modules.py")
    if broken("modules", result):
        return
    for name, model in result.items():
        if "missing" in model:
            row(f"modules: {name}", model["missing"], "", True)
            continue
        told = (
            "; ".join(model["some"])
            or f"{model['allocations']} allocations in {model['modules']} modules"
        )
        row(f"modules: {name}", told, "hooks on every module", model["wrong"] == 0)


def sources() -> None:
    sys.path.insert(0, str(HERE))
    import sources as measured

    cases = list(measured.cases())
    # Each counts only its own process, so they may run in parallel.
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        results = list(pool.map(lambda case: ask("sources.py", "case", *case), cases))
    for case, result in zip(cases, results):
        name = "sources: " + " ".join(case)
        if broken(name, result):
            continue
        unknown = result["unknown"]
        told = "; ".join(result["wrong"]) or f"unknown {unknown:.2%} of {result['peak']:,} bytes"
        is_met = not result["wrong"] and unknown < measured.MOST_UNKNOWN
        row(name, told, "storages exact, unknown < 1 %", is_met)
    result = ask("sources.py", "gap")
    if not broken("gap", result):
        told = "; ".join(result["wrong"]) or f"process {result['truth']['process']} bytes"
        row("gap: pool, process and card", told, "NVML, to the byte", not result["wrong"])


def oom_cases() -> None:
    result = ask("oom_cases.py")
    if broken("oom_cases", result):
        return
    for cause, case in result.items():
        told = "; ".join(case["wrong"]) or case["told"]
        row(f"out of memory: {cause}", told, "the cause, proven", not case["wrong"])


def oom_spot() -> None:
    result = ask("oom/oom_spot.py")
    if broken("oom_spot", result):
        return
    for name, case in result["results"].items():
        wrong = case["wrong"] if isinstance(case, dict) else []
        told = "; ".join(wrong) or f"explained, {case} s in all"
        row(f"out of memory, on the spot: {name}", told, "the cause; exit code kept", not wrong)


def prediction() -> None:
    result = ask("predicted.py")
    if broken("predicted", result):
        return
    for name, run in result.items():
        told = "; ".join(run["wrong"]) or (
            f"{run['allocations']} allocations, {run['segment_calls']} segment calls, "
            f"{run['ooms']} OOMs, retries {run['retries']} of {run['torch_retries']}"
        )
        row(f"predicted: {name}, seed {run['seed']}", told, "no mismatch", not run["wrong"])


def fit() -> None:
    result = ask("fit.py")
    if broken("fit", result):
        return
    for name, run in result.items():
        what = f"fit: {name} to 60 % of its peak"
        bar = "runs under the limit, unchanged does not"
        if "applied" not in run:
            row(what, "; ".join(run["wrong"]), bar, False)
            continue
        plan, measured = run["plan"], run["applied"]
        told = (
            f"{run['word']}{' + '.join(plan['remedies'])} in {mib(run['limit'])}: "
            f"allocated {mib(measured['allocated'])} of {band(plan, 'allocated')}, "
            f"reserved {mib(measured['reserved'])} of {band(plan, 'reserved')}"
        )
        row(what, "; ".join([*run["wrong"], told]), bar, not run["wrong"])
        is_inside = run["is_allocated_in_band"] and run["is_reserved_in_band"]
        # A run that was cut short did not reach its peak.
        if measured["oom"] is None:
            told = "allocated and reserved" if is_inside else "outside"
            row(f"fit: {name}, predicted peaks", told, "in their bands", bool(is_inside))


def mib(count: int | None) -> str:
    return "unknown" if count is None else f"{count / 2**20:.0f} MiB"


def band(plan: dict[str, Any], kind: str) -> str:
    limits = plan[f"predicted_peak_{kind}_band"]
    if limits is None:
        return "an unknown band"
    return f"{mib(limits['low_bytes'])} to {mib(limits['high_bytes'])}"


def pairs() -> None:
    result = ask("pairs.py")
    if broken("pairs", result):
        return
    for name, rows in result.items():
        for run in rows:
            told = f"{mib(run['predicted'])} predicted, {mib(run['measured'])} measured"
            bar = f"in the band, {mib(run['low'])} to {mib(run['high'])}"
            row(f"predicted: {name}, {run['remedy']}", told, bar, run["is_in_band"])


def profiler() -> None:
    result = ask("profiler/run.py")
    if isinstance(result, dict):
        broken("profiler", result)
        return
    for check in result:
        told = check["told"].strip().splitlines()
        row(check["what"], told[-1] if told else "", "", check["is_met"])
        if not check["is_met"]:
            print(check["told"], flush=True)


def live() -> None:
    result = ask("follow/live.py")
    if broken("live", result):
        return
    seen = f"{result['events']:,} events in {result['looks']} looks, {result['steps']} steps"
    row("live: the last look", seen, "torch's counters", not result["wrong"])
    print("\n".join(result["wrong"]), flush=True)
    row("live: step, watched / not", f"{result['ratio']:.4f}", "", True)
    share = result["watcher_share"]
    row("live: the watcher, of a core", f"{share:.2%}", "<= 10 %", share <= 0.1)


TESTS = {
    "exactness": exactness,
    "overhead": overhead,
    "turns": turns,
    "bounded": bounded,
    "endings": endings,
    "coexistence": coexistence,
    "ways": ways,
    "modules": modules,
    "sources": sources,
    "oom_cases": oom_cases,
    "oom_spot": oom_spot,
    "prediction": prediction,
    "fit": fit,
    "pairs": pairs,
    "profiler": profiler,
    "live": live,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--only", nargs="*", choices=list(TESTS), default=list(TESTS))
    options = parser.parse_args()
    if not options.no_build:
        build()
    for name in options.only:
        TESTS[name]()
    failed = sum(not is_met for *_, is_met in ROWS)
    print(f"\n{len(ROWS) - failed} of {len(ROWS)} bars are met")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
