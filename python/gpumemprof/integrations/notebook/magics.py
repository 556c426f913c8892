"""``%%gpumemprof`` records a cell; ``%gpumemprof_view`` shows a recording in the viewer."""

from __future__ import annotations

import ast
import contextlib
import inspect
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpumemprof import _core
from gpumemprof.command_line import CommandParser
from gpumemprof.errors import Error, UsageError
from gpumemprof.integrations.notebook.viewer import Viewer
from gpumemprof.read.html import table_html
from gpumemprof.recorder import kept
from gpumemprof.recorder.api import record
from gpumemprof.verify.program import open_quietly

__all__ = ["load", "unload"]

_HELP = """\
Record every allocation of a cell, and show where the memory went.

Usage: %%gpumemprof [OPTIONS]

Options, as those of gpumemprof run:
  -o, --output FILE   Keep the recording in FILE (default: until the
                      kernel ends)
  -f, --force         Replace FILE if it exists
  --keep SIZE         Use no more of the disk than SIZE (2GiB)
  --no-stacks         Do not record where memory was allocated
  --native-stacks     Also record the C++ frames of extension modules, below the
                      Python ones
  --no-labels         Do not record which memory holds parameters,
                      gradients and optimizer state
  --cpu               Record CPU tensors; the default without CUDA
  --alert CONDITION   Say when a condition is met, such as "headroom<5%" or
                      "growth>100MiB/min"; may be given several times
  --alert-webhook URL Also send each alert as JSON to this address
  --alert-command CMD Also run this command for each alert
  --view              Show the viewer instead of a table
  -h, --help          Print this help

The cell's value is the recording, so that _ is it in the next cell.
"""
# Flags of run that are about whole processes.
_WHOLE_PROGRAM = (
    "--live",
    "--no-children",
    "--leaks",
    "--leaks-signal",
    "--record-arguments",
    "--metrics",
    "-m",
    "-c",
)
_VIEW_HELP = """\
Show a recording in the viewer.

Usage: %gpumemprof_view FILE [--height PIXELS]
"""

_MOST_PIXELS = 100_000

# Holds recordings without a name until the kernel ends.
_folders: list[tempfile.TemporaryDirectory[str]] = []


def _cell_parser() -> CommandParser:
    parser = CommandParser("%%gpumemprof", _HELP)
    parser.add_argument("-o", "--output")
    parser.add_argument("-f", "--force", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--no-stacks", action="store_false", dest="stacks")
    parser.add_argument("--native-stacks", action="store_true")
    parser.add_argument("--no-labels", action="store_false", dest="labels")
    parser.add_argument("--cpu", action="store_true", default=None)
    parser.add_argument("--alert", action="append", default=[])
    parser.add_argument("--alert-webhook")
    parser.add_argument("--alert-command")
    parser.add_argument("--view", action="store_true")
    return parser


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise CommandParser("%%gpumemprof", _HELP).mistake(f"'{line}': {error}") from None


def _output(given: str | None) -> str:
    if given is not None:
        return str(Path(given).expanduser())
    folder = tempfile.TemporaryDirectory(prefix="gpumemprof-")
    _folders.append(folder)
    return str(Path(folder.name) / "cell.gmp")


@contextlib.contextmanager
def _alerts(given: Any) -> Iterator[None]:
    if not given.alert:
        yield
        return
    from gpumemprof.alerts.tracker import MemoryTracker

    device = "cpu" if given.cpu else None
    with MemoryTracker(
        device,
        alerts=given.alert,
        warn=True,
        webhook=given.alert_webhook,
        command=given.alert_command,
    ):
        yield


def _waits(shell: Any, cell: str) -> bool:
    """Whether the cell waits outside of a function, as IPython allows."""
    try:
        text = shell.transform_cell(cell)
        code = compile(text, "<cell>", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return False  # Which the cell itself will show.
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _cell_number(shell: Any) -> int:
    """The number of the cell that is running; versions of IPython count it on before or after."""
    frame = inspect.currentframe()
    named = getattr(shell.compile, "format_code_name", lambda _: None)
    while frame is not None:
        found = named(frame.f_code.co_filename)
        digits = "".join(letter for letter in str(found) if letter.isdecimal())
        if found is not None and digits:
            return int(digits)
        frame = frame.f_back
    return int(shell.execution_count)


def _run(shell: Any, cell: str) -> Any:
    """Run a cell in the notebook's own variables, as IPython does; the value of its last line."""
    __tracebackhide__ = True  # In a traceback of IPython, the cell's own lines are enough.
    text = shell.transform_cell(cell)
    name = shell.compile.cache(text, _cell_number(shell))
    tree = shell.transform_ast(ast.parse(text, filename=name))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), shell.user_ns)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), name, "eval"), shell.user_ns)
    return None if text.rstrip().endswith(";") else value


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """What goes wrong on our side is one sentence, without a traceback."""
    from IPython.core.error import UsageError as ShownWithoutTraceback

    try:
        yield
    except Error as error:
        # The cell has the flag of the command, not the argument of the function.
        raise ShownWithoutTraceback(str(error).replace("overwrite=True", "-f")) from None


def _read_flags(line: str) -> Any:
    parser = _cell_parser()
    words = _words(line)
    whole = next((word for word in words if word.partition("=")[0] in _WHOLE_PROGRAM), None)
    if whole is not None:
        raise parser.mistake(f"{whole} is for whole programs, not for a cell")
    return parser.parse(words)


def _shown(path: str, given: Any) -> Any:
    return Viewer(path) if given.view else open_quietly(path)


def _record_cell(shell: Any, line: str, cell: str | None) -> Any:
    __tracebackhide__ = True
    with _sentences():
        given = _read_flags(line)
        if given.help:
            print(_HELP, end="")
            return None
        if cell is None:
            raise _cell_parser().mistake("write %%gpumemprof in the first line of a cell")
        if _waits(shell, cell):
            raise UsageError(
                "a cell with await cannot be recorded by %%gpumemprof",
                "usage",
                "",
                "write 'with gpumemprof.record(\"run.gmp\"):' around the part to record",
            )
        path = _output(given.output)
    is_recorded = False
    try:
        with contextlib.ExitStack() as stack:
            with _sentences():
                stack.enter_context(_recording(path, given))
                stack.enter_context(_alerts(given))
            is_recorded = True
            value = _run(shell, cell)
    except BaseException:
        # Where memory went is wanted most when it ran out.
        if is_recorded:
            with contextlib.suppress(Exception):
                _display(_shown(path, given))
        raise
    if value is not None:
        _display(value)
    with _sentences():
        return _shown(path, given)


def _recording(path: str, given: Any) -> record:
    return record(
        path,
        stacks=given.stacks,
        cpu=given.cpu,
        overwrite=given.force,
        labels=given.labels,
        keep=kept.kept_bytes(given.keep, "--keep") or None,
        native_stacks=given.native_stacks,
    )


def _display(value: Any) -> None:
    from IPython.display import display

    display(value)


def _show(line: str) -> Any:
    parser = CommandParser("%gpumemprof_view", _VIEW_HELP)
    parser.add_argument("file", nargs="?")
    parser.add_argument("--height", default="640")
    given = parser.parse(_words(line))
    if given.help:
        print(_VIEW_HELP, end="")
        return None
    if given.file is None:
        raise parser.mistake("%gpumemprof_view needs a recording")
    height = str(given.height)
    if not (height.isascii() and height.isdecimal() and 0 < int(height) <= _MOST_PIXELS):
        raise parser.mistake(f"--height takes a number of pixels such as 500, not '{height}'")
    return Viewer(Path(given.file).expanduser(), int(height))


def load(shell: Any) -> None:
    """Add the magics to a shell of IPython."""

    def gpumemprof(line: str, cell: str | None = None) -> Any:
        """Record a cell; `%gpumemprof --help` prints the flags."""
        __tracebackhide__ = True
        return _record_cell(shell, line, cell)

    def gpumemprof_view(line: str) -> Any:
        """Show a recording in the viewer."""
        with _sentences():
            return _show(line)

    shell.register_magic_function(gpumemprof, "line_cell")
    shell.register_magic_function(gpumemprof_view, "line")
    formatter = shell.display_formatter.formatters.get("text/html")
    if formatter is not None:
        formatter.for_type(_core.Table, table_html)


def unload(shell: Any) -> None:
    """Remove them."""
    for kind, name in (("line", "gpumemprof"), ("cell", "gpumemprof"), ("line", "gpumemprof_view")):
        shell.magics_manager.magics[kind].pop(name, None)
    formatter = shell.display_formatter.formatters.get("text/html")
    if formatter is not None:
        formatter.pop(_core.Table, None)
