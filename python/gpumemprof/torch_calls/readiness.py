"""What torch the program has imported, and whether CUDA may be used yet."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Callable

from gpumemprof.torch_calls.import_watch import TorchWatch, executed_torch, torch_file

__all__ = [
    "has_cuda",
    "is_imported",
    "torch_versions",
    "version",
    "wait_for_device",
    "when_cuda_is_ready",
    "when_imported",
]


def is_imported() -> bool:
    """Whether the program has finished importing torch."""
    return executed_torch() is not None


def _folder() -> Path | None:
    file = torch_file()
    if file is not None:
        return Path(file).parent
    try:
        spec = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    return Path(spec.origin).parent if spec and spec.origin else None


def has_cuda() -> bool:
    """Whether torch was built for CUDA and there is a card, found without initialising either."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0") in ("", "-1"):
        return False
    folder = _folder()
    return (
        folder is not None
        and (folder / "lib" / "libc10_cuda.so").exists()
        and any(Path(name).exists() for name in _DRIVER_FILES)
    )


_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")

_watch = TorchWatch()


def when_imported(callback: Callable[[], None]) -> None:
    """Call back once the program has imported torch; at once if it already has."""
    _watch.add(callback)


def when_cuda_is_ready(callback: Callable[[], None]) -> None:
    """Call back once the program has initialised CUDA; at once if it already has."""
    import torch

    # torch runs what waits for CUDA under a lock that the same thread cannot take twice.
    is_inside = hasattr(torch.cuda._tls, "is_initializing")
    if is_inside or torch.cuda.is_initialized():
        callback()
    else:
        torch.cuda._lazy_call(callback)


def version() -> tuple[int, int]:
    """The major and minor version of torch."""
    import torch

    major, minor = str(torch.__version__).split(".")[:2]
    return int(major), int(minor)


def wait_for_device() -> None:
    """Wait for pending work on the current device, if the program uses CUDA at all."""
    import torch

    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()


def torch_versions() -> dict[str, str]:
    """Versions, for the header of the recording."""
    import torch

    found = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        found["cuda"] = str(torch.version.cuda)
    return found
