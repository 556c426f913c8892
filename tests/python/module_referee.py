"""A referee that knows the module of every allocation: hooks on every module and node."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import torch
from gpumemprof import _core
from torch import nn

OUTSIDE = "outside"


class _Thread(threading.local):
    def __init__(self) -> None:
        self.tags: list[int] = []
        self.stack: list[str] = [OUTSIDE]
        self.made: list[tuple[int, str]] = [(0, OUTSIDE)]  # nodes from this one on, their module


class Referee:
    """A hook on every module and on every node of autograd's graph.

    The hooks tag what their thread allocates, so each event carries the truth next to the answer.
    """

    def __init__(self, model: nn.Module) -> None:
        self._thread = _Thread()
        for path, module in model.named_modules():
            name = path or type(module).__name__
            module.register_forward_pre_hook(self._entering(name))
            module.register_forward_hook(self._leave, always_call=True)

    def _entering(self, name: str) -> Callable[..., None]:
        def enter(*_: object) -> None:
            self._thread.tags.append(_core.capture_enter_tag(name))
            self._thread.stack.append(name)
            self._note()

        return enter

    def _leave(self, *_: object) -> None:
        self._thread.stack.pop()
        _core.capture_leave_tag(self._thread.tags.pop())
        self._note()

    def _note(self) -> None:
        following = torch._C._autograd._get_sequence_nr()
        self._thread.made.append((following, self._thread.stack[-1]))

    def _module_of(self, node: Any) -> str:
        """The module whose forward created a node, in this thread."""
        # Gradients are accumulated for the parameter, no matter what computed them.
        if type(node).__name__ == "AccumulateGrad":
            return OUTSIDE
        numbers = [first for first, _ in self._thread.made]
        return self._thread.made[bisect_right(numbers, node._sequence_nr()) - 1][1]

    @contextmanager
    def backward(self) -> Iterator[None]:
        """Tag what each node allocates, also in the graphs that a checkpoint creates and runs."""
        run_backward = torch.autograd.backward

        def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
            for tensor in [tensors] if isinstance(tensors, torch.Tensor) else tensors:
                self._watch(tensor.grad_fn)
            # A checkpoint runs another backward inside a node.
            with outside():
                run_backward(tensors, *args, **kwargs)

        torch.autograd.backward = watched
        try:
            yield
        finally:
            torch.autograd.backward = run_backward

    def _watch(self, outermost: Any) -> None:
        seen, open_nodes = set(), [outermost]
        while open_nodes:
            node = open_nodes.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            open_nodes += [following for following, _ in node.next_functions]
            # Up to the next node: what the engine sums belongs to the node it comes from.
            node.register_prehook(tagging(self._module_of(node)))


def tagging(name: str) -> Callable[[object], None]:
    def tag(_: object) -> None:
        _core.capture_enter_tag(name)

    return tag


@contextmanager
def outside() -> Iterator[None]:
    """What is allocated here belongs to no module."""
    previous = _core.capture_enter_tag(OUTSIDE)
    try:
        yield
    finally:
        _core.capture_leave_tag(previous)
