"""The exceptions and warnings. Every error is one sentence: what failed, where, and what to do."""

from __future__ import annotations

import errno

from gpumemprof.printable import printable

__all__ = [
    "CutFileWarning",
    "EnvironmentProblem",
    "Error",
    "InputError",
    "InternalError",
    "LeakWarning",
    "MissingFileError",
    "NoCudaError",
    "RecordingWarning",
    "UsageError",
]


class Error(Exception):
    """Base class of all gpumemprof errors; ``str(error)`` is the whole sentence.

    >>> print(Error("it is cut off", where="run.gmp", hint="record it again"))
    run.gmp: it is cut off; record it again

    Attributes:
        message: what failed.
        code: the kind of error: ``usage``, ``bad_input``, ``environment``,
            ``limit_exceeded`` or ``bug``. Each has its own exit code on the command line.
        where: the file, and the byte or event if known; may be empty.
        hint: what to do next; may be empty.
    """

    message: str
    code: str
    where: str
    hint: str

    def __init__(self, message: str, code: str = "bug", where: str = "", hint: str = "") -> None:
        super().__init__(message, code, where, hint)
        self.message = message
        self.code = code
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        """The sentence: where, what failed, what to do."""
        where = f"{self.where}: " if self.where else ""
        hint = f"; {self.hint}" if self.hint else ""
        return printable(f"{where}{self.message}{hint}")


class InputError(Error, ValueError):
    """A file is not in the format it claims to be in.

    >>> issubclass(InputError, ValueError)
    True
    """


class MissingFileError(InputError, FileNotFoundError):
    """The file does not exist; ``except FileNotFoundError`` catches it too.

    >>> issubclass(MissingFileError, FileNotFoundError)
    True
    """

    def __init__(self, message: str, code: str = "bug", where: str = "", hint: str = "") -> None:
        super().__init__(message, code, where, hint)
        self.errno = errno.ENOENT
        self.strerror = message
        self.filename = where


class UsageError(Error, ValueError):
    """The call itself was wrong: an event or device that does not exist, an unknown name.

    >>> issubclass(UsageError, ValueError)
    True
    """


class EnvironmentProblem(Error):  # noqa: N818 - EnvironmentError is Python's old name of OSError
    """The machine lacks something, such as memory.

    >>> EnvironmentProblem("there is no room", "environment").code
    'environment'
    """


class NoCudaError(EnvironmentProblem, RuntimeError):
    """There is no CUDA device to profile, or no torch; ``except RuntimeError`` catches it too.

    >>> issubclass(NoCudaError, RuntimeError)
    True
    """


class NotCudaError(UsageError, NoCudaError):
    """A non-CUDA device was requested where there is no CUDA either: wrong both ways."""


class InternalError(Error, RuntimeError):
    """A bug in gpumemprof. Please report it, with the file if you can share it.

    >>> issubclass(InternalError, RuntimeError)
    True
    """


class CutFileWarning(UserWarning):
    """The file is truncated: the figures cover what comes before the cut.

    ::

        warnings.simplefilter("error", gpumemprof.CutFileWarning)  # refuse such files
    """


class RecordingWarning(UserWarning):
    """A live recording is not everything that was asked for; the program itself was unaffected.

    ::

        warnings.simplefilter("ignore", gpumemprof.RecordingWarning)
    """


class LeakWarning(UserWarning):
    """Memory is still held that should have been freed, or more and more of it is.

    ::

        warnings.simplefilter("error", gpumemprof.LeakWarning)  # let a test fail
    """


_NO_SUCH_FILE = "no such file"
_CLASSES: dict[str, type[Error]] = {
    "usage": UsageError,
    "bad_input": InputError,
    "environment": EnvironmentProblem,
    "bug": InternalError,
}


def from_native(message: str, code: str, where: str, hint: str) -> Error:
    """The exception for an error of the native code."""
    kind = _CLASSES.get(code, Error)
    if kind is InputError and message == _NO_SUCH_FILE:
        kind = MissingFileError
    if kind is InternalError:
        hint = "internal error of gpumemprof, please report it"
    return kind(message, code, where, hint)
