"""CPUMemoryProfiler against figures worked out by hand: every guarantee of the profiler API."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import traceback
import warnings
import weakref
from pathlib import Path

import gpumemprof
import pytest
from gpumemprof import CPUMemoryProfiler
from tensors import KB, MB, tensor

torch = pytest.importorskip("torch")


def test_a_tensor_allocated_and_freed_inside_is_gross_but_not_net(profiler):
    def work() -> None:
        tensor(100 * MB)

    result = profiler.profile_function(work)
    assert result.function_name == "work"
    assert result.memory_allocated == 100 * MB
    assert result.memory_freed == 100 * MB
    assert result.memory_diff() == 0
    assert result.peak_above_start() == 100 * MB
    assert (result.tensors_created, result.tensors_deleted) == (1, 1)
    assert result.provenance == "measured"
    assert result.threads == "all"
    assert profiler.results == [result]
    assert profiler.function_stats == {"work": [result]}


def test_what_a_call_returns_is_part_of_what_it_leaves_behind(profiler):
    result = profiler.profile_function(tensor, 5 * MB)
    assert result.memory_diff() == 5 * MB
    assert result.memory_after.allocated_memory - result.memory_before.allocated_memory == 5 * MB
    now = profiler._meter.now().allocated_bytes
    assert now == result.memory_before.allocated_memory  # and freed


def test_the_peak_is_one_moment_with_its_own_time(profiler):
    def work() -> None:
        first = tensor(10 * MB)
        time.sleep(0.02)
        second = tensor(20 * MB)
        time.sleep(0.02)
        del first
        third = tensor(5 * MB)
        del second, third

    result = profiler.profile_function(work)
    peak, before, after = result.memory_peak, result.memory_before, result.memory_after
    assert result.peak_above_start() == 30 * MB
    assert before.timestamp + 0.019 < peak.timestamp < after.timestamp - 0.019
    assert result.execution_time == pytest.approx(after.timestamp - before.timestamp, abs=1e-6)
    assert peak.active_memory == peak.reserved_memory == peak.allocated_memory
    assert peak.inactive_memory == 0
    assert peak.max_memory_allocated >= peak.allocated_memory


def test_nested_scopes_have_their_own_peaks(profiler):
    with profiler.profile_context("outer") as outer:
        tensor(50 * KB)
        with profiler.profile_context("middle") as middle:
            tensor(300 * KB)
            with profiler.profile_context("inner") as inner:
                tensor(100 * KB)
            tensor(200 * KB)
        tensor(400 * KB)
    peaks = [context.result.peak_above_start() for context in (outer, middle, inner)]
    assert peaks == [400 * KB, 300 * KB, 100 * KB]
    assert outer.result.memory_allocated == (50 + 300 + 100 + 200 + 400) * KB
    assert middle.result.memory_allocated == (300 + 100 + 200) * KB
    assert [result.function_name for result in profiler.results] == ["inner", "middle", "outer"]


def test_overlapping_scopes_of_several_profilers_do_not_disturb_each_other():
    first, second = CPUMemoryProfiler(), CPUMemoryProfiler()
    one, two = first.profile_context("one"), second.profile_context("two")
    one.__enter__()
    tensor(10 * KB)
    two.__enter__()
    tensor(30 * KB)
    one.__exit__(None, None, None)
    tensor(70 * KB)
    two.__exit__(None, None, None)
    assert one.result.peak_above_start() == 30 * KB
    assert two.result.peak_above_start() == 70 * KB
    assert two.result.memory_allocated == 100 * KB


def test_a_context_may_be_entered_again_inside_itself(profiler):
    context = profiler.profile_context("again")
    with context:
        tensor(3 * KB)
        with context:
            tensor(1 * KB)
        assert context.result.memory_allocated == 1 * KB
    assert context.result.memory_allocated == 4 * KB


def test_a_scope_counts_all_threads_and_tells_its_own_apart(profiler):
    def elsewhere() -> None:
        tensor(7 * MB)

    def work() -> None:
        tensor(2 * MB)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    result = profiler.profile_function(work)
    assert result.memory_allocated == 9 * MB
    assert result.own.memory_allocated == 2 * MB
    assert result.own.tensors_created == 1
    assert result.own.memory_diff() == 0


def test_scopes_of_two_threads_at_once_each_have_an_exact_peak(profiler):
    barrier = threading.Barrier(2)
    results = {}

    def work(name: str, size: int) -> None:
        with profiler.profile_context(name) as context:
            barrier.wait()
            kept = tensor(size)
            barrier.wait()  # both tensors are live now
            del kept
            barrier.wait()
        results[name] = context.result

    threads = [
        threading.Thread(target=work, args=(name, size))
        for name, size in (("small", 1 * MB), ("large", 4 * MB))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, size in (("small", 1 * MB), ("large", 4 * MB)):
        assert results[name].peak_above_start() == 5 * MB
        assert results[name].own.memory_allocated == size
        assert results[name].memory_diff() == 0


def test_a_function_that_raises_after_its_peak_leaves_its_result(profiler):
    class MineError(Exception):
        pass

    def buggy() -> None:
        first = tensor(20 * MB)
        del first
        tensor(1 * MB)
        raise MineError("after the peak")

    with pytest.raises(MineError, match="after the peak") as caught:
        profiler.profile_function(buggy)
    result = profiler.results[-1]
    assert result.peak_above_start() == 20 * MB
    assert result.memory_allocated == 21 * MB
    assert result.error == "MineError: after the peak"
    assert result.execution_time > 0
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[1:] == ["profile_function", "buggy"]
    assert caught.value.__context__ is None


def test_contexts_and_decorators_add_no_more_than_one_frame(profiler):
    @gpumemprof.profile_function(profiler=profiler)
    def buggy() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        buggy()
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[1:] == ["run", "buggy"]
    with pytest.raises(ValueError, match="mine") as caught, profiler.profile_context("block"):
        raise ValueError("mine")
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 1
    assert profiler.results[-1].error == "ValueError: mine"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_exceptions_that_are_not_errors_leave_their_result_too(profiler, kind):
    def interrupted() -> None:
        tensor(3 * MB)
        raise kind

    with pytest.raises(kind):
        profiler.profile_function(interrupted)
    assert profiler.results[-1].peak_above_start() == 3 * MB
    assert profiler.results[-1].error == kind.__name__


def test_running_out_of_memory_leaves_the_peak_until_there(profiler):
    def too_much() -> None:
        kept = tensor(8 * MB)
        tensor(1 << 60)
        del kept

    with pytest.raises(RuntimeError, match="memory"):
        profiler.profile_function(too_much)
    result = profiler.results[-1]
    assert result.peak_above_start() == 8 * MB
    assert "memory" in result.error


def test_a_result_keeps_no_tensor_alive(profiler):
    refs = []

    def work(given: object) -> object:
        made = tensor(1 * MB)
        refs.append(weakref.ref(made))
        refs.append(weakref.ref(given))
        raise ValueError("with tensors in its frames")

    with pytest.raises(ValueError, match="frames"):
        profiler.profile_function(work, tensor(1 * MB))
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_resident_memory_is_this_processes_own():
    profiler = CPUMemoryProfiler()
    block = bytearray(64 * MB)
    result = profiler.profile_function(len, block)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE")
    assert abs(result.memory_after.cpu_memory - resident) < 32 * MB
    assert result.memory_peak.cpu_memory is None
    untracked = CPUMemoryProfiler(track_cpu_memory=False).profile_function(len, block)
    assert untracked.memory_before.cpu_memory == untracked.memory_peak.cpu_memory == 0


def test_storages_are_not_counted_where_they_are_not_tracked():
    result = CPUMemoryProfiler(track_tensors=False).profile_function(tensor, 1 * MB)
    assert result.tensors_created is None
    assert result.memory_allocated == 1 * MB


def test_every_allocation_has_its_stack_when_asked():
    profiler = CPUMemoryProfiler(collect_stack_traces=True)

    def make_small() -> None:
        tensor(1 * KB)

    def make_large() -> object:
        return tensor(9 * KB)

    def work() -> None:
        kept = make_large()
        make_small()
        del kept

    result = profiler.profile_function(work)
    assert [(a.requested_bytes, a.is_live) for a in result.allocations] == [
        (9 * KB, False),
        (1 * KB, False),
    ]
    names = [frame.name.split(".")[-1] for frame in result.allocations[0].stack]
    assert names[:3] == ["tensor", "make_large", "work"]
    assert "make_small" in result.memory_peak.stack_trace.splitlines()[-2]
    here = "test_every_allocation_has_its_stack_when_asked"
    assert here in result.memory_before.stack_trace.splitlines()[-1]
    assert "live" in str(result.recording).lower()
    assert profiler.profile_function(work).allocations is not None
    assert CPUMemoryProfiler().profile_function(work).allocations is None


def test_files_of_stacks_go_with_their_results(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    profiler = CPUMemoryProfiler(collect_stack_traces=True)
    profiler.profile_function(tensor, 1)
    assert len(list(tmp_path.iterdir())) == 1
    profiler.clear_results()
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_goes_on_counting_what_is_its_own(profiler):
    kept = tensor(3 * MB)
    profiler.start_monitoring(0.01)
    context = profiler.profile_context("across")
    context.__enter__()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            assert not profiler.monitoring_active
            result = profiler.profile_function(tensor, 5 * MB)
            assert result.memory_allocated == 5 * MB
            context.__exit__(None, None, None)
            assert context.result.memory_allocated == 5 * MB
            assert abs(result.memory_after.cpu_memory - gpumemprof._core.resident_bytes()) < 64 * MB
            profiler.start_monitoring(0.01)
            profiler.stop_monitoring()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    context.__exit__(None, None, None)
    profiler.stop_monitoring()
    assert context.result.memory_allocated == 0
    del kept


def test_profiling_goes_on_beside_a_recording(profiler, tmp_path):
    with gpumemprof.record(tmp_path / "run.gmp", cpu=True):
        result = profiler.profile_function(tensor, 4 * MB)
    assert result.memory_allocated == 4 * MB
    (device,) = gpumemprof.load(tmp_path / "run.gmp").devices
    assert device.peak.allocated_bytes == 4 * MB


def test_scopes_leave_nothing_behind(profiler):
    for _ in range(3):
        profiler.profile_function(len, ())
    before = _resident()
    for _ in range(2000):
        with profiler.profile_context("block"):
            pass
        profiler.clear_results()
    assert _resident() - before < 16 * MB


def _resident() -> int:
    gc.collect()
    return gpumemprof._core.resident_bytes()


def test_the_first_recording_of_a_scope_holds_its_allocations_alone(tmp_path):
    program = """
import torch, gpumemprof
profiler = gpumemprof.CPUMemoryProfiler(collect_stack_traces=True)
for _ in range(2):
    result = profiler.profile_function(torch.ones, 9)
    recording = result.recording
    facts = recording.report()["input"]["facts"]
    print(recording.devices[0].counters.allocations, facts["forward_stacks"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["1 on", "1 on"]
