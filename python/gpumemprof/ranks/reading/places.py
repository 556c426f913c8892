"""Files here and elsewhere: paths of this machine, and URLs such as ``s3://``, through fsspec.

fsspec is not installed with the package; whoever names a URL is told how to install it. A file
elsewhere is copied to a temporary folder for as long as it is read: recordings are read by our own
reader, which needs a file.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from gpumemprof.errors import EnvironmentProblem, InputError, MissingFileError
from gpumemprof.regular_file import read_regular

__all__ = ["Listed", "is_url", "list_files", "local_copy", "local_path", "put_file", "read_bytes"]

_LOCAL = "file://"
_MAGIC = "*?["
# A summary has up to a kilobyte a step.
_MOST_BYTES = 1 << 30


class Listed(NamedTuple):
    """A file elsewhere."""

    url: str
    size_bytes: int | None


def is_url(word: str) -> bool:
    """Whether it names something that this machine's own files do not have.

    >>> [is_url(word) for word in ("runs", "s3://bucket/runs", "file:///runs")]
    [False, True, False]
    """
    return "://" in word and not word.startswith(_LOCAL)


def local_path(word: str) -> str:
    """A path as it is; ``file://`` without its scheme.

    >>> local_path("file:///runs/a%20b")
    '/runs/a b'
    """
    return unquote(urlsplit(word).path) if word.startswith(_LOCAL) else word


def _open(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise EnvironmentProblem(
            "reading URLs needs fsspec", "environment", url, "install it with: pip install fsspec"
        ) from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except ImportError as error:  # fsspec's own sentence names the package of the scheme
        raise EnvironmentProblem(
            _sentence(error), "environment", url, "install it with pip"
        ) from None
    except ValueError as error:
        raise InputError(_sentence(error), "bad_input", url, "check the URL") from None
    return system, str(path)


def _sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


@contextlib.contextmanager
def _told(url: str) -> Iterator[None]:
    """What fails elsewhere, as one sentence; libraries of object stores raise all kinds of errors.

    Raises:
        MissingFileError: it is not there.
        EnvironmentProblem: it cannot be reached, read or written.
    """
    try:
        yield
    except (EnvironmentProblem, InputError, MissingFileError):
        raise
    except FileNotFoundError:
        raise MissingFileError(
            "no such file or folder", "bad_input", url, "check the URL"
        ) from None
    except Exception as error:
        raise EnvironmentProblem(
            f"cannot be reached: {_sentence(error)}",
            "environment",
            url,
            "check the URL and your credentials",
        ) from None


def list_files(url: str) -> list[Listed]:
    """All files below a folder, those that match a pattern, or the one that is named.

    Raises:
        MissingFileError: it names nothing.
        EnvironmentProblem: it cannot be reached, or a package is missing.
    """
    system, path = _open(url)
    with _told(url):
        names = system.glob(path) if any(sign in path for sign in _MAGIC) else [path]
        found: dict[str, Listed] = {}
        for name in names:
            for file, facts in system.find(name, detail=True).items():
                found[file] = Listed(str(system.unstrip_protocol(file)), facts.get("size"))
    if not found:
        raise MissingFileError("no such file or folder", "bad_input", url, "check the URL")
    return [found[name] for name in sorted(found)]


def read_bytes(place: str) -> bytes:
    """All of a file, here or elsewhere.

    Raises:
        InputError: it is no file, or no summary of a rank is as long.
        OSError: it cannot be read.
        EnvironmentProblem: it cannot be reached.
    """
    if not is_url(place):
        return read_regular(local_path(place), _MOST_BYTES)
    system, path = _open(place)
    with _told(place):
        return bytes(system.cat_file(path))


@contextlib.contextmanager
def local_copy(place: str) -> Iterator[str]:
    """The path of the file or folder on this machine; a copy of what is elsewhere."""
    if not is_url(place):
        yield local_path(place)
        return
    system, path = _open(place)
    with tempfile.TemporaryDirectory(prefix="gpumemprof-") as folder:
        copy = str(Path(folder) / Path(path).name)
        with _told(place):
            # A recording in chapters is a folder.
            system.get(path, copy, recursive=bool(system.isdir(path)))
        yield copy


def put_file(local: str, url: str) -> None:
    """Copy a file to a URL; object stores show it as a whole or not at all."""
    system, path = _open(url)
    with _told(url):
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        system.put_file(local, path)
