"""A small program with known allocations: do the patches hold on this release of torch?"""

from __future__ import annotations

import gc
from typing import Any, Callable

import torch

from gpumemprof.errors import Error
from gpumemprof.estimate.engine.device import Device

__all__ = ["check"]


class _Counter:
    """An allocator without limit that keeps what is live."""

    def __init__(self) -> None:
        self.live: dict[int, int] = {}
        self.sizes: list[int] = []
        self._next = 1 << 30

    def allocate(self, size: int, stream: int = 0, pool: tuple[int, int] = (0, 0)) -> int:
        self._next += 1 << 40
        self.live[self._next] = size
        self.sizes.append(size)
        return self._next

    def free(self, address: int) -> None:
        del self.live[address]

    @property
    def allocated_bytes(self) -> int:
        return sum(self.live.values())

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_bytes"):
            return self.allocated_bytes
        return lambda *_, **__: {}


def check(device: Device, modes: Callable[[], Any], learn: Callable[[], None]) -> None:
    """Run the program; raises an error of one sentence if an event is not as expected."""
    real, counter = device.memory, _Counter()
    device.use(counter)  # type: ignore[arg-type]
    try:
        with modes():
            learn()
            gc.collect()
            _check_storages(counter)
            _check_gradients(device, counter)
            _check_values()
    except Error:
        raise
    except Exception as error:
        if "device_ready_queues_" in str(error):
            raise Error(
                "backward has already run in this process, and autograd asks only once how many "
                "GPUs there are",
                "usage",
                hint="begin the estimate before the first backward, in a new process",
            ) from None
        raise _does_not_hold(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
    finally:
        gc.collect()
        device.assumptions.clear()
        device.use(real)


def _does_not_hold(what: str) -> Error:
    return Error(
        f"estimate does not work with torch {torch.__version__} here ({what})",
        "environment",
        hint="use another release of torch from 2.6 to 2.13",
    )


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise _does_not_hold(f"{what}: {found} instead of {expected}")


def _check_storages(counter: _Counter) -> None:
    before = counter.allocated_bytes
    whole = torch.empty(1000, 3, device="cuda")
    _expect("bytes of a new tensor", counter.allocated_bytes - before, 12000)
    part = whole[10:].t()
    _expect("bytes of a view", counter.allocated_bytes - before, 12000)
    del whole
    _expect("bytes while a view is used", counter.allocated_bytes - before, 12000)
    moved = torch.ones(5, 7).to("cuda").half()
    _expect("bytes of a moved tensor", counter.allocated_bytes - before, 12000 + 70)
    del part, moved
    _expect("bytes after the last use", counter.allocated_bytes - before, 0)


def _check_gradients(device: Device, counter: _Counter) -> None:
    model = torch.nn.Linear(16, 8, bias=False).to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss = model(torch.zeros(4, 16, device="cuda")).sum()
    loss.backward()
    # Without the hooks around it: a recording would take it for a step of the program.
    type(optimizer).step.__wrapped__(optimizer)
    gradient = model.weight.grad
    _expect("device of a gradient", gradient is not None and gradient.device.type, "cuda")
    del loss, gradient
    held = [size for size in counter.live.values() if size == 16 * 8 * 4]
    _expect("blocks of weight, gradient and momentum", len(held), 3)


def _check_values() -> None:
    mask = torch.arange(10, device="cuda") % 3 == 0
    _expect("a count", int(mask.sum()), 4)
    _expect("rows of nonzero", mask.nonzero().shape[0], 4)
