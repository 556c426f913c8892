"""The self-test of a CUDA recording: its first events must add up to torch's own list of blocks."""

from __future__ import annotations

import threading
from typing import Callable

from gpumemprof import _core
from gpumemprof.errors import Error
from gpumemprof.recorder import open_recordings
from gpumemprof.torch_calls import allocator

__all__ = ["SelfTest"]

_MOST_ATTEMPTS = 3
_LONGEST_WAIT_S = 60
NOT_DONE = "not done"


class SelfTest:
    """Waits for the program's first allocation in a thread of its own, then compares."""

    def __init__(
        self, number: int, is_open: Callable[[], bool], on_result: Callable[[str, str], None]
    ) -> None:
        """Call `on_result` with the result as the file states it, and what was wrong, or nothing.

        Args:
            number: the recording's number.
            is_open: whether the recording is still going on.
        """
        self._number = number
        self._is_open = is_open
        self._on_result = on_result
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        thread = threading.Thread(target=self._run, name="gpumemprof self-test", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # There may be too many threads: the recording goes on untested.
            _core.capture_end_self_test(self._number, True)
            self._on_result(NOT_DONE, "")
        else:
            self._thread = thread

    def join(self) -> None:
        """Wait until it is over."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not _core.capture_wait_for_allocation(self._number, _LONGEST_WAIT_S):
                if not self._is_open():
                    return
            contradiction = self._contradiction()
        except Exception as error:
            contradiction = str(error)
        _core.capture_end_self_test(self._number, not contradiction)
        if contradiction is None:
            self._on_result(NOT_DONE, "")
        elif contradiction:
            self._on_result(f"failed: {contradiction}", contradiction)
        else:
            self._on_result("passed", "")

    def _contradiction(self) -> str | None:
        """Empty: none; None: could not be tested."""
        for attempt in range(_MOST_ATTEMPTS):
            with open_recordings.lock:  # so that no other recording lists the blocks in between
                if not self._is_open():
                    return None
                _core.capture_begin_self_test(self._number)
                try:
                    return _core.capture_finish_self_test(self._number, *allocator.list_state())
                except Error:
                    # The program may have taken a snapshot at the same moment.
                    if attempt + 1 == _MOST_ATTEMPTS:
                        raise
        return None
