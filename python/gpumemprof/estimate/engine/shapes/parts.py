"""Operators that call functions of the program, as `torch.cond` does: what these do is followed."""

from __future__ import annotations

from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.failures import no_parts

__all__ = ["run_parts"]

# What such an operator runs on a GPU, without a compiler.
_KERNELS = (torch._C.DispatchKey.CompositeExplicitAutograd, torch._C.DispatchKey.CUDA)


def run_parts(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Its result; the operations of its functions are ordinary ones.

    Raises:
        CannotEstimate: torch has no such form of it.
    """
    if (own := _OWN.get(func.name())) is not None:
        return own(*args, **kwargs)
    kernels = (func.py_kernels.get(key) for key in _KERNELS)
    kernel = next((each for each in kernels if each is not None), None)
    if kernel is None:
        raise no_parts(func.name())
    return kernel(*args, **kwargs)


def _condition(
    condition: Any, if_true: Callable[..., Any], if_false: Callable[..., Any], operands: Any = ()
) -> Any:
    return if_true(*operands) if condition else if_false(*operands)


# Torch's own want to be called without any mode.
_OWN: dict[str, Callable[..., Any]] = {"cond": _condition}
