"""Collectives, answered at once: what they allocate, and the values that are plausible.

NCCL's own buffers are not in PyTorch's pool. What torch allocates around a collective is made of
ordinary tensors; a few calls of its NCCL backend take a flat copy of a list of tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.operation import Answer, Operation
from gpumemprof.estimate.engine.values import known_value
from gpumemprof.estimate.ranks import functional, plausible
from gpumemprof.estimate.ranks.mailbox import MISSING, Mailbox

__all__ = ["Collectives", "finished_work"]

# Integers that decide how a program goes on, such as a seed or a shape, are few.
_MOST_SENT = 1024
_BARRIER_BYTES = 4

Arguments = dict[str, Any]


class Collectives:
    """Answers the operations of torch.distributed; knows which groups the program used."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.mailbox = Mailbox(None)
        self.communicators: set[str] = set()
        """Names of the groups that made a collective on the card: NCCL has buffers for each."""
        self.reduction = "sum"
        """Of the call that is being made: the dispatcher passes it in a form that hides it."""
        self._answers: dict[str, Callable[[Any, Arguments], Any]] = {
            "allreduce_": self._all_reduce,
            "allreduce_coalesced_": self._all_reduce,
            "reduce_": self._reduce,
            "broadcast_": self._broadcast,
            "allgather_": self._all_gather,
            "_allgather_base_": self._all_gather_into_tensor,
            "allgather_coalesced_": self._all_gather_coalesced,
            "allgather_into_tensor_coalesced_": self._all_gather_into_tensors,
            "reduce_scatter_": self._reduce_scatter,
            "_reduce_scatter_base_": self._reduce_scatter_tensor,
            "reduce_scatter_tensor_coalesced_": self._reduce_scatter_tensors,
            "gather_": self._gather,
            "scatter_": self._scatter,
            "alltoall_": self._all_to_all,
            "alltoall_base_": self._all_to_all_single,
            "send": self._send,
            "recv_": self._receive,
            "recv_any_source_": self._receive_from_any,
            "barrier": self._barrier,
            "monitored_barrier_": self._barrier,
        }

    def answer_for(self, name: str) -> Answer | None:
        """How an operation is answered; None if it is no collective, or is made of others."""
        space, _, short = name.partition("::")
        if space == "c10d" and short in self._answers:
            return self._with_work(self._answers[short])
        function = functional.FUNCTIONS.get(name)
        if function is None:
            return None

        def answer(op: Operation, args: tuple[Any, ...], kwargs: Arguments) -> Any:
            results, group = function(*args, **kwargs)
            if group is not None:
                self._note_group(group, args)
            return results

        return answer

    def _with_work(self, function: Callable[[Any, Arguments], Any]) -> Answer:
        def answer(op: Operation, args: tuple[Any, ...], kwargs: Arguments) -> Any:
            schema = op.func._schema
            named = dict(zip((each.name for each in schema.arguments), args), **kwargs)
            group = torch.distributed.ProcessGroup.unbox(named["process_group"])
            results = function(group, named)
            self._note_group(group, args)
            if not schema.returns:
                return None
            work = finished_work(results).boxed()
            return work if len(schema.returns) == 1 else (results, work)

        return answer

    def _note_group(self, group: Any, args: Iterable[Any]) -> None:
        if group.size() > 1 and _is_on_card(args):
            self.communicators.add(group.group_name)

    # Each takes the group and the arguments by name, and returns what the operation returns.

    def _all_reduce(self, group: Any, named: Arguments) -> Any:
        for tensor in named["tensors"]:
            plausible.reduce(tensor, self.reduction, group.size())
        return named["tensors"]

    def _reduce(self, group: Any, named: Arguments) -> Any:
        if group.rank() == named["root_rank"]:
            self._all_reduce(group, named)
        return named["tensors"]

    def _broadcast(self, group: Any, named: Arguments) -> Any:
        root = named["root_rank"]
        for tensor in named["tensors"]:
            if plausible.are_few_integers(tensor, _MOST_SENT):
                kind = f"broadcast.{group.group_name}"
                if group.rank() == root:
                    self.mailbox.post(kind, _listed(tensor))
                else:
                    self._take(tensor, kind, _global_rank(group, root))
        return named["tensors"]

    def _all_gather(self, group: Any, named: Arguments) -> Any:
        lists = named["output_tensors"]
        self._flat_copies(lists)
        for outputs, tensor in zip(lists, named["input_tensors"]):
            for output in outputs:
                plausible.copy(output, tensor)
        return lists

    def _all_gather_into_tensor(self, group: Any, named: Arguments) -> Any:
        plausible.repeat(named["output_tensor"], named["input_tensor"], group.size())
        return named["output_tensor"]

    def _all_gather_coalesced(self, group: Any, named: Arguments) -> Any:
        for outputs in named["output_lists"]:
            for output, tensor in zip(outputs, named["input_list"]):
                plausible.copy(output, tensor)
        return [each for outputs in named["output_lists"] for each in outputs]

    def _all_gather_into_tensors(self, group: Any, named: Arguments) -> Any:
        for output, tensor in zip(named["outputs"], named["inputs"]):
            plausible.repeat(output, tensor, group.size())
        return named["outputs"]

    def _reduce_scatter(self, group: Any, named: Arguments) -> Any:
        outputs, lists = named["output_tensors"], named["input_tensors"]
        self._flat_copies(lists)
        for output, inputs in zip(outputs, lists):
            plausible.copy(output, inputs[group.rank()])
            plausible.reduce(output, self.reduction, group.size())
        return outputs

    def _reduce_scatter_tensor(self, group: Any, named: Arguments) -> Any:
        output = named["output_tensor"]
        plausible.take_part(output, named["input_tensor"], group.rank())
        plausible.reduce(output, self.reduction, group.size())
        return output

    def _reduce_scatter_tensors(self, group: Any, named: Arguments) -> Any:
        for output, tensor in zip(named["outputs"], named["inputs"]):
            plausible.take_part(output, tensor, group.rank())
            plausible.reduce(output, self.reduction, group.size())
        return named["outputs"]

    def _gather(self, group: Any, named: Arguments) -> Any:
        if group.rank() == named["root_rank"]:
            for outputs, tensor in zip(named["output_tensors"], named["input_tensors"]):
                for output in outputs:
                    plausible.copy(output, tensor)
        return [each for outputs in named["output_tensors"] for each in outputs]

    def _scatter(self, group: Any, named: Arguments) -> Any:
        outputs = named["output_tensors"]
        if group.rank() == named["root_rank"]:
            for output, inputs in zip(outputs, named["input_tensors"]):
                plausible.copy(output, inputs[group.rank()])
        else:
            for output in outputs:
                plausible.set_value(output, None)
        return outputs

    def _all_to_all(self, group: Any, named: Arguments) -> Any:
        own = named["input_tensors"][group.rank()]
        for output in named["output_tensors"]:
            plausible.copy(output, own)
        return named["output_tensors"]

    def _all_to_all_single(self, group: Any, named: Arguments) -> Any:
        plausible.exchange(named["output"], named["input"], group.rank(), group.size())
        return named["output"]

    def _send(self, group: Any, named: Arguments) -> Any:
        kind = f"send.{group.group_name}.{named['tag']}.to{_global_rank(group, named['dst'])}"
        for tensor in named["tensors"]:
            if plausible.are_few_integers(tensor, _MOST_SENT):
                self.mailbox.post(kind, _listed(tensor))
        return named["tensors"]

    def _receive(self, group: Any, named: Arguments) -> Any:
        own = _global_rank(group, group.rank())
        kind = f"send.{group.group_name}.{named['tag']}.to{own}"
        for tensor in named["tensors"]:
            if plausible.are_few_integers(tensor, _MOST_SENT):
                self._take(tensor, kind, _global_rank(group, named["src"]))
        return named["tensors"]

    def _receive_from_any(self, group: Any, named: Arguments) -> Any:
        for tensor in named["tensors"]:
            plausible.set_value(tensor, None)
        return named["tensors"]

    def _barrier(self, group: Any, named: Arguments) -> Any:
        """NCCL has none: torch reduces a tensor of one number."""
        if _is_on_card([named["tensor"]]):
            self._device.temporary(_BARRIER_BYTES, "barrier")
        return [named["tensor"]]

    # What they need

    def _take(self, tensor: torch.Tensor, kind: str, sender: int) -> None:
        """Its own values stay if the sender's are not known."""
        found = self.mailbox.take(kind, sender)
        if found is not MISSING and found is not None:
            with outside_modes():
                value = torch.tensor(found, dtype=tensor.dtype)
            plausible.set_value(tensor, value)

    def _flat_copies(self, lists: Iterable[Any]) -> None:
        """The NCCL backend works on one tensor if all of a list have the same size."""
        for tensors in lists:
            if tensors and _is_on_card(tensors) and len({each.shape for each in tensors}) == 1:
                size = sum(each.numel() * each.element_size() for each in tensors)
                self._device.temporary(size, "flat copy of a list of tensors")


def _is_on_card(values: Iterable[Any]) -> bool:
    return any(
        (isinstance(each, FakeTensor) and each.fake_device.type == "cuda")
        or (isinstance(each, (list, tuple)) and _is_on_card(each))
        for each in values
    )


def _listed(tensor: torch.Tensor) -> Any:
    """The values as numbers; None if they are not known."""
    known = known_value(tensor)
    if known is None:
        return None
    with outside_modes():
        return known.tolist()


def _global_rank(group: Any, rank: int) -> int:
    return int(torch.distributed.get_global_rank(group, rank))


def finished_work(results: Any) -> Any:
    """Work that is done; DistributedDataParallel takes its gradients from the result."""
    future: Any = torch.futures.Future()
    tensors = list(_tensors(results))
    future.set_result(tensors)
    return torch._C._distributed_c10d._create_work_from_future(future)


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
