"""Which rank this process is and where it stands in its device mesh, as torch and Megatron know.

Nothing here communicates. A mesh is noted when the program makes it, and only as numbers: many
programs destroy their process groups before they end.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["forget_listener", "mesh_facts", "process_group_facts", "watch_ranks"]

Listener = Callable[[dict[str, str]], None]
_listeners: list[Listener] = []


class _Mesh(NamedTuple):
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    coordinates: tuple[int, ...]

    @property
    def ranks(self) -> int:
        product = 1
        for size in self.sizes:
            product *= size
        return product


_meshes: list[_Mesh] = []
_group: dict[str, str] = {}
_is_inherited = False  # a process that a rank forked: what torch says is about its parent
# A program that makes meshes without end must not fill memory.
_MOST_MESHES = 64

# Megatron's names for its dimensions, by the function that knows this rank's place.
_MEGATRON = {
    "pp": ("get_pipeline_model_parallel_rank", "get_pipeline_model_parallel_world_size"),
    "tp": ("get_tensor_model_parallel_rank", "get_tensor_model_parallel_world_size"),
    "cp": ("get_context_parallel_rank", "get_context_parallel_world_size"),
    "ep": ("get_expert_model_parallel_rank", "get_expert_model_parallel_world_size"),
    "dp": ("get_data_parallel_rank", "get_data_parallel_world_size"),
}


def watch_ranks(listener: Listener | None = None) -> None:
    """Note meshes and process groups from now on. Call when torch is imported.

    Args:
        listener: called with all facts whenever there are new ones, in the thread that makes them.
    """
    with contextlib.suppress(Exception):
        _watch()
    if listener is not None:
        _listeners.append(listener)
        _tell()  # What the environment says, or a program that began before the recording.


def forget_listener(listener: Listener) -> None:
    """Call it no more."""
    with contextlib.suppress(ValueError):
        _listeners.remove(listener)


def _tell() -> None:
    facts = {**process_group_facts(), **mesh_facts()}
    for listener in tuple(_listeners):
        with contextlib.suppress(Exception):
            listener(facts)


@functools.cache
def _watch() -> None:
    distributed = sys.modules.get("torch.distributed")
    meshes = sys.modules.get("torch.distributed.device_mesh")
    if meshes is not None and hasattr(meshes, "DeviceMesh"):
        _watch_meshes(meshes.DeviceMesh)
    if distributed is not None and hasattr(distributed, "destroy_process_group"):
        _watch_groups(distributed)


def _watch_meshes(kind: type[Any]) -> None:
    make = kind.__init__

    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        make(self, *args, **kwargs)
        with contextlib.suppress(Exception):
            _note_mesh(self)
            _tell()

    kind.__init__ = __init__


def _watch_groups(distributed: Any) -> None:
    destroy = distributed.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(Exception):
            _tell()
        return destroy(*args, **kwargs)

    distributed.destroy_process_group = destroy_process_group
    # Megatron's groups are of the second kind; they are complete when the last of them is made.
    for name in ("init_process_group", "new_group"):
        _tell_after(distributed, name)


def _tell_after(distributed: Any, name: str) -> None:
    call = getattr(distributed, name, None)
    if call is None:
        return

    @functools.wraps(call)
    def call_and_tell(*args: Any, **kwargs: Any) -> Any:
        result = call(*args, **kwargs)
        if _listeners:
            with contextlib.suppress(Exception):
                _tell()
        return result

    setattr(distributed, name, call_and_tell)


def _note_mesh(mesh: Any) -> None:
    names = mesh.mesh_dim_names
    place = mesh.get_coordinate()
    if not names or place is None or len(_meshes) >= _MOST_MESHES:
        return
    noted = _Mesh(tuple(map(str, names)), tuple(map(int, mesh.shape)), tuple(map(int, place)))
    if noted not in _meshes:
        _meshes.append(noted)


def _note_group() -> None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    _group["rank"] = str(distributed.get_rank())
    _group["world_size"] = str(distributed.get_world_size())


def _note_megatron() -> None:
    state = sys.modules.get("megatron.core.parallel_state")
    if state is None or not state.model_parallel_is_initialized():
        return
    found: list[tuple[str, int, int]] = []
    for name, (rank, size) in _MEGATRON.items():
        # Older versions have no experts or contexts.
        with contextlib.suppress(Exception):
            found.append((name, int(getattr(state, size)()), int(getattr(state, rank)())))
    used = [(name, size, place) for name, size, place in found if size > 1]
    if not used:
        return
    names, sizes, places = zip(*used)
    noted = _Mesh(names, sizes, places)
    if noted not in _meshes:
        _meshes.append(noted)


def _note_environment() -> None:
    """``GPUMEMPROF_MESH=pp=1/4,tp=0/8``: for what neither torch nor Megatron knows."""
    found = []
    for word in os.environ.get("GPUMEMPROF_MESH", "").replace(",", " ").split():
        name, _, where = word.partition("=")
        place, _, size = where.partition("/")
        if name and int(place) < int(size):
            found.append((name, int(size), int(place)))
    if not found:
        return
    names, sizes, places = zip(*found)
    noted = _Mesh(names, sizes, places)
    if noted not in _meshes:
        _meshes.append(noted)


def _after_fork() -> None:
    global _is_inherited
    _listeners.clear()
    with contextlib.suppress(Exception):
        _note_group()
    _is_inherited = bool(_group)


os.register_at_fork(after_in_child=_after_fork)


def process_group_facts() -> dict[str, str]:
    """The rank and the number of ranks, if the program joined a process group."""
    if _is_inherited:
        return {}
    with contextlib.suppress(Exception):
        _note_group()
    return dict(_group)


def mesh_facts() -> dict[str, str]:
    """Each dimension of the program's meshes, its size and this rank's coordinate.

    The mesh over the most ranks with the most dimensions counts; others add the dimensions that it
    does not name, such as those of experts.
    """
    if _is_inherited:
        return {}
    with contextlib.suppress(Exception):
        _note_megatron()
    with contextlib.suppress(Exception):
        _note_environment()
    facts: dict[str, str] = {}
    whole = max((mesh.ranks for mesh in _meshes), default=0)
    meshes = [mesh for mesh in _meshes if mesh.ranks == whole]
    for mesh in sorted(meshes, key=lambda one: -len(one.names)):
        for name, size, place in zip(mesh.names, mesh.sizes, mesh.coordinates):
            if f"mesh {name}" not in facts:
                facts[f"mesh {name}"] = str(place)
                facts[f"mesh_size {name}"] = str(size)
    return facts
