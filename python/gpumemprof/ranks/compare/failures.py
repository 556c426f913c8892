"""Which rank failed first, and which failed as a consequence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpumemprof.ranks.summary import OomNote, RankSummary

__all__ = ["Failure", "Failures", "find_failures"]

_OOM_TYPES = ("OutOfMemoryError",)
_CRASHES = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")
# Clocks of machines that are set over a network rarely differ by more.
_CLOCK_DOUBT_NS = 1_000_000_000
# The recording of a rank that is killed lacks its last 0.4 s; 2.3 s were seen on a busy machine. Of
# two such ranks, the last events must lie further apart to say which fell silent first.
_LOST_NS = 10_000_000_000


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
    signal: str = ""
    """That the rank itself raised by a crash."""


@dataclass
class Failures:
    """All ranks that did not end by themselves."""

    first: Failure | None
    candidates: list[Failure]
    """One of these failed first, but not even a doubtful order is known; empty if it is."""
    doubt: str
    """Why the first might be another one; empty: it is not in doubt."""
    also: list[Failure]
    """Others that failed by themselves, in order of time."""
    followed: list[Failure]
    """That name another rank as the reason, or were killed."""
    without_end: list[RankSummary]
    """Not closed, while no rank failed: killed, or still running. In order of their last events."""
    silent_ns: int | None = None
    """How long before the second of them the first fell silent; None: not known, or in doubt."""


def find_failures(
    ranks: Sequence[RankSummary], clock_offsets: Mapping[str, int] | None = None
) -> Failures:
    """From times and from what the exceptions say; `clock_offsets` as `clocks` finds them."""
    offsets = clock_offsets or {}

    def order(failure: Failure) -> tuple[bool, int, int]:
        offset = offsets.get(failure.rank.host or "", 0)
        return failure.unix_ns is None, (failure.unix_ns or 0) - offset, failure.rank.number

    found = [failure for one in ranks if (failure := _failure(one)) is not None]
    own = sorted((one for one in found if one.kind in ("exception", "out of memory")), key=order)
    others = sorted((one for one in found if one.kind in ("peer", "killed")), key=order)
    if not own:
        peers = [one for one in others if one.kind == "peer"]
        if not peers:
            silent = [one.rank for one in _without_end(others)]
            return Failures(None, [], "", [], [], silent, _silent_ns(silent))
        killed = _without_end([one for one in others if one.kind == "killed"])
        candidates = [one for one in killed if not _is_surely_later(one, killed[0])]
        if len(candidates) > 1:
            followed = [one for one in others if one not in candidates]
            return Failures(None, candidates, "", [], followed, [])
        first, doubt = _gone(peers, killed)
        return Failures(first, [], doubt, [], [one for one in others if one is not first], [])
    return Failures(own[0], [], _doubt(own, offsets), own[1:], others, [])


def _without_end(killed: list[Failure]) -> list[Failure]:
    """Those that could say nothing; where there are some, the others were ended because of them.

    A launcher ends the ranks that are left by a signal that they can still record.
    """
    return [one for one in killed if not one.rank.ending.is_closed] or killed


def _silent_ns(silent: list[RankSummary]) -> int | None:
    """Between the last events of the first two, where their clocks can be compared.

    A rank that is killed stops at once; the others go on until they wait for it.
    """
    if len(silent) < 2:
        return None
    first, second = silent[0], silent[1]
    if first.last_unix_ns is None or second.last_unix_ns is None:
        return None
    gap = second.last_unix_ns - first.last_unix_ns
    return gap if gap > _LOST_NS else None


def _is_surely_later(other: Failure, first: Failure) -> bool:
    """Whether a rank that was killed fell silent after the first of them."""
    if first.unix_ns is None or other.unix_ns is None:
        return False
    return other.unix_ns - first.unix_ns > _LOST_NS


def _gone(peers: list[Failure], killed: list[Failure]) -> tuple[Failure, str]:
    """The rank that the others miss, if none says that it failed by itself."""
    if len(killed) == 1:
        return killed[0], "it was killed, and all others say that another rank was gone"
    if killed:
        which = f"{len(killed)} ranks were killed, of which it fell silent first"
        return killed[0], f"{which}; all others say that another rank was gone"
    doubt = "every rank that failed says that another one was gone, which left no failure here"
    return peers[0], doubt


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
    signal = (ending.reason or "").partition("signal ")[2]
    if signal in _CRASHES:
        return Failure(rank, "exception", rank.last_unix_ns, rank.last_step, None, signal=signal)
    if ending.is_closed is False or signal:
        # It may have failed to allocate, and been killed before it could say so.
        if oom is not None and oom.step == rank.last_step:
            return Failure(rank, "out of memory", oom.unix_ns, oom.step, oom.line, oom)
        return Failure(rank, "killed", rank.last_unix_ns, rank.last_step, None)
    return None


def _doubt(own: list[Failure], clock_offsets: Mapping[str, int]) -> str:
    first, rest = own[0], own[1:]
    if rest and any((one.rank.host or "") in clock_offsets for one in own):
        return (
            "several ranks failed on hosts whose clocks differ; the order allows for that, roughly"
        )
    if first.unix_ns is None:
        return "when it failed is not known"
    for other in rest:
        if other.unix_ns is None:
            return f"when {other.rank.title} failed is not known"
        is_same_host = other.rank.host is not None and other.rank.host == first.rank.host
        if not is_same_host and other.unix_ns - first.unix_ns < _CLOCK_DOUBT_NS:
            seconds = (other.unix_ns - first.unix_ns) / 1e9
            return (
                f"{other.rank.title} failed {seconds:.3f} s later on another host, "
                "and clocks may differ by more"
            )
    return ""
