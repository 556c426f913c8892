"""Predicts the GPU memory of a program on a machine without a GPU.

``gpumemprof estimate`` runs whole programs (`command`). In a notebook the package itself is a
function, ``gpumemprof.estimate(step)``, beside ``gpumemprof.estimating()``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

__all__: list[str] = []


class _Function(ModuleType):
    """A package that can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See `gpumemprof.estimate.notebook.estimate`."""
        from gpumemprof.estimate.notebook import estimate

        return estimate(*args, **kwargs)


sys.modules[__name__].__class__ = _Function
