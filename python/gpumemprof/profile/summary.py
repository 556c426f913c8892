"""Totals over everything a profiler has profiled, updated as results come in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpumemprof.profile.memory_state import MemorySnapshot
from gpumemprof.profile.optional_math import difference, highest, total
from gpumemprof.profile.result import ProfileResult

__all__ = ["FunctionTotals", "Summary", "Totals"]


class Summary(dict[str, Any]):
    """The return value of ``get_summary()``: a dictionary that prints as a small table.

    >>> Summary(device="cpu")["device"]
    'cpu'
    """

    snapshots: list[MemorySnapshot]
    """What monitoring saw."""
    results: list[ProfileResult]
    """What was profiled."""

    def __str__(self) -> str:
        """A human-readable table."""
        from gpumemprof.profile.text import summary_text

        return summary_text(self)

    def _repr_html_(self) -> str:
        from gpumemprof.profile.html import summary_html

        return summary_html(self)


@dataclass
class FunctionTotals:
    """Totals over all calls with one name."""

    call_count: int = 0
    total_time: float = 0.0
    total_memory_allocated: int | None = 0
    peak_memory: int | None = None

    def add(self, result: ProfileResult) -> None:
        self.call_count += result.call_count
        self.total_time += result.execution_time
        self.total_memory_allocated = total(self.total_memory_allocated, result.memory_allocated)
        self.peak_memory = highest(self.peak_memory, result.peak_memory_usage())

    def to_dict(self) -> dict[str, Any]:
        allocated = self.total_memory_allocated
        return {
            "call_count": self.call_count,
            "total_time": self.total_time,
            "avg_time": self.total_time / self.call_count,
            "total_memory_allocated": allocated,
            "avg_memory_allocated": None if allocated is None else allocated / self.call_count,
            "peak_memory": self.peak_memory,
        }


@dataclass
class Totals:
    """Totals over all names, including results that were dropped because there were too many."""

    calls: int = 0
    time_s: float = 0.0
    allocated: int | None = 0
    freed: int | None = 0
    peak: int | None = None
    functions: dict[str, FunctionTotals] = field(default_factory=dict)

    def add(self, result: ProfileResult) -> None:
        self.calls += result.call_count
        self.time_s += result.execution_time
        self.allocated = total(self.allocated, result.memory_allocated)
        self.freed = total(self.freed, result.memory_freed)
        self.see(result.peak_memory_usage())
        self.functions.setdefault(result.function_name, FunctionTotals()).add(result)

    def see(self, allocated: int | None) -> None:
        """This many bytes were seen allocated."""
        self.peak = highest(self.peak, allocated)

    def summary(
        self,
        device: str,
        current: int | None,
        baseline: int | None,
        monitoring: bool,
        snapshots: list[MemorySnapshot],
        results: list[ProfileResult],
    ) -> Summary:
        made = Summary(
            device=device,
            total_functions_profiled=len(self.functions),
            total_function_calls=self.calls,
            total_execution_time=self.time_s,
            total_memory_allocated=self.allocated,
            total_memory_freed=self.freed,
            net_memory_change=difference(self.allocated, self.freed),
            # Nothing has been measured since: the baseline is the highest value known.
            peak_memory_usage=baseline if self.peak is None else self.peak,
            current_memory_usage=current,
            baseline_memory_usage=baseline,
            memory_change_from_baseline=difference(current, baseline),
            function_summaries={name: sums.to_dict() for name, sums in self.functions.items()},
            monitoring_active=monitoring,
            snapshots_collected=len(snapshots),
        )
        made.snapshots, made.results = snapshots, results
        return made
