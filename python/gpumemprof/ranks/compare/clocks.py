"""Hosts whose clocks are apart: told from when their ranks began and ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpumemprof.ranks.compare.statistics import median
from gpumemprof.ranks.summary import RankSummary

__all__ = ["find_clock_offsets"]

# Ranks of a job begin and end within this time of each other; the report on failures deals with
# smaller differences.
_LEAST_NS = 60_000_000_000


def find_clock_offsets(ranks: Sequence[RankSummary]) -> dict[str, int]:
    """By host, by how much its clock is ahead, in nanoseconds; only where it clearly is.

    Inferred: all ranks of the host began and ended later, or earlier, than those of most hosts, by
    about the same time.
    """
    by_host: dict[str, list[tuple[int, int]]] = {}
    for one in ranks:
        if one.host and one.first_unix_ns is not None and one.last_unix_ns is not None:
            by_host.setdefault(one.host, []).append((one.first_unix_ns, one.last_unix_ns))
    if len(by_host) < 2:
        return {}
    firsts = {host: median(sorted(first for first, _ in times)) for host, times in by_host.items()}
    lasts = {host: median(sorted(last for _, last in times)) for host, times in by_host.items()}
    usual_first, usual_last = _low_median(firsts.values()), _low_median(lasts.values())
    offsets = {}
    for host in by_host:
        began, ended = firsts[host] - usual_first, lasts[host] - usual_last
        if min(abs(began), abs(ended)) > _LEAST_NS and abs(began - ended) < abs(began) / 4:
            offsets[host] = round((began + ended) / 2)
    return offsets


def _low_median(values: Iterable[float]) -> float:
    """The value of a host, not between two: of two hosts, the earlier one."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]
