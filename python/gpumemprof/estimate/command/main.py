"""Runs ``gpumemprof estimate``."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from gpumemprof.errors import Error
from gpumemprof.estimate.calibrate.folder import VARIABLE, check_calibration
from gpumemprof.estimate.command import all_cards, answer, card_list, sweep
from gpumemprof.estimate.command.fit import answer as fit
from gpumemprof.estimate.command.options import HELP, Options, parse
from gpumemprof.estimate.command.ranks import answer as ranks
from gpumemprof.estimate.command.single import exit_code, predict_for_card
from gpumemprof.recorder.places import check_folder
from gpumemprof.recorder.run_closing import print_message

__all__ = ["main"]

_CODES = {"usage": 2, "bad_input": 3, "environment": 4}
_BUG_CODE = 70
_INTERRUPTED_CODE = 130
_SIGNAL_CODE = 128


def main(arguments: Sequence[str]) -> int:
    """Run the verb.

    Args:
        arguments: the words after ``estimate``.

    Returns:
        0 if it fits, 1 if it does not or may not, 2 for wrong usage, 3 if the program could not be
        predicted, 4 for a problem of this machine.
    """
    try:
        options = parse(arguments)
        if options is None:
            print(HELP, end="")
            return 0
        if options.lists_cards:
            print(card_list.as_json() if options.json else card_list.as_text())
            return 0
        check_folder()
        for note in options.notes:
            print_message(note)
        _use_calibration(options)
        with _ending_together(), tempfile.TemporaryDirectory(prefix="gpumemprof-") as folder:
            real = [folder, *options.real_folders]
            return _answer(replace(options, real_folders=real), Path(folder))
    except Error as error:
        print_message(str(error))
        return _CODES.get(error.code, _BUG_CODE)
    except OSError as error:
        if error.filename is None:  # Standard output: the caller knows what to say.
            raise
        print_message(f"{error.filename}: {error.strerror}")
        return _CODES["environment"]
    except KeyboardInterrupt:
        return _INTERRUPTED_CODE


@contextlib.contextmanager
def _ending_together() -> Iterator[None]:
    """Whoever ends the command ends the program that it runs, and leaves no files behind."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(_SIGNAL_CODE + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _use_calibration(options: Options) -> None:
    """Refuses a wrong file now; the program's process reads it where it is needed."""
    if options.calibration is not None:
        path = Path(options.calibration).absolute()
        check_calibration(path)
        os.environ[VARIABLE] = str(path)


def _answer(options: Options, folder: Path) -> int:
    if options.sweeps:
        return sweep.answer(options, folder)
    if options.is_for_all_cards:
        return all_cards.answer(options, folder)
    if options.fit_bytes is not None:
        return fit.answer(options, folder)
    if options.per_node is not None:
        return ranks.answer(options, folder)
    single = predict_for_card(options, folder)
    print(answer.as_json(options, single) if options.json else answer.as_text(options, single))
    return exit_code(single.verdict)
