"""A program that cannot be predicted: one sentence with the line and what to do."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

import torch

from gpumemprof.errors import Error
from gpumemprof.estimate.engine.user_lines import Line, belongs_to_library, current_line
from gpumemprof.estimate.hidden_files import hidden_files

__all__ = [
    "CannotEstimate",
    "as_on_a_gpu",
    "explained",
    "hide_frames",
    "line_of",
    "no_parts",
    "no_shape_function",
    "no_such_card",
    "refusals",
]

refusals: list[tuple[str, Line]] = []
"""Every sentence so far: a program may catch one and go on."""


class CannotEstimate(Error):  # noqa: N818
    """Raised in the program at the line that cannot be predicted."""

    def __init__(self, message: str, hint: str, line: Line | None = None) -> None:
        self.line = current_line() if line is None else line
        super().__init__(message, "environment", str(self.line), hint)
        refusals.append((str(self), self.line))


# What torch says when code reads a fake tensor's data, or asks the driver for a card.
_READS_DATA = (
    "data is not allocated yet",
    "Cannot access data pointer",
    "Attempted to access the data pointer",
    "Invalid Python storage",
)
_ASKS_DRIVER = (
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "Torch not compiled with CUDA",
    "CUDA error",
    "CUDA driver",
    "libcuda.so",
)
_OF_OTHER_PROCESSES = ("ProcessRaisedException", "ProcessExitedException", "ChildFailedError")
_REMOTE = ("RemoteTraceback", "_RemoteTraceback")  # of a pool of processes
_STARTS_PROGRAMS = ("python", "torchrun", "accelerate", "deepspeed")
# With the operation's name.
_NOT_SUPPORTED = re.compile(
    r"Could not run '(?P<run>[\w:.]+)'|(?P<meta>\w+::\w+): attempted to run this operator with Meta"
    r"|no fake impl registered for <CustomOpDef\((?P<custom>[\w:]+)\)"
    r"|no rule registered for HigherOrderOperator (?P<higher>\w+)"
)
# Errors that no program of a user causes in torch's own code for tensors without memory.
_INTERNAL = (AssertionError, AttributeError, KeyError, NameError, NotImplementedError)
_ABOUT_META = "cannot be called on meta tensors"
# What torch's compiled code says of tensors without data, in words of its own.
_ABOUT_FAKES = (
    "already associated to a python object of type FakeTensor",
    "basic_string: construction from null",
    "only available on CPU",
    "Attempting to use FunctionalTensor on its own",
)
# Files of torch that only pass a call on.
_PASSED_THROUGH = ("torch/_compile.py", "torch/_dynamo/eval_frame.py", "torch/utils/_stats.py")


def explained(error: BaseException, trace: TracebackType | None) -> str:
    """One sentence, if it is the estimate that made the program fail; else empty."""
    if isinstance(error, CannotEstimate):
        return str(error)
    if isinstance(error, Error) or not isinstance(error, Exception) or _is_raised_by_user(trace):
        return ""
    if "is_as_torch_says" in error.__dict__:
        return ""  # The program would fail on a GPU as well.
    text = str(error)
    line = line_of(trace)
    if any(each in text for each in _READS_DATA):
        return (
            f"{line}: compiled code read the data of a tensor, which an estimate does not have; "
            "make it an operation with torch.library.custom_op and describe its results with "
            "register_fake"
        )
    if _is_of_other_process(error):
        return (
            f"{line}: processes that the program starts are not predicted; call their function "
            "here instead, for one of them"
        )
    unsupported = _NOT_SUPPORTED.search(text)
    if unsupported is not None:
        name = next(each for each in unsupported.groups() if each)
        return f"{line}: {_shape_is_unknown(name)}; {_what_to_do(name)}"
    if any(each in text for each in _ASKS_DRIVER):
        return (
            f"{line}: estimate cannot answer what this asks of the CUDA driver; leave it out "
            "of the program that is predicted"
        )
    is_internal = isinstance(error, _INTERNAL) or _ABOUT_META in text
    if (
        type(error).__module__.startswith("torch._subclasses")
        or any(each in text for each in _ABOUT_FAKES)
        or (is_internal and _is_raised_inside(trace))
    ):
        what = " ".join([f"{type(error).__name__}:", *text.splitlines()[:1]]).rstrip(": ")
        return (
            f"{line}: estimate cannot follow this operation ({what}); leave it out, or write it "
            "with other operations"
        )
    return ""


def _is_of_other_process(error: BaseException) -> bool:
    """Whether it reports what failed in a process that the program started."""
    name = type(error).__name__
    if name == "CalledProcessError":
        command = getattr(error, "cmd", "")
        first = str(command if isinstance(command, str) else next(iter(command), ""))
        return any(each in first.split(" ")[0] for each in _STARTS_PROGRAMS)
    return name in _OF_OTHER_PROCESSES or type(error.__cause__).__name__ in _REMOTE


def as_on_a_gpu(error: Exception) -> Exception:
    """The error that torch raises with plain tensors, if it is known."""
    match = re.search(r"found two different devices ([\w:]+), ([\w:]+)", str(error))
    if match is None:
        return error
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{match[1]} and {match[2]}!"
    )


def hide_frames(error: BaseException) -> None:
    """Leave only frames that the program would have without the estimate."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _visible(each.__traceback__)
        waiting += [each.__cause__, each.__context__]


def _visible(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    is_inside = False
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file.startswith(hidden_files()) or file.endswith(_PASSED_THROUGH):
            is_inside = True
        elif not is_inside or not belongs_to_library(file):
            is_inside = False
            kept.append(trace)
        trace = trace.tb_next
    found: TracebackType | None = None
    for each in reversed(kept):
        found = TracebackType(found, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return found


def _innermost(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _is_raised_by_user(trace: TracebackType | None) -> bool:
    """Whether a line of the program itself raised it."""
    inner = _innermost(trace)
    if inner is None:
        return False
    file = inner.tb_frame.f_code.co_filename
    if belongs_to_library(file):
        return False
    text = Line(file, inner.tb_lineno, "").text
    return text.startswith("raise") or "; raise " in text or ": raise " in text


def _is_raised_inside(trace: TracebackType | None) -> bool:
    inner = _innermost(trace)
    return inner is not None and inner.tb_frame.f_code.co_filename.startswith(hidden_files())


def line_of(trace: TracebackType | None) -> Line:
    """The program's innermost line in a traceback."""
    found = Line("", 0, "")
    is_library = True
    while trace is not None:
        code = trace.tb_frame.f_code
        if not belongs_to_library(code.co_filename):
            found, is_library = Line(code.co_filename, trace.tb_lineno, code.co_name), False
        elif is_library and not code.co_filename.startswith(hidden_files()):
            found = Line(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found


def no_such_card(device: torch.device, count: int) -> CannotEstimate:
    """A tensor on a card that the estimate does not have."""
    have = "one card is" if count == 1 else f"{count} cards are"
    return CannotEstimate(f"{have} predicted, and this uses {device}", "use cuda:0 there")


def no_shape_function(func: Any, reason: object = "") -> CannotEstimate:
    """The shape of an operation's results is not known."""
    name = func._schema.name
    because = f" ({reason})" if reason else ""
    return CannotEstimate(f"{_shape_is_unknown(name)}{because}", _what_to_do(name))


def no_parts(name: str) -> CannotEstimate:
    """An operator that calls functions, and that only a compiler can run."""
    return CannotEstimate(_shape_is_unknown(name), _what_to_do(name))


def _shape_is_unknown(name: str) -> str:
    return f"estimate does not know the shape of what {name} returns"


def _what_to_do(name: str) -> str:
    if "::" not in name or name.startswith(("aten::", "prim", "quantized::")):
        return "it is torch's own: leave it out, or write it with other operations"
    return f'describe it with @torch.library.register_fake("{name}") and run again'
