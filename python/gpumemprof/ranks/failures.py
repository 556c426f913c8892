"""Which rank failed first, and which only followed because it was gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpumemprof.ranks.summary import OomNote, RankSummary

__all__ = ["Failure", "Failures", "find_failures"]

_OOM_TYPES = ("OutOfMemoryError",)
# Clocks of machines that are set over a network rarely differ by more.
_CLOCK_DOUBT_NS = 1_000_000_000


@dataclass(frozen=True)
class Failure:
    """How one rank ended before its time."""

    rank: RankSummary
    kind: str
    """``out of memory``, ``exception``, ``peer`` (another rank was gone) or ``killed``."""
    unix_ns: int | None
    """None if it is not known. Of a killed rank: its last event."""
    step: int | None
    line: str | None
    oom: OomNote | None = None
    exit_code: str = ""
    """Given to ``os._exit``, where there was no exception."""


@dataclass
class Failures:
    """All ranks that did not end by themselves."""

    first: Failure | None
    doubt: str
    """Why the first might be another one; empty: it is not in doubt."""
    also: list[Failure]
    """Others that failed by themselves, in order of time."""
    followed: list[Failure]
    """That name another rank as the reason, or were ended from outside."""
    without_end: int
    """Not closed, while no rank failed: killed, or still running."""


def find_failures(ranks: Sequence[RankSummary]) -> Failures:
    """From times and from what the exceptions say."""
    found = [failure for one in ranks if (failure := _failure(one)) is not None]
    own = sorted((one for one in found if one.kind in ("exception", "out of memory")), key=_order)
    others = sorted((one for one in found if one.kind in ("peer", "killed")), key=_order)
    if not own:
        peers = [one for one in others if one.kind == "peer"]
        if not peers:
            return Failures(None, "", [], [], len(others))
        first, doubt = _gone(peers, [one for one in others if one.kind == "killed"])
        return Failures(first, doubt, [], [one for one in others if one is not first], 0)
    return Failures(own[0], _doubt(own), own[1:], others, 0)


def _gone(peers: list[Failure], killed: list[Failure]) -> tuple[Failure, str]:
    """The rank that the others miss, if none says that it failed by itself."""
    if len(killed) == 1:
        return killed[0], "it was ended from outside, and all others say that another rank was gone"
    doubt = "every rank that failed says that another one was gone, which left no failure here"
    return peers[0], doubt


def _order(failure: Failure) -> tuple[bool, int, int]:
    return failure.unix_ns is None, failure.unix_ns or 0, failure.rank.number


def _failure(rank: RankSummary) -> Failure | None:
    ending = rank.ending
    kind = ending.failure_type
    oom = rank.oom_notes[-1] if rank.oom_notes else None
    is_oom = kind in _OOM_TYPES or (kind is not None and "OutOfMemory" in kind)
    if kind is not None:
        if is_oom and oom is not None:
            return Failure(rank, "out of memory", oom.unix_ns, oom.step, oom.line, oom)
        what = "peer" if ending.is_failure_of_peer else "exception"
        what = "out of memory" if is_oom else what
        step = rank.last_step
        return Failure(rank, what, ending.failure_unix_ns, step, ending.failure_place)
    code = (ending.reason or "").partition("_exit ")[2]
    if code not in ("", "0"):
        return Failure(
            rank, "exception", rank.last_unix_ns, rank.last_step, None, exit_code=code[:8]
        )
    if ending.is_closed is False:
        # It may have failed to allocate, and been killed before it could say so.
        if oom is not None and oom.step == rank.last_step:
            return Failure(rank, "out of memory", oom.unix_ns, oom.step, oom.line, oom)
        return Failure(rank, "killed", rank.last_unix_ns, rank.last_step, None)
    return None


def _doubt(own: list[Failure]) -> str:
    first, rest = own[0], own[1:]
    if first.unix_ns is None:
        return "when it failed is not known"
    for other in rest:
        if other.unix_ns is None:
            return f"when rank {other.rank.number} failed is not known"
        is_same_host = other.rank.host is not None and other.rank.host == first.rank.host
        if not is_same_host and other.unix_ns - first.unix_ns < _CLOCK_DOUBT_NS:
            seconds = (other.unix_ns - first.unix_ns) / 1e9
            return (
                f"rank {other.rank.number} failed {seconds:.3f} s later on another host, "
                "and clocks may differ by more"
            )
    return ""
