"""GPUMemoryProfiler on a real device: the page's examples, exactness against torch, and cost.

Usage: profiler/run.py [exact|page|cost]...; every check runs even if others fail. Prints one row
for each, and one line of JSON at the end.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any, Callable

import torch
from gpumemprof import GPUMemoryProfiler, record

HERE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "python"))

from checks import MB, ROWS, check, clean, peaks, same  # noqa: E402
from cost import cost  # noqa: E402


def compare(work: Callable[[], object], ends_with: type[BaseException] | None = None) -> str:
    """Profile a run alongside torch's own counters, which we never touch: all must be equal."""
    profiler = GPUMemoryProfiler()
    allowed = [ends_with] if ends_with else []
    # Warm up: libraries allocate memory of their own the first time.
    with contextlib.suppress(*allowed):
        work()
    clean()

    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()
    before = torch.cuda.memory_allocated()
    kept: object = None
    with contextlib.suppress(*allowed), profiler.profile_context("work"):
        kept = work()
    stats = torch.cuda.memory_stats()
    result = profiler.results[-1]
    same("has an error", result.error is not None, ends_with is not None)
    same("provenance", result.provenance, "measured")
    same("before", result.memory_before.allocated_memory, before)
    same("peak", result.peak_memory_usage(), stats["allocated_bytes.all.peak"])
    same("gross", result.memory_allocated, stats["allocated_bytes.all.allocated"])
    same("storages", result.tensors_created, stats["allocation.all.allocated"])
    if ends_with is None:  # an exception's frames still hold tensors at the end of the scope
        same("after", result.memory_after.allocated_memory, stats["allocated_bytes.all.current"])
        same("active", result.memory_after.active_memory, stats["active_bytes.all.current"])
        same("reserved", result.memory_after.reserved_memory, stats["reserved_bytes.all.current"])
        same("freed", result.memory_freed, stats["allocated_bytes.all.freed"])
    same(
        "most so far", result.memory_after.max_memory_allocated >= result.peak_memory_usage(), True
    )
    if result.memory_peak.active_memory is None:
        raise AssertionError("active bytes at the peak are not known")
    del kept
    again = call_again(profiler, work, ends_with)
    return (
        f"peak {result.peak_memory_usage() / MB:.2f} MiB, gross "
        f"{result.memory_allocated / MB:.2f} MiB in {result.tensors_created} storages{again}"
    )


def call_again(profiler: Any, work: Callable[[], object], ends_with: Any) -> str:
    """The same as a function call: how exceptions propagate, and the peak of an identical run."""
    clean()
    try:
        profiler.profile_function(work)
    except BaseException as error:
        if ends_with is None or not isinstance(error, ends_with):
            raise
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        same("frames", names[1:3], ["profile_function", work.__name__])
    clean()
    torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(*([ends_with] if ends_with else [])):
        work()
    torch.cuda.synchronize()
    difference = profiler.results[-1].peak_memory_usage() - torch.cuda.max_memory_allocated()
    return "" if difference == 0 else f" (an identical run alone: {-difference:+d} bytes)"


def hundred_megabytes() -> str:
    profiler = GPUMemoryProfiler()

    def work() -> None:
        torch.empty(100 * MB, dtype=torch.uint8, device="cuda")

    result = profiler.profile_function(work)
    if result.memory_allocated < 100 * MB:
        raise AssertionError(f"only {result.memory_allocated} bytes")
    same("change", result.memory_diff(), 0)
    same("peak above start", result.peak_above_start(), 100 * MB)
    return "100 MiB made and dropped: change 0, peak 100 MiB above the start"


def make_step() -> Callable[[], object]:
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).cuda()
    data = torch.randn(8, 64, 256, device="cuda")

    def step() -> object:
        model.zero_grad(set_to_none=True)
        loss = model(data).square().mean()
        loss.backward()
        return loss.detach()

    return step


def odd_sizes() -> None:
    kept = []
    for number in range(1, 200):
        kept.append(torch.empty(number * 77_777, dtype=torch.uint8, device="cuda"))
        if number % 3 == 0:
            kept.pop(len(kept) // 2)


def two_streams() -> None:
    side = torch.cuda.Stream()
    for _ in range(20):
        tensor = torch.empty(3 * MB, dtype=torch.uint8, device="cuda")
        with torch.cuda.stream(side):
            tensor.zero_()
        tensor.record_stream(side)
        del tensor
        torch.empty(MB, dtype=torch.uint8, device="cuda")
    side.synchronize()


def two_streams_active() -> str:
    """Memory that waits for a stream is active, not allocated; both equal torch's at every end."""
    profiler = GPUMemoryProfiler(synchronize=False)
    side = torch.cuda.Stream()
    for _ in range(30):
        with profiler.profile_context("pending", synchronize=False) as context:
            tensor = torch.empty(5 * MB, dtype=torch.uint8, device="cuda")
            with torch.cuda.stream(side):
                torch.cuda._sleep(1_000_000)
                tensor.zero_()
            tensor.record_stream(side)
            del tensor
        stats = torch.cuda.memory_stats()
        after = context.result.memory_after
        same("allocated", after.allocated_memory, stats["allocated_bytes.all.current"])
        same("active", after.active_memory, stats["active_bytes.all.current"])
        same("reserved", after.reserved_memory, stats["reserved_bytes.all.current"])
    torch.cuda.synchronize()
    return "allocated, active and reserved at 30 ends"


def reserved_follows_the_pool() -> str:
    profiler = GPUMemoryProfiler()
    with profiler.profile_context("pool") as context:
        torch.empty(64 * MB, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
    same("reserved", context.result.memory_after.reserved_memory, torch.cuda.memory_reserved())
    return "reserved after empty_cache()"


def nested() -> str:
    profiler = GPUMemoryProfiler()

    def make(size: int) -> None:
        torch.empty(size, dtype=torch.uint8, device="cuda")

    with profiler.profile_context("outer") as outer:
        make(50 * MB)
        with profiler.profile_context("middle") as middle:
            make(30 * MB)
            with profiler.profile_context("inner") as inner:
                make(10 * MB)
        make(80 * MB)
    got = [c.result.peak_above_start() // MB for c in (outer, middle, inner)]
    same("peaks", got, [80, 30, 10])
    return "three nested scopes: 80, 30 and 10 MiB"


def threads() -> str:
    profiler = GPUMemoryProfiler()
    barrier = threading.Barrier(2)
    results: dict[int, Any] = {}

    def work(size: int) -> None:
        with profiler.profile_context(f"thread {size}", synchronize=False) as context:
            barrier.wait()
            kept = torch.empty(size * MB, dtype=torch.uint8, device="cuda")
            barrier.wait()
            del kept
            barrier.wait()
        results[size] = context.result

    pair = [threading.Thread(target=work, args=(size,)) for size in (20, 60)]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()
    for size in (20, 60):
        same("peak", results[size].peak_above_start(), 80 * MB)
        same("own", results[size].own.memory_allocated, size * MB)
    return "two at once: each peak 80 MiB, own 20 and 60 MiB"


def out_of_memory() -> str:
    def work() -> None:
        kept = torch.empty(64 * MB, dtype=torch.uint8, device="cuda")
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
        del kept

    return compare(work, torch.cuda.OutOfMemoryError)


def interrupted() -> str:
    def work() -> None:
        torch.empty(48 * MB, dtype=torch.uint8, device="cuda")
        raise KeyboardInterrupt

    return compare(work, KeyboardInterrupt)


def raises_after_its_peak() -> str:
    def work() -> None:
        first = torch.empty(96 * MB, dtype=torch.uint8, device="cuda")
        del first
        torch.empty(MB, dtype=torch.uint8, device="cuda")
        raise ValueError("after the peak")

    return compare(work, ValueError)


def counters_are_left_alone() -> str:
    """torch's own peaks with and without us, over the same work."""
    step = make_step()
    for _ in range(3):
        step()

    def run(profiled: bool) -> tuple[int, int]:
        clean()
        torch.cuda.reset_peak_memory_stats()
        torch.empty(32 * MB, dtype=torch.uint8, device="cuda")
        if profiled:
            profiler = GPUMemoryProfiler()
            profiler.start_monitoring(0.005)
            for _ in range(3):
                profiler.profile_function(step)
            profiler.stop_monitoring()
            profiler.get_summary()
            profiler.clear_results()
        else:
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        return peaks()

    run(False)
    without, with_us = run(False), run(True)
    same("max_memory_allocated", with_us[0], without[0])
    return f"max_memory_allocated {with_us[0]} both ways; reserved {with_us[1]} and {without[1]}"


def spike_between_samples() -> str:
    profiler = GPUMemoryProfiler()
    with profiler:
        profiler.start_monitoring(interval=0.2)
        time.sleep(0.05)
        torch.empty(256 * MB, dtype=torch.uint8, device="cuda")
        time.sleep(0.3)
    base = profiler.snapshots[0].allocated_memory
    top = max(snapshot.allocated_memory for snapshot in profiler.snapshots)
    same("highest", top - base, 256 * MB)
    last = profiler.snapshots[-1]
    return f"256 MiB between two looks; outside the pool {last.non_pytorch_memory}"


def stacks() -> str:
    profiler = GPUMemoryProfiler(collect_stack_traces=True)

    def make_large() -> object:
        return torch.empty(8 * MB, dtype=torch.uint8, device="cuda")

    result = profiler.profile_function(make_large)
    same("allocations", [a.requested_bytes for a in result.allocations or []], [8 * MB])
    if "make_large" not in (result.memory_peak.stack_trace or ""):
        raise AssertionError(f"the peak's stack is {result.memory_peak.stack_trace}")
    return "one allocation, and the peak's stack"


def beside_a_recording() -> str:
    path = Path(tempfile.mkdtemp()) / "run.gmp"
    with record(path):
        return compare(odd_sizes)


def card() -> str:
    snapshot = GPUMemoryProfiler().profile_function(odd_sizes).memory_after
    free, total = torch.cuda.mem_get_info()
    same("total", snapshot.device_total, total)
    used = snapshot.device_used or 0
    if abs(used - (total - free)) > 256 * MB:
        raise AssertionError(f"used {used}, and the driver says {total - free}")
    baseline = GPUMemoryProfiler().baseline
    return f"used {used}, baseline {baseline.device_used}, outside {baseline.non_pytorch_memory}"


def page() -> str:
    from page_examples import PAGE, examples

    names: dict[str, object] = {"__name__": "page"}
    count = 0
    for example in examples(PAGE.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(example.code, f"example {count}", "exec"), names)
            except Exception as error:
                if type(error).__name__ != example.error:
                    raise
        print(printed.getvalue(), end="", flush=True)
        count += 1
    return f"{count} examples"


def settings(name: str) -> None:
    """The same under allocator settings that change how blocks are split."""
    backend = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    change = backend or torch.cuda.memory._set_allocator_settings

    def work() -> str:
        clean()
        change(name)
        return compare(odd_sizes)

    check(f"exact: odd sizes, {name}", work)


def exact() -> None:
    check("100 MB allocated and freed", hundred_megabytes)
    check("exact: a training step", lambda: compare(make_step()))
    check("exact: odd sizes", lambda: compare(odd_sizes))
    check("exact: two streams", lambda: compare(two_streams))
    check("active while a stream is at work", two_streams_active)
    check("reserved follows the pool", reserved_follows_the_pool)
    check("nested scopes", nested)
    check("two threads", threads)
    check("raises after its peak", raises_after_its_peak)
    check("out of memory", out_of_memory)
    check("KeyboardInterrupt", interrupted)
    check("torch's own peak counters", counters_are_left_alone)
    check("a spike between samples", spike_between_samples)
    check("stacks", stacks)
    check("beside a recording", beside_a_recording)
    check("the whole card", card)
    for name in (
        "roundup_power2_divisions:4",
        "max_split_size_mb:24",
        "expandable_segments:True",
        "expandable_segments:False",
    ):
        settings(name)


PARTS: dict[str, Callable[[], None]] = {
    "cost": cost,  # first, since the first profiler changes what "without" means
    "exact": exact,
    "page": lambda: check("the page's examples", page),
}


def main(parts: list[str]) -> int:
    torch.cuda.init()
    for name, part in PARTS.items():
        if not parts or name in parts:
            part()
    print(json.dumps(ROWS))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
