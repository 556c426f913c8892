"""Collectives of Python objects: other ranks send what this one would, or what they did send."""

from __future__ import annotations

import pickle
from typing import Any

import torch
from torch.distributed import distributed_c10d

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.ranks.mailbox import MISSING, Mailbox

__all__ = ["install"]


def install(patcher: Patcher, device: Device, mailbox: Mailbox) -> None:
    for name, function in _Objects(device, mailbox).functions().items():
        for owner in (distributed_c10d, torch.distributed):
            patcher.set_if_present(owner, name, function)


class _Objects:
    def __init__(self, device: Device, mailbox: Mailbox) -> None:
        self._device = device
        self._mailbox = mailbox

    def functions(self) -> dict[str, Any]:
        return {
            "all_gather_object": self._all_gather,
            "gather_object": self._gather,
            "broadcast_object_list": self._broadcast,
            "scatter_object_list": self._scatter,
            "send_object_list": self._send,
            "recv_object_list": self._receive,
            "monitored_barrier": lambda *_, **__: None,
        }

    def _all_gather(self, object_list: list[Any], obj: Any, group: Any = None) -> None:
        if distributed_c10d._rank_not_in_group(group):
            return
        size = torch.distributed.get_world_size(group)
        length = self._length(obj, group)
        self._device.held("objects of all ranks", length, length * size)
        for index in range(min(size, len(object_list))):
            object_list[index] = obj

    def _gather(
        self,
        obj: Any,
        object_gather_list: list[Any] | None = None,
        dst: int | None = None,
        group: Any = None,
        group_dst: int | None = None,
    ) -> None:
        if distributed_c10d._rank_not_in_group(group):
            return
        if object_gather_list is not None:
            for index in range(len(object_gather_list)):
                object_gather_list[index] = obj

    def _broadcast(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
    ) -> None:
        if distributed_c10d._rank_not_in_group(group):
            return
        source = _rank(group, src, group_src)
        kind = f"objects.{_name(group)}"
        if source == torch.distributed.get_rank():
            self._mailbox.post(kind, list(object_list))
            return
        found = self._mailbox.take(kind, source)
        if found is not MISSING:
            object_list[:] = found
        elif all(each is None for each in object_list):
            raise _waits(source)

    def _scatter(
        self,
        scatter_object_output_list: list[Any],
        scatter_object_input_list: list[Any] | None = None,
        src: int | None = None,
        group: Any = None,
        group_src: int | None = None,
    ) -> None:
        if distributed_c10d._rank_not_in_group(group):
            return
        source = _rank(group, src, group_src)
        kind = f"scattered.{_name(group)}"
        if source == torch.distributed.get_rank():
            self._mailbox.post(kind, scatter_object_input_list)
            found: Any = scatter_object_input_list
        else:
            found = self._mailbox.take(kind, source)
        if found is MISSING:
            raise _waits(source)
        scatter_object_output_list[0] = found[torch.distributed.get_rank(group)]

    def _send(
        self,
        object_list: list[Any],
        dst: int | None = None,
        group: Any = None,
        device: Any = None,
        group_dst: int | None = None,
        use_batch: bool = False,
    ) -> None:
        if distributed_c10d._rank_not_in_group(group):
            return
        receiver = _rank(group, dst, group_dst)
        self._mailbox.post(f"sent.{_name(group)}.to{receiver}", list(object_list))

    def _receive(
        self,
        object_list: list[Any],
        src: int | None = None,
        group: Any = None,
        device: Any = None,
        group_src: int | None = None,
        use_batch: bool = False,
    ) -> int:
        if distributed_c10d._rank_not_in_group(group):
            return -1
        source = _rank(group, src, group_src)
        kind = f"sent.{_name(group)}.to{torch.distributed.get_rank()}"
        found = self._mailbox.take(kind, source)
        if found is MISSING:
            raise _waits(source)
        object_list[:] = found
        return source

    def _length(self, value: Any, group: Any) -> int:
        """Bytes on the card: NCCL sends no others."""
        if torch.distributed.get_backend(group) != "nccl":
            return 0
        return len(pickle.dumps(value))


def _name(group: Any) -> str:
    return str((group or torch.distributed.group.WORLD).group_name)


def _rank(group: Any, rank: int | None, group_rank: int | None) -> int:
    if group_rank is not None:
        chosen = group or torch.distributed.group.WORLD
        return int(torch.distributed.get_global_rank(chosen, group_rank))
    return 0 if rank is None else rank


def _waits(source: int) -> CannotEstimate:
    rank = torch.distributed.get_rank()
    return CannotEstimate(
        f"rank {rank} waits for an object that rank {source} would send, and rank {source} is not "
        "predicted or did not send it",
        f"predict both: --ranks {min(source, rank)},{max(source, rank)}",
    )
