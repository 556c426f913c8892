"""torch's compiler on a machine without a GPU: it writes programs, but no kernel is built."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["Inductor"]

_SETTINGS = {
    "compile_threads": 1,
    "force_disable_caches": True,  # Nothing of this may reach a real run.
    "max_autotune": False,
    "max_autotune_gemm": False,
    "max_autotune_pointwise": False,
    "coordinate_descent_tuning": False,
    "triton.cudagraphs": False,
}


class _Kernel:
    """A kernel of a compiled program; its results have no contents."""

    def run(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *_: Any, **__: Any) -> None:
        pass

    def __getitem__(self, _: Any) -> _Kernel:
        return self


class _OnCpu(TorchDispatchMode):  # type: ignore[misc]
    """The compiler computes a few constants for real."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("cpu")
        return func(*args, **kwargs)


def _on_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with _OnCpu():
            return function(*args, **kwargs)

    return run


class Inductor:
    """Changes torch's compiler when a program first asks for it: importing it takes seconds."""

    def __init__(self, patcher: Patcher, device: Device) -> None:
        self._patcher = patcher
        self._device = device
        self._is_prepared: bool | None = None
        self._has_failed = False

    def prepare(self) -> bool:
        """Whether programs can be compiled."""
        if self._is_prepared is None:
            try:
                with outside_modes():
                    self._install()
                self._is_prepared = True
            except (ImportError, AttributeError):  # another release of torch
                self._is_prepared = False
        return self._is_prepared

    def _install(self) -> None:
        from torch._dynamo import convert_frame
        from torch._inductor import async_compile, compile_fx, config, constant_folding
        from torch.utils import _triton

        patcher = self._patcher
        self._use_own_folder()
        known = config.get_config_copy()
        changes = config.patch({name: _SETTINGS[name] for name in _SETTINGS if name in known})
        changes.__enter__()
        patcher.on_undo(lambda: changes.__exit__(None, None, None))
        patcher.set(FakeTensorMode, "avoid_device_init", property(lambda _: True))
        self._replace_everywhere(_triton, "has_triton", lambda *_: True)
        self._replace_everywhere(_triton, "triton_backend", lambda *_: None)
        self._replace_everywhere(_triton, "triton_hash_with_backend", lambda *_: "none")
        self._install_runtime(async_compile)
        folder = constant_folding.ConstantFolder
        patcher.set(folder, "run", _on_cpu(folder.run))
        wrapper = convert_frame.CatchErrorsWrapper
        patcher.set(wrapper, "__call__", self._trying(wrapper.__call__))
        patcher.set(compile_fx, "_compile_fx_inner", self._compiling(compile_fx._compile_fx_inner))

    def _use_own_folder(self) -> None:
        name = "TORCHINDUCTOR_CACHE_DIR"
        folder = tempfile.mkdtemp(prefix="gpumemprof-compiled-")
        self._patcher.item(os.environ, name, folder)
        self._patcher.on_undo(lambda: shutil.rmtree(folder, ignore_errors=True))

    def _install_runtime(self, async_compile: Any) -> None:
        """What compiled programs call."""
        patcher = self._patcher
        for name in ("triton", "cpp", "cpp_pybinding", "multi_kernel"):
            patcher.set_if_present(async_compile.AsyncCompile, name, lambda *_, **__: _Kernel())
        patcher.set(async_compile.AsyncCompile, "wait", lambda *_, **__: None)
        guards = torch._C._dynamo.guards

        def empty_on(device: str) -> Callable[..., torch.Tensor]:
            def empty(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
                return torch.empty_strided(size, stride, dtype=dtype, device=device)

            return empty

        def reinterpreted(
            tensor: torch.Tensor, size: Any, stride: Any, offset: int = 0
        ) -> torch.Tensor:
            return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)

        patcher.set_if_present(guards, "_empty_strided_cuda", empty_on("cuda"))
        patcher.set_if_present(guards, "_empty_strided_cpu", empty_on("cpu"))
        patcher.set_if_present(guards, "_reinterpret_tensor", reinterpreted)

    def _replace_everywhere(self, owner: Any, name: str, new: Any) -> None:
        """Also where it was imported by name."""
        old = getattr(owner, name)
        for module in list(sys.modules.values()):
            if vars(module).get(name) is old if hasattr(module, "__dict__") else False:
                self._patcher.set(module, name, new)

    def _trying(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        """Tracing a function; one that cannot be compiled runs as it is."""
        from torch._dynamo import types

        make_skip = getattr(types, "ConvertFrameReturn", lambda: None)

        def tried(*args: Any, **kwargs: Any) -> Any:
            if self._has_failed:
                return make_skip()
            try:
                with outside_modes():
                    return convert(*args, **kwargs)
            except (torch.OutOfMemoryError, CannotEstimate):
                raise
            except Exception as error:
                self._note_failure(error)
                return make_skip()

        return tried

    def _compiling(self, compile_graph: Callable[..., Any]) -> Callable[..., Any]:
        """Compiling a graph; one that cannot be compiled runs operation by operation."""

        def compiled(graph: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                with outside_modes():
                    made = compile_graph(graph, inputs, *args, **kwargs)
                self._device.note(
                    "behaviour", "a compiled program runs as on a GPU, without its kernels"
                )
                return made
            except Exception as error:
                from torch._functorch.aot_autograd import make_boxed_func

                self._note_failure(error)
                return make_boxed_func(graph.forward)

        return compiled

    def _note_failure(self, error: Exception) -> None:
        self._has_failed = True
        reason = next(iter(str(error).strip().splitlines()), "")
        self._device.note(
            "execution",
            "torch.compile failed here, and the eager program is predicted "
            f"({type(error).__name__}: {reason})",
        )
