"""accelerate: saving as a phase, and figures in what an Accelerator logs.

::

    from gpumemprof.integrations.accelerate import watch

    accelerator = Accelerator(log_with="tensorboard", project_dir="logs")
    watch(accelerator)
"""

from __future__ import annotations

import functools
from typing import Any, TypeVar

from gpumemprof.errors import UsageError
from gpumemprof.integrations.metrics import MemoryMetrics
from gpumemprof.integrations.phases import in_phase, phase

__all__ = ["phase", "watch"]

_Accelerator = TypeVar("_Accelerator")
_SAVES = ("save_state", "save_model")


def watch(accelerator: _Accelerator, *, metrics: bool = True, device: Any = None) -> _Accelerator:
    """Mark saving in open recordings, and add a few figures to what ``accelerator.log`` logs.

    Optimizer steps are known without it. Mark evaluation by ``with phase("evaluation"):``.

    ::

        accelerator = watch(Accelerator())

    Args:
        accelerator: an ``Accelerator``, which is also returned.
        metrics: add the figures since the last log.
        device: the device whose figures they are; see `MemoryMetrics`.

    Raises:
        UsageError: it is not an ``Accelerator``.
    """
    if not hasattr(accelerator, "log"):
        raise UsageError(
            f"watch() was given {accelerator!r}, which is not an Accelerator",
            "usage",
            hint="pass it the program's accelerate.Accelerator",
        )
    changed: Any = accelerator
    for name in _SAVES:
        if hasattr(changed, name):
            setattr(changed, name, in_phase("saving", getattr(changed, name)))
    if metrics:
        figures = MemoryMetrics(device)
        log = changed.log

        @functools.wraps(log)
        def log_with_figures(values: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
            return log({**values, **figures.take()}, *args, **kwargs)

        changed.log = log_with_figures
    return accelerator
