"""What other libraries do that must be different in an estimate; applied when they are imported."""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Callable

from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.patches.compiler.triton_kernels import change_triton
from gpumemprof.estimate.patches.detectors.torchvision import DETECTORS
from gpumemprof.estimate.patches.exporting import change_inductor, change_onnx
from gpumemprof.estimate.patches.flex_attention import flex_attention
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.patches.saving import Saver

__all__ = ["install"]

Change = Callable[[Patcher, ModuleType, Saver], None]


def _transformers(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    # It takes another path for tensors that it knows to be traced.
    patcher.set_if_present(module, "is_fake_tensor", lambda *_: False)


def _lightning(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    """It writes the bytes that torch.save() gave it to a file by its own means."""

    def load(path: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if saver.has(path):
            return saver.load(path, map_location)
        return real_load(path, map_location, *args, **kwargs)

    patcher.set_if_present(module, "_atomic_save", saver.save)
    real_load = patcher.set_if_present(module, "_load", load)


def _flex_attention(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    real = getattr(module, "flex_attention", None)
    patcher.set_if_present(module, "flex_attention", flex_attention(saver.device, real))


def _onnx(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    change_onnx(patcher, module, saver.device)


def _triton(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    change_triton(patcher, module, saver.device)


def _ahead_of_time(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    change_inductor(patcher, module)


def _sharded_shapes(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    """DTensor finds shapes with fake tensors of its own, which must not count as the program's."""
    kind = module.ShardingPropagator
    real = kind._propagate_tensor_meta_non_cached

    def propagate(*args: Any, **kwargs: Any) -> Any:
        with outside_modes(keeps_functions=True):
            return real(*args, **kwargs)

    patcher.set(kind, "_propagate_tensor_meta_non_cached", propagate)


def _detectors(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    DETECTORS[module.__name__](patcher, module, saver.device)


def _hub(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    """Where there is no network, it waits half a minute for each of a model's many files."""
    real = getattr(module, "_http_backoff_base", None)
    if real is None:
        return
    failures: list[str] = []

    def request(*args: Any, **kwargs: Any) -> Any:
        if failures:
            kwargs["max_retries"] = 0
        try:
            yield from real(*args, **kwargs)
        except Exception as error:
            if "Connect" in type(error).__name__:
                failures.append(str(error))
            raise

    patcher.set(module, "_http_backoff_base", request)


def _extensions(patcher: Patcher, module: ModuleType, saver: Saver) -> None:
    """To compile a kernel takes minutes, and its functions could not be called here."""

    def refuse_kernels(function: Any, sources: str) -> Any:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def compile_extension(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            found = given.get(sources) or ()
            found = [found] if isinstance(found, str) else found
            has_kernels = sources == "cuda_sources" or any(
                str(each).endswith((".cu", ".cuh")) for each in found
            )
            if found and has_kernels and given.get("is_python_module", True):
                raise CannotEstimate(
                    f"the extension {given.get('name')} has CUDA code, which needs a GPU to run",
                    "compute the same with torch's operations for the estimate, or make it an "
                    "operation of torch.library with a shape (register_fake)",
                )
            return function(*args, **kwargs)

        return compile_extension

    for name, sources in (("load", "sources"), ("load_inline", "cuda_sources")):
        real = getattr(module, name, None)
        if real is not None:
            patcher.set(module, name, refuse_kernels(real, sources))


_CHANGES: dict[str, Change] = {
    "huggingface_hub.utils._http": _hub,
    "torch.utils.cpp_extension": _extensions,
    "torch.nn.attention.flex_attention": _flex_attention,
    "torch.onnx": _onnx,
    "torch._inductor": _ahead_of_time,
    "torch.distributed.tensor._sharding_prop": _sharded_shapes,
    "triton.runtime.jit": _triton,
    "triton.runtime.autotuner": _triton,
    "transformers.utils.import_utils": _transformers,
    "lightning.fabric.utilities.cloud_io": _lightning,
    "lightning_fabric.utilities.cloud_io": _lightning,
    **dict.fromkeys(DETECTORS, _detectors),
}


def install(patcher: Patcher, saver: Saver) -> None:
    for name, change in _CHANGES.items():
        module = sys.modules.get(name)
        if module is not None:
            change(patcher, module, saver)
    finder = _Finder(patcher, saver)
    sys.meta_path.insert(0, finder)
    patcher.on_undo(lambda: sys.meta_path.remove(finder))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the libraries that are changed, as Python would, and changes them once loaded."""

    def __init__(self, patcher: Patcher, saver: Saver) -> None:
        self._patcher = patcher
        self._saver = saver
        self._is_busy = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _CHANGES or self._is_busy:
            return None
        self._is_busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_busy = False
        if spec is None or spec.loader is None:
            return None
        change = _CHANGES[name]
        spec.loader = _Loader(
            spec.loader, lambda module: change(self._patcher, module, self._saver)
        )
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, real: Any, change: Callable[[ModuleType], None]) -> None:
        self._real = real
        self._change = change

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        self._change(module)
