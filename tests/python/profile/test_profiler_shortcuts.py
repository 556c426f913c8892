"""profile_function and profile_context: decorators and the shared profiler."""

from __future__ import annotations

import gpumemprof
import pytest
from tensors import KB, tensor

torch = pytest.importorskip("torch")


def test_the_decorator_returns_the_functions_own_value(profiler):
    @gpumemprof.profile_function(name="named", profiler=profiler)
    def double(x: int) -> int:
        """Its own words."""
        tensor(1 * KB)
        return 2 * x

    assert double(21) == 42
    assert double.__doc__ == "Its own words."
    assert profiler.results[-1].function_name == "named"
    assert profiler.results[-1].memory_allocated == 1 * KB


def test_the_decorator_profiles_a_coroutine_to_its_end(profiler):
    import asyncio

    @gpumemprof.profile_function(profiler=profiler)
    async def work() -> int:
        await asyncio.sleep(0)
        tensor(2 * KB)
        return 5

    assert asyncio.run(work()) == 5
    assert profiler.results[-1].memory_allocated == 2 * KB


def test_helpers_share_one_default_profiler():
    if torch.cuda.is_available():
        pytest.skip("the default is a CUDA device here")

    @gpumemprof.profile_function
    def bare() -> None:
        tensor(1 * KB)

    default = gpumemprof.default_profiler()
    default.clear_results()
    bare()
    with gpumemprof.profile_context("block") as context:
        tensor(2 * KB)
    assert default.results[-1] is context.result
    assert [result.function_name for result in default.results] == ["bare", "block"]
    assert gpumemprof.default_profiler() is default
