"""Saving and loading: this process keeps the shapes of what is saved; a file has only its number.

A file that is given by its path is none of the user's if the process has a scratch folder;
otherwise it exists for the program alone (`VirtualFiles`).
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Callable

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.values import is_assumed, known_value
from gpumemprof.estimate.patches import safe_files
from gpumemprof.estimate.patches.patcher import Patcher
from gpumemprof.estimate.patches.virtual_files import VirtualFiles
from gpumemprof.estimate.shelter import moved_folders

__all__ = ["SavedTensor", "Saver", "install"]

_MOST_KEPT = 1 << 16  # elements of a tensor whose values are kept, such as a random state
_TOKEN = b"gpumemprof estimate, object "


class SavedTensor:
    """Shape and place of a tensor; what shares a storage does so again when loaded."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape = tensor.shape
        self.stride = tensor.stride()
        self.offset = tensor.storage_offset()
        self.dtype = tensor.dtype
        self.device = tensor.device
        self.requires_grad = tensor.requires_grad
        self.is_parameter = isinstance(tensor, torch.nn.Parameter)
        self.value: torch.Tensor | None = None
        known = known_value(tensor)
        if known is not None and known.numel() <= _MOST_KEPT and not is_assumed(tensor):
            with outside_modes():
                self.value = known.detach().clone()
        storage = tensor.untyped_storage()
        self.storage = storage._cdata
        self.storage_bytes = storage.nbytes()


def install(patcher: Patcher, device: Device, modes: Callable[[], Any], has_scratch: bool) -> Saver:
    files: VirtualFiles | None = None
    if has_scratch:
        moved_folders.install(patcher)
    else:
        files = VirtualFiles()
        files.install(patcher)
    saver = Saver(device, files, modes)
    patcher.set(torch, "save", saver.save)
    saver.real_load = patcher.set(torch, "load", saver.load)
    patcher.set(torch.serialization, "save", saver.save)
    patcher.set(torch.serialization, "load", saver.load)
    if importlib.util.find_spec("safetensors") is not None:
        safe_files.install(patcher, saver)
    return saver


class Saver:
    def __init__(
        self, device: Device, files: VirtualFiles | None, modes: Callable[[], Any]
    ) -> None:
        self.device = device
        self._files = files
        self._modes = modes
        self._objects: list[Any] = []
        self.real_load: Any = torch.load

    def save(self, obj: Any, f: Any, *_: Any, **__: Any) -> None:
        self.device.note("behaviour", "of what is saved, the shapes are kept, not the values")
        content = _described(obj)
        if self._files is not None and not hasattr(f, "write"):
            self._files.put(f, content)
            return
        self._objects.append(content)
        token = _TOKEN + b"%d" % (len(self._objects) - 1)
        if hasattr(f, "write"):
            f.write(token)
        else:
            with Path(f).open("wb") as file:
                file.write(token)

    def load(self, f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if self.has(f):
            return _restored(self.content(f), map_location)
        locations: dict[int, str] = {}

        def remember(storage: Any, location: str) -> Any:
            locations[storage._cdata] = location
            return storage

        with outside_modes(keeps_functions=True):
            loaded = self.real_load(f, remember, *args, **kwargs)
        with self._modes():
            return _moved(loaded, locations, map_location)

    def has(self, f: Any) -> bool:
        """Whether a file, by its path or opened, holds what was saved here."""
        if self._files is not None and not hasattr(f, "read"):
            return self._files.has(f)
        return _read_head(f).startswith(_TOKEN)

    def content(self, f: Any) -> Any:
        if self._files is not None and not hasattr(f, "read"):
            return self._files.get(f)
        return self._objects[int(_read_head(f)[len(_TOKEN) :])]

    def restored(self, content: Any, map_location: Any) -> Any:
        return _restored(content, map_location)


def _read_head(f: Any) -> bytes:
    """As long as a token can be; an opened file stays where it is."""
    length = len(_TOKEN) + 20
    if hasattr(f, "read"):
        start = f.tell()
        found = f.read(length)
        f.seek(start)
        return found if isinstance(found, bytes) else b""
    try:
        with Path(f).open("rb") as file:
            return file.read(length)
    except (OSError, TypeError, ValueError):  # It is the real function's to say.
        return b""


def _map(value: Any, function: Callable[[Any], Any]) -> Any:
    """The same structure with other leaves; objects of other types are leaves."""
    if isinstance(value, Mapping) and hasattr(value, "items"):
        mapped = {key: _map(each, function) for key, each in value.items()}
        if type(value) is dict:
            return mapped
        try:
            copied = copy.copy(value)
            copied.update(mapped)  # type: ignore[attr-defined]
            return copied
        except Exception:
            return mapped
    if isinstance(value, (list, tuple)):
        found = [_map(each, function) for each in value]
        if hasattr(value, "_fields"):
            return type(value)(*found)
        return type(value)(found) if type(value) in (list, tuple) else found
    return function(value)


def _described(obj: Any) -> Any:
    def describe(value: Any) -> Any:
        return SavedTensor(value) if isinstance(value, torch.Tensor) else value

    if isinstance(obj, torch.nn.Module):
        return _SavedModule(obj)
    return _map(obj, describe)


class _SavedModule:
    """A whole module: a copy on the CPU that shares nothing with the program's."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.device = next((each.device for each in module.parameters()), torch.device("cpu"))
        self.module = copy.deepcopy(module).to("cpu")


def _restored(content: Any, map_location: Any) -> Any:
    storages: dict[int, torch.Tensor] = {}

    def restore(value: Any) -> Any:
        if isinstance(value, _SavedModule):
            return copy.deepcopy(value.module).to(_place(value.device, map_location))
        if not isinstance(value, SavedTensor):
            return value
        if value.value is not None and _place(value.device, map_location).type == "cpu":
            with outside_modes():
                return value.value.clone()
        whole = storages.get(value.storage)
        if whole is None:
            place = _place(value.device, map_location)
            whole = torch.empty((value.storage_bytes,), dtype=torch.uint8, device=place)
            storages[value.storage] = whole
        count = value.storage_bytes // max(1, _size_of(value.dtype))
        typed = whole[: count * _size_of(value.dtype)].view(value.dtype)
        tensor = typed.as_strided(value.shape, value.stride, value.offset).detach()
        if value.is_parameter:
            return torch.nn.Parameter(tensor, value.requires_grad)
        return tensor.requires_grad_(value.requires_grad)

    return _map(content, restore)


def _size_of(dtype: torch.dtype) -> int:
    return int(dtype.itemsize)


def _place(device: torch.device, map_location: Any) -> torch.device:
    if map_location is None:
        return device
    if isinstance(map_location, (str, torch.device, int)):
        return torch.device(map_location)
    if isinstance(map_location, Mapping):
        return torch.device(map_location.get(str(device), device))
    return torch.device("cpu")  # a function, which would be given a storage


def _moved(loaded: Any, locations: dict[int, str], map_location: Any) -> Any:
    """What was read from a file, where it was saved from or where the program wants it."""

    def place_of(tensor: torch.Tensor) -> torch.device:
        location = locations.get(tensor.untyped_storage()._cdata, "cpu")
        return _place(torch.device(location), map_location)

    moved: dict[int, torch.Tensor] = {}

    def move(value: Any) -> Any:
        if isinstance(value, torch.nn.Module):
            first = next(value.parameters(), None)
            return value if first is None else value.to(place_of(first))
        if not isinstance(value, torch.Tensor) or place_of(value).type == "cpu":
            return value
        if id(value) not in moved:
            moved[id(value)] = value.to(place_of(value))
        return moved[id(value)]

    return _map(loaded, move)
