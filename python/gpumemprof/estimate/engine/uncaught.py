"""What is printed of an exception that ends the program or one of its threads."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Any

from gpumemprof.estimate.engine.failures import explained, hide_frames
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["UncaughtExceptions"]


class UncaughtExceptions:
    """A sentence if the estimate is why, else the program's own traceback, without our frames."""

    def __init__(self, prints_sentences: bool) -> None:
        self._prints_sentences = prints_sentences
        self.sentence = ""
        """Why the program could not be predicted; empty if it could."""

    def install(self, patcher: Patcher) -> None:
        real, real_of_thread = sys.excepthook, threading.excepthook

        def show(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            if not self._explain(error, trace):
                real(kind, error, error.__traceback__)

        def show_of_thread(args: Any) -> None:
            error = args.exc_value
            if error is None:
                real_of_thread(args)
            elif not self._explain(error, args.exc_traceback):
                values = (args.exc_type, error, error.__traceback__, args.thread)
                real_of_thread(type(args)(values))

        patcher.set(sys, "excepthook", show)
        patcher.set(threading, "excepthook", show_of_thread)

    def _explain(self, error: BaseException, trace: TracebackType | None) -> bool:
        sentence = explained(error, trace)
        hide_frames(error)
        self.sentence = self.sentence or sentence
        if sentence and self._prints_sentences:
            print(f"gpumemprof: {sentence}", file=sys.stderr)
        return bool(sentence)
