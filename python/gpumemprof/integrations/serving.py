"""vLLM: its parts of the memory by name: weights, KV cache, graphs, communicators.

Nothing of vLLM is imported. Whenever it imports its worker itself, the methods that allocate these
parts are wrapped, so that what they allocate is tagged, and the time in which they run is a phase.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any, Callable

from gpumemprof.hooks.steps import tag
from gpumemprof.integrations.phases import phase

__all__ = ["label_vllm"]

_PARTS = {
    "init_device": "communicators",
    "load_model": "weights",
    "determine_available_memory": "profiling run",
    "initialize_from_config": "kv cache",
    "compile_or_warm_up_model": "graphs",
}
_WORKERS = {
    "vllm.v1.worker.gpu_worker": "Worker",
    "vllm.v1.worker.xpu_worker": "XPUWorker",
    "vllm.v1.worker.cpu_worker": "CPUWorker",
}
_MARK = "_gpumemprof_part"


def _labelled(part: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def labelled(*args: Any, **kwargs: Any) -> Any:
        with phase(part), tag(part):
            return method(*args, **kwargs)

    setattr(labelled, _MARK, part)
    return labelled


def _label(module: ModuleType) -> None:
    worker = getattr(module, _WORKERS[module.__name__], None)
    if worker is None:
        return
    for name, part in _PARTS.items():
        # Only its own: what it inherits is labelled where it is defined.
        method = vars(worker).get(name)
        if callable(method) and not hasattr(method, _MARK):
            setattr(worker, name, _labelled(part, method))


class _WorkerFinder:
    """Labels a worker right after its module has run."""

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _WORKERS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        run = loader.exec_module

        def run_and_label(module: ModuleType) -> None:
            run(module)
            try:
                _label(module)
            except Exception:  # vLLM keeps running, without labels.
                return

        loader.exec_module = run_and_label
        return spec


_finder: _WorkerFinder | None = None


def label_vllm() -> None:
    """Label the workers of this process, whenever they are imported; once is enough.

    >>> label_vllm()
    """
    global _finder
    if _finder is None:
        _finder = _WorkerFinder()
        sys.meta_path.insert(0, _finder)
    for name in _WORKERS:
        if (module := sys.modules.get(name)) is not None:
            _label(module)
