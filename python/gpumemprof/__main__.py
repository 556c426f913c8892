"""The ``gpumemprof`` command, also available as ``python -m gpumemprof``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gpumemprof import _core
from gpumemprof._data import demo_path, viewer_path
from gpumemprof.errors import EnvironmentProblem
from gpumemprof.ranks.folders import are_ranks_among
from gpumemprof.same_name import check_name

_ENVIRONMENT_CODE = 4


@contextmanager
def _default_signals() -> Iterator[None]:
    """Let Ctrl-C and a closed pipe end the native code at once, as they end any command.

    Python would only note the signal, and act on it once the native code returns.
    """
    signals = [signal.SIGINT, signal.SIGPIPE]
    before = [signal.signal(number, signal.SIG_DFL) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, before):
            signal.signal(number, handler)


def _printing(verb: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
    """Run a verb that prints through Python; a failed write is an error."""
    code = 0
    try:
        code = verb(words)
        sys.stdout.flush()
    except BrokenPipeError:
        pass
    except OSError as error:
        print(
            f"gpumemprof: standard output: the output could not be written ({error.strerror}); "
            "free some space, or redirect the output elsewhere",
            file=sys.stderr,
        )
        code = _ENVIRONMENT_CODE
    else:
        return code
    # Python must not try to write what is still in the buffer when it exits.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: the words after the command's name; those of this process by default.

    Returns:
        The exit code: 0 success, 1 limit exceeded, 2 usage, 3 bad input, 4 environment, 70 bug.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["help"] and len(given) > 1:
        given = [given[1], "--help"]
    try:
        check_name()
    except EnvironmentProblem as problem:
        print(f"gpumemprof: {problem}", file=sys.stderr)
        return _ENVIRONMENT_CODE
    if given and given[0] == "run":
        from gpumemprof.recorder import run

        # The program's output is left alone.
        is_help = given[1:2] in (["-h"], ["--help"])
        return _printing(run.main, given[1:]) if is_help else run.main(given[1:])
    if given and given[0] == "estimate":
        from gpumemprof.estimate.command import main as estimate

        return _printing(estimate.main, given[1:])
    if given and given[0] == "calibrate":
        from gpumemprof.estimate.calibrate import main as calibrate

        return _printing(calibrate.main, given[1:])
    if given and given[0] == "live":
        from gpumemprof.live import command as live

        return _printing(live.main, given[1:])
    if given and (given[0] == "ranks" or (given[0] == "report" and are_ranks_among(given[1:]))):
        from gpumemprof.ranks import command as ranks

        return _printing(ranks.main, given[1:])
    if given and given[0] == "compare" and are_ranks_among(given[1:]):
        from gpumemprof.ranks import compare_command

        recordings = compare_command.as_recordings(given[1:])
        if recordings is None:
            return _printing(compare_command.main, given[1:])
        given = ["compare", *recordings]
    if given and given[0] == "export":
        from gpumemprof.export import command as export

        return _printing(export.main, given[1:])
    if given and given[0] == "convert":
        from gpumemprof.export import convert

        if convert.is_wanted(given[1:]):
            return _printing(convert.main, given[1:])
    if given and given[0] == "advise":
        from gpumemprof.verify import command as verify

        if verify.is_wanted(given[1:]):
            return _printing(verify.main, given[1:])
    rank_pages = None
    if given and given[0] == "view" and are_ranks_among(given[1:]):
        from gpumemprof.ranks.page import serve

        prepared = serve.prepare(given[1:])
        if isinstance(prepared, int):
            return prepared
        given, rank_pages = ["view", *prepared.words], prepared.ranks
    words = ["gpumemprof", *given]
    sys.stdout.flush()
    with _default_signals():
        return _core.run_cli(
            [os.fsencode(word) for word in words],
            os.fsencode(demo_path()),
            os.fsencode(viewer_path()),
            rank_pages,
        )


if __name__ == "__main__":
    sys.exit(main())
