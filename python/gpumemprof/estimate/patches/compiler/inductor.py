"""torch's compiler on a machine without a GPU: it writes programs, but no kernel is built."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import shutil
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import gpumemprof
from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.engine.fake_mode import FakeMode, outside_modes
from gpumemprof.estimate.patches.compiler import cuda_graph_trees, padding_trials
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


# Where `process_inputs` is, by release.
_READERS_OF_INPUTS = (
    "torch._functorch.aot_autograd",
    "torch._functorch._aot_autograd.frontend_utils",
)
_OWN_FOLDER = f"{Path(gpumemprof.__file__).parent}{os.sep}"


class _Kernel:
    """A kernel of a compiled program; its results have no contents."""

    def run(self, *args: Any, **_: Any) -> None:
        pass

    def __call__(self, *_: Any, **__: Any) -> None:
        pass

    def __getitem__(self, _: Any) -> _Kernel:
        return self


class _TimedKernel(_Kernel):
    """One that torch times in several configurations when it first runs."""

    def __init__(self, kernel: Any, device: Device) -> None:
        self._kernel = kernel
        self._device = device
        self._is_timed = False

    def run(self, *args: Any, **_: Any) -> None:
        if self._is_timed:
            return
        self._is_timed = True
        changed = set(getattr(self._kernel, "mutated_arg_names", None) or ())
        changed_bytes = [
            _extent_bytes(arg)
            for name, arg in zip(self._kernel.fn.arg_names, args)
            if name in changed and isinstance(arg, torch.Tensor) and arg.device.type == "cuda"
        ]
        cache_bytes = torch.cuda.get_device_properties().L2_cache_size
        for _ in self._kernel.configs:
            copies = self._copies_on_card(changed_bytes)
            self._device.held("timing a kernel", *copies)
            # A buffer that clears the cache between runs, and new copies in each run.
            self._device.held("timing a kernel", cache_bytes, *copies)

    def _copies_on_card(self, sizes: list[int]) -> list[int]:
        """What the kernel writes over is copied: to the host, where the peak would grow."""
        if not getattr(self._kernel, "optimize_mem", False):
            return sizes
        memory = self._device.memory
        left = memory.peak_allocated_bytes - memory.allocated_bytes
        copies = []
        for size in sizes:
            if size <= left:
                left -= size
                copies.append(size)
        return copies


def _extent_bytes(tensor: torch.Tensor) -> int:
    """From the first to the last element."""
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int((steps + 1) * tensor.element_size())


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


@contextlib.contextmanager
def _importable_triton() -> Iterator[None]:
    """Compiled programs import Triton, also where it is not installed."""
    names = ("triton", "triton.language")
    if importlib.util.find_spec("triton") is not None:
        yield
        return
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules["triton"].language = sys.modules["triton.language"]  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for name in names:
            sys.modules.pop(name, None)


class _OtherFake(type):
    """Fake tensors, except those of the program: to the compiler they are like real ones."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, FakeTensor) and type(value.fake_mode) is not FakeMode


class _CompilersFakeTensor(metaclass=_OtherFake):
    pass


def _detect(detect: Callable[..., Any]) -> Callable[..., Any]:
    """Inputs are fake already; older releases expect them to be of the compiler's own mode."""

    def detected(inputs: Any = None) -> Any:
        context = torch._guards.TracingContext.try_get()
        if context is not None and context.fake_mode is not None:
            return context.fake_mode
        return detect(inputs)

    return detected


class Inductor:
    """Changes torch's compiler when a program first asks for it: importing it takes seconds."""

    def __init__(self, patcher: Patcher, device: Device, modes: Callable[[], Any]) -> None:
        self._patcher = patcher
        self._modes = modes
        self._device = device
        self._is_prepared: bool | None = None
        self._has_failed = False
        self.expects_whole_graphs = False
        """Whether a program asked for fullgraph=True."""

    def prepare(self) -> bool:
        """Whether programs can be compiled."""
        if self._is_prepared is None:
            try:
                with outside_modes(keeps_functions=True):
                    self._install()
                self._is_prepared = True
            except (ImportError, AttributeError):  # another release of torch
                self._is_prepared = False
        return self._is_prepared

    def _install(self) -> None:
        from torch._dynamo import convert_frame
        from torch._dynamo.variables import optimizer
        from torch._inductor import async_compile, codecache, compile_fx, config, constant_folding
        from torch._inductor.fx_passes import pad_mm
        from torch.utils import _triton

        patcher = self._patcher
        self._use_own_folder()
        known = config.get_config_copy()
        changes = config.patch({name: _SETTINGS[name] for name in _SETTINGS if name in known})
        changes.__enter__()
        patcher.on_undo(lambda: changes.__exit__(None, None, None))
        patcher.set(FakeTensorMode, "avoid_device_init", property(lambda _: True))
        # Without Triton itself, programs can still be written; only dynamo would import it.
        users = "" if _triton.has_triton_package() else "torch._inductor"
        self._replace_everywhere(_triton, "has_triton", lambda *_: True, users)
        self._replace_everywhere(_triton, "triton_backend", lambda *_: None)
        self._replace_everywhere(_triton, "triton_hash_with_backend", lambda *_: "none")
        self._replace_everywhere(
            torch._guards, "detect_fake_mode", _detect(torch._guards.detect_fake_mode)
        )
        self._install_runtime(async_compile)
        code_cache = codecache.PyCodeCache
        load = code_cache.load_by_key_path

        def load_program(*args: Any, **kwargs: Any) -> Any:
            with _importable_triton():
                return load(*args, **kwargs)

        patcher.set(code_cache, "load_by_key_path", staticmethod(load_program))
        for module in _READERS_OF_INPUTS:
            with contextlib.suppress(ImportError):
                owner = importlib.import_module(module)
                if "def process_inputs" in inspect.getsource(owner):
                    patcher.set_if_present(owner, "FakeTensor", _CompilersFakeTensor)
        folder = constant_folding.ConstantFolder
        patcher.set(folder, "run", _on_cpu(folder.run))
        padding_trials.install(patcher, self._device, pad_mm)
        variable = optimizer.OptimizerVariable
        patcher.set(variable, "call_method", self._creating_states(variable.call_method))
        wrapper = convert_frame.CatchErrorsWrapper
        patcher.set(wrapper, "__call__", self._trying(wrapper.__call__))
        patcher.set(compile_fx, "_compile_fx_inner", self._compiling(compile_fx._compile_fx_inner))
        cuda_graph_trees.install(patcher, self._device)

    def _use_own_folder(self) -> None:
        name = "TORCHINDUCTOR_CACHE_DIR"
        folder = tempfile.mkdtemp(prefix="gpumemprof-compiled-")
        self._patcher.item(os.environ, name, folder)
        self._patcher.on_undo(lambda: shutil.rmtree(folder, ignore_errors=True))

    def _install_runtime(self, async_compile: Any) -> None:
        """What compiled programs call."""
        patcher = self._patcher
        patcher.set(async_compile.AsyncCompile, "triton", self._make_kernel)
        for name in ("cpp", "cpp_pybinding", "multi_kernel"):
            patcher.set_if_present(async_compile.AsyncCompile, name, lambda *_, **__: _Kernel())
        patcher.set(async_compile.AsyncCompile, "wait", lambda *_, **__: None)
        triton_helpers = importlib.import_module("torch._inductor.runtime.triton_helpers")
        patcher.set_if_present(triton_helpers, "set_driver_to_gpu", lambda *_: None)
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
        for name in ("copy_misaligned", "copy_if_misaligned"):
            patcher.set_if_present(guards, name, lambda tensor: tensor)

    def _make_kernel(self, name: str, source: str, *_: Any, **__: Any) -> _Kernel:
        from torch._inductor.codecache import PyCodeCache

        try:
            with outside_modes(keeps_functions=True):
                kernel = getattr(PyCodeCache.load(source), name)
                is_timed = len(kernel.configs) > 1
        except Exception:  # Triton is missing, or of another release: nothing is timed.
            return _Kernel()
        return _TimedKernel(kernel, self._device) if is_timed else _Kernel()

    def _replace_everywhere(self, owner: Any, name: str, new: Any, users: str = "") -> None:
        """Also where it was imported by name; in modules whose names begin so."""
        old = getattr(owner, name)
        for user, module in list(sys.modules.items()):
            is_user = user.startswith(users) and getattr(module, "__dict__", {}).get(name) is old
            if is_user:
                self._patcher.set(module, name, new)

    def _creating_states(self, call_method: Callable[..., Any]) -> Callable[..., Any]:
        """The states of an optimizer are created while its step is traced, for real."""

        def called(variable: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
            if name != "_init_group":
                return call_method(variable, tx, name, args, kwargs)
            optimizer = variable.value
            create = optimizer._init_group

            def create_within(*args: Any, **kwargs: Any) -> Any:
                with self._modes():
                    return create(*args, **kwargs)

            optimizer._init_group = create_within
            try:
                return call_method(variable, tx, name, args, kwargs)
            finally:
                del optimizer._init_group

        return called

    def _trying(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        """Tracing a function; one that cannot be compiled runs as it is."""
        from torch._dynamo import eval_frame
        from torch._dynamo import types as dynamo_types

        make_skip = getattr(dynamo_types, "ConvertFrameReturn", lambda: None)

        def tried(wrapper: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
            if frame.f_code.co_filename.startswith(_OWN_FOLDER):
                eval_frame.skip_code(frame.f_code)
                return make_skip()
            if self._has_failed:
                return make_skip()
            try:
                with outside_modes(keeps_functions=True):
                    converted = convert(wrapper, frame, *args, **kwargs)
                if self.expects_whole_graphs:
                    self._note_broken_graph()
                return converted
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
                with outside_modes(keeps_functions=True):
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

    def _note_broken_graph(self) -> None:
        from torch._dynamo.utils import counters

        reason = next(iter(counters["graph_break"]), None)
        if reason is not None:
            self.expects_whole_graphs = False  # Torch would not come further.
            first = str(reason).strip().splitlines()[0]
            self._device.note(
                "failure",
                "torch would raise an error on a GPU: fullgraph=True was asked for, and the "
                f"compiler has to break the graph ({first})",
            )

    def _note_failure(self, error: Exception) -> None:
        self._has_failed = True
        reason = next(iter(str(error).strip().splitlines()), "")
        self._device.note(
            "execution",
            "torch.compile failed here, and the eager program is predicted "
            f"({type(error).__name__}: {reason})",
        )
