"""Misuse raises the documented exception, with a one-sentence message."""

from __future__ import annotations

import subprocess
import sys

import gpumemprof
import pytest
from gpumemprof import CPUMemoryProfiler, GPUMemoryProfiler


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_needs_no_torch_and_starts_nothing():
    out = run(
        "import sys, threading\n"
        "sys.modules['torch'] = None\n"
        "import gpumemprof\n"
        "from gpumemprof import (GPUMemoryProfiler, CPUMemoryProfiler, MemorySnapshot,\n"
        "    ProfileResult, profile_function, profile_context, record, step, tag, load)\n"
        "print(threading.active_count(), GPUMemoryProfiler.__name__)\n"
        "for kind in (GPUMemoryProfiler, CPUMemoryProfiler):\n"
        "    try:\n"
        "        kind()\n"
        "    except RuntimeError as error:\n"
        "        print(error)\n"
    )
    assert out.splitlines()[0] == "1 GPUMemoryProfiler"
    assert out.count("torch is not installed; install it with: pip install torch") == 2


def test_importing_the_package_loads_no_profiler():
    out = run("import sys, gpumemprof; print('gpumemprof.profile.profiler' in sys.modules)")
    assert out.strip() == "False"


def test_names_are_found_and_strangers_are_not():
    assert {"GPUMemoryProfiler", "profile_context"} <= set(dir(gpumemprof))
    with pytest.raises(AttributeError, match="nonsense"):
        gpumemprof.nonsense  # noqa: B018


class TestWithTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch")

    def test_no_cuda_at_all(self, torch):
        if torch.cuda.is_available():
            pytest.skip("there is CUDA here")
        with pytest.raises(RuntimeError, match="no CUDA device; CPUMemoryProfiler"):
            GPUMemoryProfiler()
        with pytest.raises(gpumemprof.NoCudaError):
            GPUMemoryProfiler(device=0)
        # Wrong in both ways, and caught as either exception.
        with pytest.raises(ValueError, match="CPUMemoryProfiler"):
            GPUMemoryProfiler(device="cpu")
        with pytest.raises(RuntimeError, match="CPUMemoryProfiler"):
            GPUMemoryProfiler(device="cpu")

    @pytest.mark.parametrize("device", ["cuda:0", 0, "mps"])
    def test_a_cpu_profiler_for_something_else(self, device):
        with pytest.raises(ValueError, match="GPUMemoryProfiler"):
            CPUMemoryProfiler(device=device)

    @pytest.mark.parametrize("device", ["cpu", None, "cpu:0"])
    def test_ways_to_name_the_cpu(self, torch, device):
        assert CPUMemoryProfiler(device=device).device == torch.device("cpu")

    @pytest.mark.parametrize(
        "interval", [0, -1, float("nan"), float("inf"), "0.1", None, True, object()]
    )
    def test_an_interval_is_a_positive_number(self, interval):
        profiler = CPUMemoryProfiler()
        with pytest.raises(ValueError, match="positive number of seconds"):
            profiler.start_monitoring(interval)
        assert not profiler.monitoring_active

    def test_monitoring_twice_goes_on_with_the_first(self):
        with CPUMemoryProfiler() as profiler:
            profiler.start_monitoring(0.05)
            first = profiler._monitor
            with pytest.warns(gpumemprof.RecordingWarning, match="already on"):
                profiler.start_monitoring(0.01)
            assert profiler._monitor is first

    @pytest.mark.parametrize("interval", [1e-300, 1e300])
    def test_extreme_intervals_do_no_harm(self, interval):
        with CPUMemoryProfiler() as profiler:
            profiler.start_monitoring(interval)
        assert len(profiler.snapshots) >= 2

    def test_what_cannot_be_called_is_not_profiled(self):
        profiler = CPUMemoryProfiler()
        with pytest.raises(TypeError, match="calls a function"):
            profiler.profile_function(42)
        with pytest.raises(TypeError, match="decorates a function"):
            gpumemprof.profile_function(device="cpu")(42)
        with pytest.raises(TypeError, match="must be a string"):
            profiler.profile_context(3)
        assert profiler.results == []

    def test_functions_without_a_name_get_one(self):
        import functools

        profiler = CPUMemoryProfiler()

        class Model:
            def __call__(self, value):
                return value

        names = [
            profiler.profile_function(func, 1).function_name
            for func in (Model(), functools.partial(abs), abs, lambda value: value)
        ]
        assert names == ["Model", "abs", "abs", "<lambda>"]

    def test_arguments_may_have_any_name(self):
        profiler = CPUMemoryProfiler()
        seen = {}
        profiler.profile_function(lambda **given: seen.update(given), func=1, self=2, name=3)
        assert seen == {"func": 1, "self": 2, "name": 3}

    def test_plotting_without_matplotlib_says_how_to_get_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(gpumemprof.EnvironmentProblem, match="pip install matplotlib"):
            CPUMemoryProfiler().plot()

    @pytest.fixture
    def no_cpu_hook(self, monkeypatch):
        """CPU tensors cannot be tracked."""

        def refuse() -> None:
            raise gpumemprof.EnvironmentProblem("another allocator", "environment")

        monkeypatch.setattr("gpumemprof._core.capture_attach_cpu", refuse)

    def test_cpu_tensors_that_cannot_be_followed_fall_back_and_say_so(self, torch, no_cpu_hook):
        kept = []
        profiler = CPUMemoryProfiler()
        result = profiler.profile_function(lambda: kept.append(torch.ones(32 << 18)))
        assert result.provenance == "estimated"
        assert "another allocator" in result.note
        assert 30 << 20 < result.memory_diff() < 64 << 20
        assert result.tensors_created is None

    @pytest.fixture
    def resident(self, no_cpu_hook, monkeypatch):
        """What the system reports as resident memory, one answer per call; the last one repeats.

        Nothing else is known.
        """
        answers = [None]

        def answer() -> int | None:
            return answers.pop(0) if len(answers) > 1 else answers[0]

        monkeypatch.setattr("gpumemprof._core.resident_bytes", answer)
        return answers

    def test_resident_memory_that_nobody_tells_is_unknown_everywhere(self, resident):
        profiler = CPUMemoryProfiler()
        result = profiler.profile_function(len, ())
        figures = result.to_dict()
        for moment in ("memory_before", "memory_peak", "memory_after"):
            known = {name for name, value in figures[moment].items() if value is not None}
            assert known <= {"timestamp", "device_id", "operation"}
        for name in (
            *("memory_allocated", "memory_freed", "memory_diff"),
            *("peak_memory_usage", "peak_above_start", "tensors_created", "tensors_deleted"),
        ):
            assert figures[name] is None, name
        assert "peak unknown, change unknown" in repr(result)
        for row in ("peak", "allocated", "freed", "change"):
            assert f"\n  {row:<10} unknown" in str(result)
        assert " 0 B" not in str(result)
        assert "<td>unknown</td>" in result._repr_html_()
        assert "<svg" not in result._repr_html_()

        summary = profiler.get_summary()
        for name in (
            *("total_memory_allocated", "total_memory_freed", "net_memory_change"),
            *("peak_memory_usage", "current_memory_usage", "baseline_memory_usage"),
            "memory_change_from_baseline",
        ):
            assert summary[name] is None, name
        of_len = summary["function_summaries"]["len"]
        for name in ("total_memory_allocated", "avg_memory_allocated", "peak_memory"):
            assert of_len[name] is None, name
        assert "peak unknown, now unknown (unknown since the baseline)" in str(summary)
        assert " 0 B" not in str(summary)
        assert "0 B" not in summary._repr_html_()

    def test_monitoring_and_plotting_resident_memory_that_nobody_tells(self, resident):
        pytest.importorskip("matplotlib")
        profiler = CPUMemoryProfiler()
        with profiler:
            profiler.start_monitoring(interval=0.001)
            profiler.profile_function(len, ())
        assert len(profiler.snapshots) >= 2
        assert {snapshot.allocated_memory for snapshot in profiler.snapshots} == {None}
        assert "unknown allocated, unknown reserved" in str(profiler.snapshots[0])
        assert "<svg" not in profiler._repr_html_()
        profiler.plot()

    def test_resident_memory_that_is_told_now_and_then_is_known_then(self, resident):
        #                baseline, scope: resident and state before, state and resident after, …
        resident[:] = [None, None, 100, 100, None, None]
        profiler = CPUMemoryProfiler()
        result = profiler.profile_function(len, ())
        assert result.memory_before.allocated_memory == 100
        assert result.memory_after.allocated_memory is None
        assert result.memory_after.max_memory_allocated == 100
        assert result.peak_memory_usage() == 100
        assert result.memory_diff() is None
        summary = profiler.get_summary()
        assert summary["peak_memory_usage"] == 100
        assert summary["current_memory_usage"] is None
        assert summary["total_memory_allocated"] is None


def test_what_a_call_does_not_run_is_refused() -> None:
    def numbers():
        yield 1

    async def later() -> None:
        pass

    for function in (numbers, later):
        with pytest.raises(TypeError, match="profile_context"):
            CPUMemoryProfiler().profile_function(function)
    with pytest.raises(TypeError, match="numbers is a generator function"):
        gpumemprof.profile_function(numbers)
