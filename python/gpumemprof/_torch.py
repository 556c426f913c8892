"""Calls into torch. Only this module and `applied` import torch, and never before the program does.

torch is used only after the program itself has imported it, and CUDA only after the program has
initialised it: earlier calls would create contexts on the wrong card and break programs that fork.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Callable

from gpumemprof import _core
from gpumemprof.errors import NoCudaError, NotCudaError, UsageError
from gpumemprof.import_watch import TorchWatch, executed_torch, torch_file

__all__ = ["has_cuda", "is_imported", "when_cuda_is_ready", "when_imported"]

_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")


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


def two_nodes() -> tuple[Any, Any]:
    """Two autograd nodes created in sequence, on the CPU, whatever modes the program is in."""
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        leaf = torch.ones((), device="cpu", requires_grad=True)
        first = leaf * 1
        return first.grad_fn, (first * 1).grad_fn


def follow_modules() -> None:
    """Let the recorder read the module of each call from its frame.

    Raises:
        RuntimeError: what is read does not match what Python reports.
    """
    import torch

    call: Any = torch.nn.Module.__call__
    code = call.__code__

    # Not real modules, so that no hook of the program sees these calls.
    class Called:
        _compiled_call_impl = None

        def __init__(self, inside: Any = None) -> None:
            self._inside = inside

        def _call_impl(self) -> list[int]:
            return _core.capture_own_modules(code) if self._inside is None else call(self._inside)

    for _ in range(2):
        inner = Called()
        outer = Called(inner)
        if call(outer)[:2] != [id(inner), id(outer)]:
            raise RuntimeError("this Python or torch keeps a call's module in another place")
    _core.capture_follow_modules(code)


def called_modules() -> list[Any]:
    """The modules this thread is executing, innermost first."""
    import torch

    call: Any = torch.nn.Module.__call__
    module_type = torch.nn.Module
    called = _core.capture_called_modules(call.__code__)
    return [module for module in called if issubclass(type(module), module_type)]


def told_tensors() -> list[tuple[Any, int, int]]:
    """Tensors with the addresses of their storages and of their gradients' storages, 0 for none.

    torch does not allocate their memory, so none of this shows up in a recording.
    """
    import torch

    def tensor() -> Any:
        return torch.frombuffer(bytearray(16), dtype=torch.float32)

    def address(tensor: Any) -> int:
        return 0 if tensor is None else int(tensor.untyped_storage().data_ptr())

    with torch.inference_mode(False):
        tensors = [tensor().requires_grad_() for _ in range(4)]
        for each in tensors[::2]:
            each.grad = tensor()
        return [(each, address(each), address(each.grad)) for each in tensors]


def plain_kinds() -> tuple[type, ...]:
    """The tensor types whose memory is where torch's own objects say it is."""
    import torch

    return torch.Tensor, torch.nn.Parameter


def version() -> tuple[int, int]:
    """The major and minor version of torch."""
    import torch

    major, minor = str(torch.__version__).split(".")[:2]
    return int(major), int(minor)


def backend() -> str:
    """``native``, or the name of another allocator."""
    import torch

    return str(torch.cuda.get_allocator_backend())


def list_state() -> tuple[int, list[dict[str, Any]]]:
    """The number of devices, and the segments and blocks of all of them."""
    import torch

    if version() >= (2, 11):
        segments = torch.cuda.memory_snapshot(include_traces=False)
    else:
        segments = torch.cuda.memory_snapshot()
    return torch.cuda.device_count(), segments


def card_ids() -> dict[int, str]:
    """The id of the card of each device, as NVML names it."""
    import torch

    ids = {}
    for device in range(torch.cuda.device_count()):
        uuid = getattr(torch.cuda.get_device_properties(device), "uuid", None)
        if uuid is not None:
            text = str(uuid)
            ids[device] = text if text.startswith("GPU-") else f"GPU-{text}"
    return ids


def allocator_settings() -> str:
    """The settings string in effect, as far as torch reports it."""
    import torch

    settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
    if settings is None and version() >= (2, 10):
        settings = os.environ.get("PYTORCH_ALLOC_CONF")
    if not torch._C._cuda_isHistoryEnabled():
        # Without a history, a whole snapshot is as cheap as its segments, and has the settings.
        arguments = [] if version() <= (2, 7) else [None]
        told = torch._C._cuda_memorySnapshot(*arguments).get("allocator_settings", {})
        settings = told.get("PYTORCH_CUDA_ALLOC_CONF", settings)
    return settings or ""


# The limit for torch's own recorder, which keeps everything in memory: about 100 MiB.
_MOST_ENTRIES = 500_000


def start_recorder(stacks: bool) -> bool:
    """Turn on torch's own recorder; False if the program already has it on, and keeps it."""
    import torch

    if torch._C._cuda_isHistoryEnabled():
        return False
    torch.cuda.memory._record_memory_history(
        "all",
        context="alloc" if stacks else None,
        stacks="python",
        max_entries=_MOST_ENTRIES,
    )
    return True


def dump_recorder(path: str, switch_off: bool) -> None:
    """Write the contents of torch's own recorder, as torch would."""
    import torch

    torch.cuda.memory._dump_snapshot(path)
    if switch_off:
        torch.cuda.memory._record_memory_history(None)


def facts() -> dict[str, str]:
    """Versions, for the header of the recording."""
    import torch

    found = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        found["cuda"] = str(torch.version.cuda)
    return found


def counter_facts() -> dict[str, str]:
    """The peaks that torch itself counted, for runs where no event could be recorded."""
    import torch

    found = {}
    for device in range(torch.cuda.device_count()):
        found[f"device {device} peak_allocated_bytes"] = str(
            torch.cuda.max_memory_allocated(device)
        )
        found[f"device {device} peak_reserved_bytes"] = str(torch.cuda.max_memory_reserved(device))
    return found


def peak_allocated(index: int, peak_requested_bytes: int) -> int | None:
    """The most bytes in blocks, as torch counted them; None if it did not count the whole run.

    torch counts requested bytes too: their peak differs from ours if the program has reset the
    peaks.
    """
    stats = counters(index)
    try:
        if int(stats["requested_bytes"]["all"]["peak"]) == peak_requested_bytes:
            return int(stats["allocated_bytes"]["all"]["peak"])
    except (KeyError, TypeError):
        return None
    return None


def retry_counts() -> dict[int, int]:
    """How often torch has flushed each device's pool so far because a request was refused."""
    import torch

    return {
        device: int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0))
        for device in range(torch.cuda.device_count())
    }


def device_facts() -> dict[str, str]:
    """Names, total memory and limits of the devices; call only once CUDA is initialised."""
    import torch

    found = {}
    for device in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(device)
        found[f"device {device}"] = str(properties.name)
        found[f"device {device} total_bytes"] = str(properties.total_memory)
        fraction = getattr(torch.cuda, "get_per_process_memory_fraction", None)
        if fraction is not None:
            found[f"device {device} memory_fraction"] = str(fraction(device))
    return found


def limit_facts() -> dict[str, str]:
    """The current limits on this process: a program may change them at any time."""
    import torch

    fraction = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    if fraction is None or not torch.cuda.is_initialized():
        return {}
    return {
        f"device {device} memory_fraction_at_end": str(fraction(device))
        for device in range(torch.cuda.device_count())
    }


def is_tensor(value: object) -> bool:
    """Whether the value is a tensor of any kind."""
    import torch

    return issubclass(type(value), torch.Tensor)


def live_modules() -> list[Any]:
    """All live modules; slow."""
    import torch

    module_type = torch.nn.Module
    # Check the type itself: isinstance() would call into proxies, which may do anything.
    return [thing for thing in gc.get_objects() if issubclass(type(thing), module_type)]


def is_in_backward() -> bool:
    """Whether autograd is running in this thread, as when it recomputes a checkpoint."""
    import torch

    return bool(torch._C._current_graph_task_id() != -1)


_HOST = -1
_DEEPEST_WRAPPER = 4


def storages_of(tensor: Any, depth: int = 0) -> list[tuple[int, int]]:
    """The storages of a tensor, as (device, address); the device of a CPU tensor is -1.

    A sharded, quantized or otherwise wrapped tensor has the storages of the tensors inside it.
    """
    import torch

    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        flatten = getattr(tensor, "__tensor_flatten__", None)
        if flatten is not None and depth < _DEEPEST_WRAPPER:
            names, _ = flatten()
            # Some also list parts that are not tensors, as DTensor does its device mesh.
            parts = [part for name in names if is_tensor(part := getattr(tensor, name))]
            return [place for part in parts for place in storages_of(part, depth + 1)]
    if depth > 2 * _DEEPEST_WRAPPER:
        return []
    if tensor.layout is not torch.strided:
        return _sparse_storages(tensor)
    if tensor.device.type not in ("cpu", "cuda"):
        return []
    try:
        address = tensor.untyped_storage().data_ptr()
    except NotImplementedError:
        inside = _inside_transform(tensor)
        return [] if inside is None else storages_of(inside, depth + 1)
    return [(tensor.get_device(), address)] if address else []


def _inside_transform(tensor: Any) -> Any:
    """The tensor that torch.func wrapped while transforming a function; None if it did not."""
    import torch

    functions = getattr(torch._C, "_functorch", None)
    if functions is None or not functions.is_functorch_wrapped_tensor(tensor):
        return None
    return functions.get_unwrapped(tensor)


def _sparse_storages(tensor: Any) -> list[tuple[int, int]]:
    names = ("_indices", "_values", "crow_indices", "col_indices", "ccol_indices", "row_indices")
    found = []
    for name in names:
        try:
            part = getattr(tensor, name)()
        except (AttributeError, RuntimeError):
            continue
        if part.layout is not tensor.layout:
            found += storages_of(part)
    return found


def offset_of(tensor: Any) -> int:
    """Where in its storage a tensor begins; -1 if that has no meaning."""
    try:
        return int(tensor.storage_offset())
    except (RuntimeError, NotImplementedError):
        return -1


def watch_optimizers(
    before: Callable[[Any], None],
    after: Callable[[Any, bool], None],
    unchanged: _core.UnchangedSteps | None = None,
) -> list[Any]:
    """Call back around every optimizer's step; returns handles that remove the hooks.

    `after` also receives whether the step ran a closure, which may compute gradients itself. A step
    that matches the previous one goes to `unchanged` alone.
    """
    import torch
    from torch.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    # Checked first, so that a compiled step contains none of our code.
    is_compiling = torch.compiler.is_compiling
    # One that never expects anything leaves every step to the callbacks.
    steps = unchanged or _core.UnchangedSteps()
    seen_before, seen_after = steps.before, steps.after

    def step_pre_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling() and not seen_before(optimizer):
            before(optimizer)

    def step_post_hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if is_compiling():
            return
        has_closure = len(args) > 1 or (kwargs and kwargs.get("closure") is not None)
        if has_closure or not seen_after(optimizer):
            after(optimizer, has_closure)

    return [
        register_optimizer_step_pre_hook(step_pre_hook),
        register_optimizer_step_post_hook(step_post_hook),
    ]


def _keywords_of_call() -> dict[str, Any]:
    """The keyword arguments of the module call that runs our hook, which does not receive them."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(2):
        if frame is not None and frame.f_code.co_name in ("inner", "_call_impl"):
            keywords = frame.f_locals.get("kwargs")
            if isinstance(keywords, dict):
                return keywords
        frame = frame.f_back if frame is not None else None
    return {}


class _Restored:
    """Restores torch.compile, unless someone else has replaced it in the meantime."""

    def __init__(self, ours: Any, original: Any) -> None:
        self._ours, self._original = ours, original

    def remove(self) -> None:
        import torch

        if torch.compile is self._ours:
            torch.compile = self._original


def watch_forward(
    before: Callable[[Any, Any, Any], None], compiled: Callable[[Any], None]
) -> list[Any]:
    """Call back before the forward of every module, until the program compiles something.

    A global module hook would be compiled in if it were there while torch compiles, and removing it
    would recompile everything. So `compiled` is called with None just before, and with the compiled
    module just after if the result is one.
    """
    import functools

    import torch
    from torch.nn.modules.module import register_module_forward_pre_hook

    def forward_pre_hook(module: Any, args: Any) -> None:
        if not torch.compiler.is_compiling():
            before(module, args, _keywords_of_call())

    compile_it = torch.compile

    @functools.wraps(compile_it)
    def compile_without_hooks(*args: Any, **kwargs: Any) -> Any:
        compiled(None)
        result = compile_it(*args, **kwargs)
        if issubclass(type(result), torch.nn.Module):
            compiled(result)
        return result

    torch.compile = compile_without_hooks
    return [
        register_module_forward_pre_hook(forward_pre_hook),
        _Restored(compile_without_hooks, compile_it),
    ]


def watch_module(module: Any, before: Callable[[Any, Any, Any], None]) -> Any:
    """Call back before the forward of one module."""
    import torch

    def forward_pre_hook(module: Any, args: Any, kwargs: Any) -> None:
        if not torch.compiler.is_compiling():
            before(module, args, kwargs)

    return module.register_forward_pre_hook(forward_pre_hook, with_kwargs=True)


_CPU_HINT = "CPUMemoryProfiler profiles CPU tensors"
_TORCH_HINT = "install it with: pip install torch"


def why_no_cuda() -> str | None:
    """A sentence if CUDA memory cannot be profiled here; ``None`` if it can."""
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    return None


def cuda_device(device: Any) -> Any:
    """The ``torch.device``, with an index, for None, a number, a string or a device.

    Raises:
        NoCudaError: there is no CUDA at all (also a ``RuntimeError``).
        UsageError: not CUDA, or no such device (also a ``ValueError``).
    """
    problem = why_no_cuda()
    if device is not None and not _is_cuda(device):
        hint = _CPU_HINT if _is_cpu(device) else _what_exists(problem)
        kind = UsageError if problem is None else NotCudaError
        raise kind(f"{device!r} is not a CUDA device", "usage", "", hint)
    if problem is not None:
        message = f"there is no CUDA memory to profile: {problem}"
        hint = _TORCH_HINT if importlib.util.find_spec("torch") is None else _CPU_HINT
        raise NoCudaError(message, "environment", "", hint)
    import torch

    if isinstance(device, int):
        index = device
    else:
        # Parsed by hand: torch rejects large numbers with an error message of its own.
        number = "" if device is None else str(device).partition(":")[2]
        index = int(number) if number else torch.cuda.current_device()
    torch.cuda.init()
    if not 0 <= index < torch.cuda.device_count():
        raise UsageError(f"there is no device cuda:{index}", "usage", "", _what_exists(None))
    return torch.device("cuda", index)


def _what_exists(problem: str | None) -> str:
    if problem is not None:
        return problem
    import torch

    count = torch.cuda.device_count()
    return "there is cuda:0" if count == 1 else f"there are cuda:0 to cuda:{count - 1}"


def _is_cpu(device: Any) -> bool:
    return str(getattr(device, "type", device)).split(":")[0] == "cpu"


def _is_cuda(device: Any) -> bool:
    if isinstance(device, int):
        return not isinstance(device, bool)
    name = str(device) if isinstance(device, str) or hasattr(device, "type") else ""
    kind, _, index = name.partition(":")
    return kind == "cuda" and (index.isdecimal() or not _)


def cpu_device(device: Any) -> Any:
    """The ``torch.device`` of the CPU.

    Raises:
        UsageError: another device was given (also a ``ValueError``).
        NoCudaError: torch is not installed (also a ``RuntimeError``).
    """
    if device is not None and not _is_cpu(device):
        hint = "GPUMemoryProfiler profiles CUDA devices"
        raise UsageError(f"{device!r} is not the CPU", "usage", "", hint)
    try:
        import torch
    except ImportError:
        raise NoCudaError(
            "there are no CPU tensors to profile: torch is not installed",
            "environment",
            "",
            _TORCH_HINT,
        ) from None
    return torch.device("cpu")


def synchronizer(device: Any) -> Callable[[], bool]:
    """Return a function that waits for the device; during graph capture it only returns False.

    Waiting, or any call to the driver, would break the capture.
    """
    import torch

    is_capturing = torch.cuda.is_current_stream_capturing
    synchronize = torch.cuda.synchronize

    def wait() -> bool:
        if is_capturing():
            return False
        synchronize(device)
        return True

    return wait


def wait_for_device() -> None:
    """Wait for pending work on the current device, if the program uses CUDA at all."""
    import torch

    if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()


def counters(index: int) -> dict[str, Any]:
    """The allocator's own counters, read at one moment."""
    import torch

    stats: dict[str, Any] = torch.cuda.memory_stats_as_nested_dict(index)
    return stats


def pending_blocks(index: int) -> list[tuple[int, int]]:
    """Freed blocks that a stream still uses, as (address, size)."""
    return [
        (block["address"], block["size"])
        for segment in list_state()[1]
        if segment["device"] == index
        for block in segment["blocks"]
        if block["state"] not in ("active_allocated", "inactive")
    ]


def card_total(index: int) -> int | None:
    """Total bytes of the whole card, as the driver counts them."""
    try:
        return card_memory(index)[1]
    except RuntimeError:
        return None


def card_memory(index: int) -> tuple[int, int]:
    """Bytes in use on the whole card, by all processes, and its total bytes."""
    import torch

    free, total = torch.cuda.mem_get_info(index)
    return total - free, total


def card_sample(index: int) -> tuple[int | None, int | None]:
    """Bytes in use on the whole card, and by this process; read from NVML, never from CUDA."""
    uuid = card_ids().get(index)
    return (None, None) if uuid is None else _core.card_sample(uuid)
