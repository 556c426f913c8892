"""Predicts the GPU memory of a program on a machine without a GPU.

``gpumemprof estimate`` runs whole programs (`command`). In a notebook, this package itself is the
function ``gpumemprof.estimate``::

    result = gpumemprof.estimate(train_step, model=model, gpu="l4")
    print(result.verdict.sentence)

See `gpumemprof.estimate.notebook.estimate` for its arguments.
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
