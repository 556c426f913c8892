"""Summaries and results of CPUMemoryProfiler: figures, text, HTML, plots and pickles."""

from __future__ import annotations

import copy
import json
import pickle
import time

import pytest
from gpumemprof import CPUMemoryProfiler, MemorySnapshot, ProfileResult
from tensors import MB, tensor

torch = pytest.importorskip("torch")


def test_the_summary_adds_up(profiler):
    kept = []

    def grow(size: int) -> None:
        kept.append(tensor(size))

    for size in (1 * MB, 3 * MB):
        profiler.profile_function(grow, size)
    with profiler.profile_context("block"):
        tensor(10 * MB)
    summary = profiler.get_summary()
    baseline = profiler.baseline.allocated_memory
    assert summary["device"] == "cpu"
    assert summary["total_functions_profiled"] == 2
    assert summary["total_function_calls"] == 3
    assert summary["total_memory_allocated"] == 14 * MB
    assert summary["total_memory_freed"] == 10 * MB
    assert summary["net_memory_change"] == 4 * MB
    assert summary["peak_memory_usage"] == baseline + 14 * MB
    assert summary["current_memory_usage"] == baseline + 4 * MB
    assert summary["baseline_memory_usage"] == baseline
    assert summary["memory_change_from_baseline"] == 4 * MB
    assert summary["monitoring_active"] is False
    assert summary["snapshots_collected"] == 0
    grown = summary["function_summaries"]["grow"]
    assert grown["call_count"] == 2
    assert grown["total_memory_allocated"] == 4 * MB
    assert grown["avg_memory_allocated"] == 2 * MB
    assert grown["peak_memory"] == baseline + 4 * MB
    assert grown["avg_time"] == pytest.approx(grown["total_time"] / 2)
    assert summary["total_execution_time"] == sum(r.execution_time for r in profiler.results)


SUMMARY_KEYS = {
    "device",
    "total_functions_profiled",
    "total_function_calls",
    "total_execution_time",
    "total_memory_allocated",
    "total_memory_freed",
    "net_memory_change",
    "peak_memory_usage",
    "current_memory_usage",
    "baseline_memory_usage",
    "memory_change_from_baseline",
    "function_summaries",
    "monitoring_active",
    "snapshots_collected",
}


def test_a_summary_without_results_has_the_same_keys(profiler):
    kept = tensor(1 * MB)
    profiler.clear_results()
    summary = profiler.get_summary()
    assert set(summary) == SUMMARY_KEYS
    assert summary["total_function_calls"] == 0
    assert summary["function_summaries"] == {}
    # Memory is in use: neither the peak nor the current value is zero.
    assert summary["peak_memory_usage"] == summary["current_memory_usage"] >= 1 * MB
    del kept


def test_clearing_takes_a_new_baseline(profiler):
    kept = tensor(6 * MB)
    profiler.profile_function(tensor, 1)
    profiler.start_monitoring(0.01)
    profiler.stop_monitoring()
    profiler.clear_results()
    assert (profiler.results, profiler.snapshots, profiler.function_stats) == ([], [], {})
    assert profiler.baseline.allocated_memory >= 6 * MB
    assert profiler.get_summary()["memory_change_from_baseline"] == 0
    del kept
    assert profiler.get_summary()["memory_change_from_baseline"] == -6 * MB


def test_results_are_plain_data_and_text(profiler):
    result = profiler.profile_function(tensor, 3 * MB)
    told = json.loads(json.dumps(result.to_dict()))
    assert told["memory_allocated"] == 3 * MB
    assert told["memory_peak"]["allocated_memory"] == result.peak_memory_usage()
    assert "3.00 MiB" in str(result)
    html = result._repr_html_()
    assert "<table>" in html and "<svg" in html and "http" not in html
    profiler.start_monitoring(0.005)
    time.sleep(0.03)
    profiler.stop_monitoring()
    html = profiler.get_summary()._repr_html_()
    assert "tensor" in html and "<svg" in html
    assert "tensor" in str(profiler.get_summary())
    assert "tensor" in profiler._repr_html_()


def test_names_are_escaped_in_html(profiler):
    with profiler.profile_context("<script>alert(1)</script>") as context:
        pass
    assert "<script>" not in context.result._repr_html_()
    assert "<script>" not in profiler.get_summary()._repr_html_()


def test_a_plot_shows_the_timeline_and_the_scopes(profiler, tmp_path):
    pytest.importorskip("matplotlib")
    profiler.start_monitoring(0.005)
    profiler.profile_function(tensor, 3 * MB)
    time.sleep(0.02)
    profiler.stop_monitoring()
    figure = profiler.plot(tmp_path / "memory.png")
    assert (tmp_path / "memory.png").stat().st_size > 1000
    (axes,) = figure.axes
    assert "tensor" in {text.get_text() for text in axes.texts}
    assert CPUMemoryProfiler().plot() is not None


def test_results_can_be_built_by_hand():
    before, after = MemorySnapshot(allocated_memory=100), MemorySnapshot(allocated_memory=70)
    result = ProfileResult("f", 1.0, before, after, before)
    assert result.memory_diff() == -30
    assert result.peak_memory_usage() == 100
    assert (result.memory_allocated, result.memory_freed) == (0, 30)
    assert result.call_count == 1


def test_results_can_be_pickled_and_copied(profiler):
    result = profiler.profile_function(tensor, 3 * MB)
    assert pickle.loads(pickle.dumps(result)).to_dict() == result.to_dict()
    assert copy.copy(result).to_dict() == result.to_dict()
