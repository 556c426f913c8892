"""A program that cannot be predicted: one sentence with the line and what to do."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from gpumemprof.errors import Error
from gpumemprof.estimate.engine.user_lines import Line, belongs_to_library, current_line

__all__ = ["CannotEstimate", "explained", "line_of", "no_shape_function"]


class CannotEstimate(Error):  # noqa: N818
    """Raised in the program at the line that cannot be predicted."""

    def __init__(self, message: str, hint: str, line: Line | None = None) -> None:
        self.line = current_line() if line is None else line
        super().__init__(message, "environment", str(self.line), hint)


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
    "with arguments from the 'CUDA' backend",
)


def explained(error: BaseException, trace: TracebackType | None) -> str:
    """One sentence, if it is the estimate that made the program fail; else empty."""
    if isinstance(error, CannotEstimate):
        return str(error)
    text = str(error)
    line = line_of(trace)
    if any(each in text for each in _READS_DATA):
        return (
            f"{line}: compiled code read the data of a tensor, which an estimate does not have; "
            "make it an operation with torch.library.custom_op and describe its results with "
            "register_fake"
        )
    if type(error).__module__.startswith("torch._subclasses"):
        return f"{line}: estimate cannot follow this operation ({text.splitlines()[0]})"
    if any(each in text for each in _ASKS_DRIVER):
        return (
            f"{line}: estimate cannot answer what this asks of the CUDA driver; skip it when "
            "torch.cuda.get_device_name() is all that is known of the card"
        )
    return ""


def line_of(trace: TracebackType | None) -> Line:
    """The program's innermost line in a traceback."""
    found = Line("", 0, "")
    while trace is not None:
        code = trace.tb_frame.f_code
        if not belongs_to_library(code.co_filename) or not found.file:
            found = Line(code.co_filename, trace.tb_lineno, code.co_name)
        trace = trace.tb_next
    return found


def no_shape_function(func: Any, reason: object = "") -> CannotEstimate:
    """The shape of an operation's results is not known."""
    name = func._schema.name
    because = f" ({reason})" if reason else ""
    return CannotEstimate(
        f"estimate does not know the shape of what {name} returns{because}",
        f'describe it with @torch.library.register_fake("{name}") and run again',
    )
