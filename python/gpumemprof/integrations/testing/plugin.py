"""What pytest calls while tests run: measures those with limits, or all with ``--gpumemprof``."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from gpumemprof.errors import Error, NoCudaError
from gpumemprof.integrations.testing.again import has_failed, run_again
from gpumemprof.integrations.testing.devices import TestedDevice
from gpumemprof.integrations.testing.limits import Limit, read_mark
from gpumemprof.integrations.testing.used import Used, used_in
from gpumemprof.profile.optional_math import difference

if TYPE_CHECKING:
    from gpumemprof.profile.monitoring import AnyScope

__all__ = ["MemoryPlugin"]


class _Limits(NamedTuple):
    memory: Limit | None
    leaks: Limit | None


class _Plan(NamedTuple):
    """What to do for tests with the same marks: worked out once, for the first of them."""

    marks: tuple[Any, Any]
    """Kept, so that no other mark gets their identity."""
    limits: _Limits
    devices: list[TestedDevice]
    """To count on; none for a test that nobody asked about."""


def _marks_of(item: pytest.Item) -> tuple[Any, Any]:
    """The closest mark of each kind, in one walk: to look for each would take twice as long."""
    memory = leaks = None
    for mark in item.iter_markers():
        name = mark.name
        if name == "limit_gpu_memory":
            memory = memory or mark
        elif name == "limit_gpu_leaks":
            leaks = leaks or mark
    return memory, leaks


class _OldGarbage:
    """Keeps the cycles that were there before a test from being freed while it runs.

    What they free would hide what the test leaves. Objects that are frozen are not visited, so that
    a collection is also quick: torch alone brings more than a hundred thousand objects.
    """

    def __init__(self, is_wanted: bool) -> None:
        # A program that froze objects itself wants them to stay so.
        self._freezes = is_wanted and gc.get_freeze_count() == 0
        if self._freezes:
            gc.freeze()
        elif is_wanted:
            gc.collect()

    def release(self) -> None:
        """The test has ended."""
        if self._freezes:
            gc.unfreeze()


def _used(device: TestedDevice, scope: AnyScope, leaks: Limit | None) -> Used:
    """What a test used, at its end."""
    figures = device.end(scope)
    if figures is None:
        return Used(device.name, None, None)
    before = figures.before.allocated_bytes
    peak = difference(figures.peak.allocated_bytes, before)
    left = difference(figures.after.allocated_bytes, before)
    if left is not None and leaks is not None and left > leaks.bytes:
        # It may be a cycle, which is no leak. To look takes long, so it is not done before.
        gc.collect()
        left = difference(device.allocated(), before)
    return Used(device.name, peak, left)


class MemoryPlugin:
    """Registered once in a session that uses it; under xdist, in each worker."""

    def __init__(self, config: pytest.Config) -> None:
        self._measures_all = bool(config.getoption("--gpumemprof"))
        self._most_listed = int(config.getoption("--gpumemprof-top"))
        self._devices: dict[str, TestedDevice] = {}
        self._plans: dict[tuple[int, int], _Plan] = {}

    def _device(self, device: Any) -> TestedDevice:
        key = str(device)
        if key not in self._devices:
            found = TestedDevice(device)
            # The same device may be named in several ways.
            same = next((one for one in self._devices.values() if one.name == found.name), None)
            if same is not None:
                found.close()
            self._devices[key] = same or found
        return self._devices[key]

    def _measured(self, given: list[Limit]) -> list[TestedDevice]:
        """The devices to count on; none for a test that nobody asked about."""
        if not given and not self._measures_all:
            return []
        devices = [self._device(limit.device) for limit in given] or [self._device(None)]
        return list({device.name: device for device in devices}.values())

    def _plan(self, item: pytest.Item) -> _Plan:
        """What the test's marks ask for.

        Raises:
            Error: a mark is wrong, or there is no such device.
        """
        marks = _marks_of(item)
        key = (id(marks[0]), id(marks[1]))
        plan = self._plans.get(key)
        if plan is None:
            limits = _Limits(read_mark(marks[0]), read_mark(marks[1]))
            given = [limit for limit in (limits.memory, limits.leaks) if limit is not None]
            plan = _Plan(marks, limits, self._measured(given))
            self._plans[key] = plan
        return plan

    def _plan_or_problem(self, item: pytest.Item) -> tuple[_Plan | None, str]:
        try:
            return self._plan(item), ""
        except NoCudaError as error:
            return None, f'{error.message}; device="cpu" measures CPU tensors'
        except Error as error:
            return None, str(error)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measure the test itself; its fixtures are set up before, and torn down after."""
        plan, problem = self._plan_or_problem(item)
        if plan is None:  # Not in the handler: pytest would show both exceptions.
            raise pytest.fail.Exception(f"{item.name}: {problem}", pytrace=False)
        limits, measured = plan.limits, plan.devices
        if not measured:
            return (yield)
        if limits.leaks is not None:
            for _ in range(limits.leaks.warmups):
                run_again(item)
        old_garbage = _OldGarbage(limits.leaks is not None)
        scopes = [(device, device.begin()) for device in measured]
        returned = None
        failure: BaseException | None = None
        problems = []
        try:
            returned = yield
        except BaseException as error:
            failure = error
        try:
            # All of them before the first message, for which the test may run again.
            used = [(device, _used(device, scope, limits.leaks)) for device, scope in scopes]
            for device, figures in used:
                item.user_properties.extend(figures.properties())
                if failure is None and not has_failed(item):
                    problems += self._problems(item, device, figures, limits)
        finally:
            old_garbage.release()
        if failure is not None:
            try:
                raise failure
            finally:
                del failure  # It would keep this frame, and what the test allocated, alive.
        if problems:
            pytest.fail("\n\n".join(problems), pytrace=False)
        return returned

    def _problems(
        self, item: pytest.Item, device: TestedDevice, used: Used, limits: _Limits
    ) -> list[str]:
        """The limits that a test broke, a message each."""
        problems = []
        made = None
        memory, leaks = limits.memory, limits.leaks
        for limit, figure in ((memory, used.peak), (leaks, used.left)):
            if limit is None or self._device(limit.device) is not device:
                continue
            if figure is None:
                problems.append(
                    f"{item.name}: its memory on {device.name} is unknown, so its limit was not "
                    f"checked: {device.note or 'counting began anew while it ran'}"
                )
                continue
            if figure <= limit.bytes:
                continue
            # Imported for a message only: most sessions have none.
            from gpumemprof.integrations.testing.message import (
                leak_message,
                lines_of,
                live_at_peak,
                memory_message,
            )

            if made is None:
                made = device.allocations_of(lambda: run_again(item, is_shown=False))
            if limit is memory:
                lines = lines_of(live_at_peak(made))
                problems.append(
                    memory_message(item.name, device.name, figure, limit.bytes, lines, device.note)
                )
            else:
                lines = lines_of([one for one in made if one.is_live])
                problems.append(
                    leak_message(
                        item.name,
                        device.name,
                        figure,
                        limit.bytes,
                        limit.warmups,
                        lines,
                        device.note,
                    )
                )
        return problems

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """With ``--gpumemprof``: the tests that used most, also those that ran in workers."""
        if not self._measures_all:
            return
        from gpumemprof.integrations.testing.summary import summary_lines

        reports = [
            report
            for kind in terminalreporter.stats.values()
            for report in kind
            if getattr(report, "when", None) == "call"
        ]
        rows = [
            (report.nodeid, used) for report in reports for used in used_in(report.user_properties)
        ]
        terminalreporter.section("gpumemprof: memory of tests")
        for line in summary_lines(rows, self._most_listed):
            terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        """The session ends."""
        for device in set(self._devices.values()):
            device.close()
        self._devices.clear()
        self._plans.clear()
