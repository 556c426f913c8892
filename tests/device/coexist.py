"""Recording alongside torch's own recorder, torch.profiler and a second recording: each sees what
it should, and torch's peak counters stay untouched. Prints one line of JSON."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import gpumemprof
import torch
from workloads import small_training


def peaks() -> tuple[int, ...]:
    stats = torch.cuda.memory_stats()
    return tuple(stats[f"{name}_bytes.all.peak"] for name in ("allocated", "active", "reserved"))


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    wrong = []
    step = small_training()
    step()
    torch.cuda.synchronize()
    before = peaks()
    with gpumemprof.record(folder / "nothing.gmp"):
        pass
    if peaks() != before:
        wrong.append("attaching changed torch's peaks")

    torch.cuda.memory._record_memory_history("all", stacks="python", max_entries=1_000_000)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with gpumemprof.record(folder / "outer.gmp") as outer:
        step()
        profiler = torch.profiler.profile(activities=activities, profile_memory=True)
        with gpumemprof.record(folder / "inner.gmp") as inner, profiler as profile:
            step()
        step()
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
    if not torch._C._cuda_isHistoryEnabled():
        wrong.append("torch's recorder was switched off")
    traces = torch.cuda.memory._snapshot()["device_traces"][0]
    theirs = sum(entry["action"] != "snapshot" for entry in traces)
    torch.cuda.memory._record_memory_history(None)
    # torch's ring starts slightly before the recording joins.
    if abs(theirs - outer.summary["events"]) > 0:
        wrong.append(f"torch's recorder saw {theirs} events, ours {outer.summary['events']}")
    if not 0 < inner.summary["events"] < outer.summary["events"]:
        wrong.append(f"inner recording: {inner.summary['events']} events")
    if not any(event.self_device_memory_usage for event in profile.key_averages()):
        wrong.append("torch.profiler saw no device memory")
    for recording in (outer, inner):
        (device,) = gpumemprof.load(recording.path).devices
        if device.exact_from_event != 0:
            wrong.append(f"{recording.path} is not exact")
        if (
            recording is outer
            and device.end.allocated_bytes != stats["allocated_bytes.all.current"]
        ):
            wrong.append("outer recording ends with other bytes than torch")
    print(
        json.dumps({"events": [outer.summary["events"], inner.summary["events"]], "wrong": wrong})
    )


if __name__ == "__main__":
    main()
