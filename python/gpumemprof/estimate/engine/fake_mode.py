"""Leaving torch's fake mode for a moment, to compute with real tensors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

__all__ = ["FakeMode", "Modes", "outside_modes", "without_fake_mode"]


_FAKE = torch._C._TorchDispatchModeKey.FAKE


class FakeMode(FakeTensorMode):  # type: ignore[misc]
    """Fake tensors whose CUDA device need not exist, and that may meet real tensors."""

    def __init__(self) -> None:
        self._state = threading.local()
        super().__init__(allow_non_fake_inputs=True, allow_fallback_kernels=False)
        # Shapes are remembered in front of it (shapes/cache.py): what arrives here is new.
        self.cache_enabled = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # The compiler does not look into it, and to say so takes time in every call.

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return self.dispatch(func, types, args, kwargs or {})

    @property
    def avoid_device_init(self) -> bool:
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> FakeMode:
        return self  # There is one, which all fake tensors refer to.

    @property
    def in_kernel_invocation(self) -> bool:
        """Per thread: threads of the program compute at the same time."""
        return getattr(self._state, "in_kernel", False)

    @in_kernel_invocation.setter
    def in_kernel_invocation(self, value: bool) -> None:
        self._state.in_kernel = value


class outside_modes:  # noqa: N801
    """Within, operations compute for real, whatever modes are active.

    A default device is such a mode: tensors made for the estimate's own use are on the CPU, not on
    a card that does not exist. What belongs to the program `keeps_functions`: its default device
    and its other modes of functions stay as they are.
    """

    __slots__ = ("_disabled", "_functions")

    def __init__(self, keeps_functions: bool = False) -> None:
        self._disabled: Any = None
        self._functions: Any = None if keeps_functions else torch._C.DisableTorchFunction()

    def __enter__(self) -> None:
        self._disabled = _disable_current_modes()
        self._disabled.__enter__()
        if self._functions is not None:
            self._functions.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._functions is not None:
            self._functions.__exit__(kind, value, trace)
        self._disabled.__exit__(kind, value, trace)


class without_fake_mode:  # noqa: N801
    """The same inside a dispatch mode, which is itself inactive then, at a tenth of the cost.

    A default device may be active still: what makes a tensor here names the CPU.
    """

    __slots__ = ("_mode",)

    def __enter__(self) -> None:
        self._mode = torch._C._unset_dispatch_mode(_FAKE)

    def __exit__(self, *_: object) -> None:
        if self._mode is not None:
            torch._C._set_dispatch_mode(self._mode)


class Modes:
    """Fake tensors, and `mode` above them, in the thread that enters.

    torch's own context managers keep their state in the mode, which threads share.
    """

    __slots__ = ("_fake", "_mode", "_sets_fake")

    def __init__(self, fake: FakeMode, mode: Any) -> None:
        self._fake = fake
        self._mode = mode
        self._sets_fake = False

    def __enter__(self) -> None:
        self._sets_fake = torch._C._get_dispatch_mode(_FAKE) is None
        if self._sets_fake:
            torch._C._set_dispatch_mode(self._fake)
        # torch.tensor(..., device="cuda") fills a CPU tensor first and moves it under the modes.
        torch._C._set_only_lift_cpu_tensors(True)
        torch._C._push_on_torch_dispatch_stack(self._mode)

    def __exit__(self, *_: object) -> None:
        torch._C._pop_torch_dispatch_stack(None)
        if self._sets_fake:
            torch._C._unset_dispatch_mode(_FAKE)
