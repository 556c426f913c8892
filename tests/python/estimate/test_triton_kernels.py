"""Kernels of Triton do not run, but what Triton allocates to time them is counted."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

import pytest
import torch
from gpumemprof.estimate.patches.compiler.triton_kernels import change_triton
from gpumemprof.estimate.patches.patcher import Patcher

MIB = 1 << 20


def a_module() -> ModuleType:
    """As Triton's, with kernels that need a GPU."""

    class JITFunction:
        def __init__(self, function):
            self.fn = function

        def run(self, *args, **kwargs):
            raise RuntimeError("0 active drivers")

    class Autotuner:
        def __init__(self, kernel, names, configs, restored=()):
            self.fn, self.base_fn, self.arg_names, self.configs = kernel, kernel.fn, names, configs
            self.restored = restored
            self.cache = {}

        def pre_hook(self, named):
            self.copies = [named[name].clone() for name in self.restored]

        def post_hook(self, named, exception):
            self.copies = []

        def _bench(self, *args, config, **meta):
            raise RuntimeError("0 active drivers")

        def run(self, *args, **kwargs):
            self.nargs = dict(zip(self.arg_names, args))
            key = self.nargs["count"]
            if key not in self.cache:
                timings = {
                    number: self._bench(*args, config=config, **kwargs)
                    for number, config in enumerate(self.configs)
                }
                self.cache[key] = self.configs[min(timings, key=timings.get)]
            return self.fn.run(*args, **kwargs, **self.cache[key].all_kwargs())

    module = ModuleType("triton")
    module.driver = None
    module.JITFunction, module.Autotuner = JITFunction, Autotuner
    return module


@pytest.fixture
def triton(estimate):
    module, patcher = a_module(), Patcher()
    change_triton(patcher, module, estimate.device)
    yield module
    patcher.undo()


def scale(x, y, count):
    raise AssertionError("this is code for a GPU")


def config(**kwargs):
    return SimpleNamespace(pre_hook=None, all_kwargs=lambda: kwargs)


def texts(estimate) -> set[str]:
    return {f"{each.kind}: {each.text}" for each in estimate.assumptions}


def test_a_kernel_allocates_nothing_and_widens_no_band(estimate, memory, triton):
    x = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    before = memory.most_allocated_bytes
    triton.JITFunction(scale).run(x, x, MIB)
    assert memory.most_allocated_bytes == before
    assert texts(estimate) == {"kernel: the Triton kernel scale did not run: it allocates nothing"}


def test_timing_a_kernel_takes_a_buffer_once_for_each_key(estimate, memory, triton):
    tuner = triton.Autotuner(
        triton.JITFunction(scale), ["x", "y", "count"], [config(BLOCK=1), config(BLOCK=2)]
    )
    x = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    tuner.run(x, x, MIB)
    assert memory.most_allocated_bytes == 257 * MIB
    kept = torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")
    tuner.run(kept, kept, MIB)
    assert memory.most_allocated_bytes == 257 * MIB
    tuner.run(kept, kept, 100 * MIB)
    assert memory.most_allocated_bytes == 357 * MIB
    assert "kernel: Triton times the kernel scale with a buffer of 256 MiB" in texts(estimate)


def test_what_a_kernel_overwrites_is_copied_beside_the_buffer(memory, triton):
    tuner = triton.Autotuner(
        triton.JITFunction(scale), ["x", "y", "count"], [config(BLOCK=1), config(BLOCK=2)], ["y"]
    )
    x = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    tuner.run(x, x, 4 * MIB)
    assert memory.most_allocated_bytes == (4 + 256 + 4) * MIB
