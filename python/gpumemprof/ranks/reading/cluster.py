"""Shares work out to a Ray cluster: ``--ray ADDRESS``.

Each item is one Ray task. A task whose worker or machine is lost is run again, elsewhere, by Ray;
all of them only read, or write files that appear as a whole, so running one twice changes nothing.
Results come in the order of the items, so the outcome is the same as on one machine.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gpumemprof.errors import EnvironmentProblem, Error

__all__ = ["RayWorkers"]

Item = TypeVar("Item")
Result = TypeVar("Result")

# A task that ends its worker each time, as one that needs too much memory does, is given up.
_MOST_RETRIES = 8
# Results wait in the object store until it is their turn.
_MOST_WAITING = 1024
_SECONDS_TO_ANSWER = 20.0


def _reach(address: str) -> None:
    """Ray itself tries for many minutes where nothing listens.

    Raises:
        OSError: nothing answers there.
    """
    host, colon, port = address.rpartition("/")[2].rpartition(":")
    if colon and port.isdecimal():
        with socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER):
            pass


class RayWorkers:
    """The workers of a Ray cluster; a context manager that leaves the cluster at its end."""

    def __init__(self, address: str) -> None:
        """Join the cluster.

        Args:
            address: as ``ray.init`` takes it: ``auto``, ``HOST:PORT``, ``ray://HOST:PORT``;
                ``local`` starts one on this machine.

        Raises:
            EnvironmentProblem: Ray is not installed, or the cluster does not answer.
        """
        try:
            import ray
        except ImportError:
            raise EnvironmentProblem(
                "--ray needs Ray", "environment", "", "install it with: pip install ray"
            ) from None
        self._ray: Any = ray
        self._stack = contextlib.ExitStack()
        try:
            _reach(address)
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise EnvironmentProblem(
                f"the Ray cluster does not answer: {lines[0].rstrip('.')}",
                "environment",
                address,
                "check the address, or start one: ray start --head",
            ) from None

    def __enter__(self) -> RayWorkers:
        """Itself."""
        # Ray prints that a worker was lost where reports are printed.
        self._stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        return self

    def __exit__(self, *what: object) -> None:
        """Leave the cluster."""
        with self._stack, contextlib.suppress(Exception):
            self._ray.shutdown()

    def __call__(self, function: Callable[[Item], Result], items: list[Item]) -> Iterator[Result]:
        """Call the function for each item, as one task each; results in order."""
        task = self._ray.remote(max_retries=_MOST_RETRIES, num_cpus=1)(function)
        waiting: deque[Any] = deque()
        for item in items:
            waiting.append(task.remote(item))
            if len(waiting) >= _MOST_WAITING:
                yield self._get(waiting.popleft())
        while waiting:
            yield self._get(waiting.popleft())

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except Error:
            raise
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, ModuleNotFoundError):
                raise EnvironmentProblem(
                    f"the workers cannot import {cause.name}",
                    "environment",
                    "Ray",
                    "install the same gpumemprof on every machine of the cluster",
                ) from None
            raise EnvironmentProblem(
                f"a task failed: {cause!r}", "environment", "Ray", "see the logs of the cluster"
            ) from None
        except self._ray.exceptions.RayError as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise EnvironmentProblem(
                f"a task failed: {lines[0].rstrip('.')}",
                "environment",
                "Ray",
                "see the logs of the cluster",
            ) from None
