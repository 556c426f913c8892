"""What torch's C++ code asks about CUDA: the device guard and the CUDA hooks.

Builds without CUDA have no device guard for "cuda", and the autograd engine asks the CUDA hooks
whether there is an accelerator. Both are answered without a driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import torch

from gpumemprof.errors import Error
from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["install", "saying_no_cuda"]

_CUDA = 1  # c10::DeviceType::CUDA
_MOST_SLOTS = 64
# Functions that return 1 and 0, with 0 in the second register of larger results.
_MACHINE_CODE = {
    "x86_64": (b"\xb8\x01\0\0\0\x31\xd2\xc3", b"\x31\xc0\x31\xd2\xc3"),
    "aarch64": (
        b"\x20\x00\x80\xd2\x01\x00\x80\xd2\xc0\x03\x5f\xd6",
        b"\x00\x00\x80\xd2\x01\x00\x80\xd2\xc0\x03\x5f\xd6",
    ),
}
_DISTANCE = 64  # between the two functions
# As declared in torch 2.11 to 2.13; the headers of the installed release are read where present.
_USUAL_GUARD_SLOTS = (15, 2)
_USUAL_SLOTS = {"isBuilt": 2, "hasPrimaryContext": 4, "hasCUDA": 16}

_guards_that_do_nothing: set[Any] = set()
_has_cuda: list[Callable[[bool], None]] = []  # sets what torch's C++ code hears, while installed
_kept: list[Any] = []  # torch keeps pointers to these for the rest of the process


def install(patcher: Patcher, device: Device) -> None:
    _hide_cards(patcher)
    # It asks the hooks for the version of CUDA, which a build without CUDA does not have.
    configuration = torch.__config__.show()
    patcher.set(torch._C, "_show_config", lambda: configuration)
    functions = _constant_functions()
    _install_device_guard(patcher, *functions)
    if device.count > 1:
        _answer_guard(patcher, device)
    _answer_hooks(patcher, functions)


def _hide_cards(patcher: Patcher) -> None:
    """A real card must not be found, also by libraries that ask the driver themselves.

    Programs choose their cards: they read what they set, but the driver does not.
    """
    patcher.item(os.environ, "CUDA_VISIBLE_DEVICES", "")
    real = os.putenv

    def put(name: Any, value: Any) -> None:
        if os.fsdecode(name) != "CUDA_VISIBLE_DEVICES":
            real(name, value)

    patcher.set(os, "putenv", put)


def _library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / name))


def _constant_functions() -> tuple[int, int]:
    """Addresses of a function that returns 0 and of one that returns 1."""
    code = _MACHINE_CODE.get(platform.machine())
    if code is None:
        raise Error(
            f"gpumemprof estimate does not run on {platform.machine()} processors; use x86_64 or "
            "aarch64"
        )
    # Some systems refuse pages that can be written and executed; ctypes callbacks need none.
    try:
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return _callbacks()
    page[0 : len(code[0])] = code[0]
    page[_DISTANCE : _DISTANCE + len(code[1])] = code[1]
    base = ctypes.addressof(ctypes.c_char.from_buffer(page))
    _kept.append(page)
    return base + _DISTANCE, base


def _callbacks() -> tuple[int, int]:
    kind = ctypes.CFUNCTYPE(ctypes.c_long)
    functions = (kind(lambda: 0), kind(lambda: 1))
    _kept.append(functions)
    zero, one = (ctypes.cast(each, ctypes.c_void_p).value or 0 for each in functions)
    return zero, one


def _install_device_guard(patcher: Patcher, returns_zero: int, returns_one: int) -> None:
    """Put a guard that does nothing in CUDA's place.

    Newer releases have one: torch replaces a guard that reports no devices, but does not fill an
    empty place; so the place gets a guard first whose every function returns 0. For older ones,
    and where a card is in use, a guard whose every function returns 1 will do: as a device this is
    cuda:0, as a stream its default one, and as a number of devices it is right.
    """
    has_own = hasattr(torch._C, "_ensureCUDADeviceGuardSet")
    registry = _guards()
    original = registry[_CUDA]
    if original in _guards_that_do_nothing:
        return
    if not original:
        registry[_CUDA] = _guard_that_returns(returns_zero)
    if has_own:
        torch._C._ensureCUDADeviceGuardSet()
    if not has_own or registry[_CUDA] == original:
        registry[_CUDA] = _guard_that_returns(returns_one)
    _guards_that_do_nothing.add(registry[_CUDA])

    def restore() -> None:
        if original:
            registry[_CUDA] = original

    patcher.on_undo(restore)


def _answer_guard(patcher: Patcher, device: Device) -> None:
    """With several devices: how many there are, and which is the current one.

    The autograd engine has a thread for each, and ``tensor.cuda()`` uses the current one.
    """
    registry = _guards()
    original = registry[_CUDA]
    guard = ctypes.cast(original, ctypes.POINTER(ctypes.c_void_p))
    functions = ctypes.cast(guard[0], ctypes.POINTER(ctypes.c_void_p))
    table = (ctypes.c_void_p * _MOST_SLOTS)(*[functions[index] for index in range(_MOST_SLOTS)])
    kind = ctypes.CFUNCTYPE(ctypes.c_long)
    # A device is two bytes: its type and its index.
    answers = (kind(lambda: device.count), kind(lambda: _CUDA | device.index << 8))
    for slot, answer in zip(_guard_slots(), answers):
        table[slot] = ctypes.cast(answer, ctypes.c_void_p).value
    answering = (ctypes.c_void_p * 1)(ctypes.addressof(table))
    _kept.append((table, answering, answers))
    registry[_CUDA] = ctypes.addressof(answering)

    def restore() -> None:
        registry[_CUDA] = original

    patcher.on_undo(restore)


def _guard_slots() -> tuple[int, int]:
    """The places of deviceCount and getDevice in the guard's table, from the release's header."""
    header = Path(torch.__file__).parent / "include/c10/core/impl/DeviceGuardImplInterface.h"
    try:
        text = re.sub(r"//[^\n]*|/\*.*?\*/", "", header.read_text(), flags=re.S)
    except OSError:
        return _USUAL_GUARD_SLOTS
    names = re.findall(r"\bvirtual\b[^(;{]*?(~?\w+)\s*\(", text)
    return names.index("deviceCount"), names.index("getDevice")


def _guards() -> Any:
    return (ctypes.c_void_p * (_CUDA + 1)).in_dll(
        _library("libc10.so"), "_ZN3c104impl26device_guard_impl_registryE"
    )


def _guard_that_returns(function: int) -> int:
    functions = (ctypes.c_void_p * _MOST_SLOTS)(*[function] * _MOST_SLOTS)
    guard = (ctypes.c_void_p * 1)(ctypes.addressof(functions))
    _kept.append((functions, guard))
    return ctypes.addressof(guard)


def _answer_hooks(patcher: Patcher, functions: tuple[int, int]) -> None:
    """CUDA is built and available, but no context exists that would have to be waited for."""
    zero, one = functions
    slots = _hook_slots()
    get = _library("libtorch_cpu.so")._ZN2at6detail12getCUDAHooksEv
    get.restype = ctypes.c_void_p
    hooks = ctypes.cast(get(), ctypes.POINTER(ctypes.c_void_p))
    original = hooks[0] or 0
    # Before the first function are the offset to the object's top and its type.
    count = _MOST_SLOTS + 2
    old = ctypes.cast(original - 16, ctypes.POINTER(ctypes.c_void_p))
    table = (ctypes.c_void_p * count)(*[old[index] for index in range(count)])
    for name in ("isBuilt", "hasCUDA"):
        if name in slots:
            table[2 + slots[name]] = one
    table[2 + slots["hasPrimaryContext"]] = zero
    _kept.append(table)
    hooks[0] = ctypes.addressof(table) + 16
    _has_cuda.append(lambda answer: table.__setitem__(2 + slots["hasCUDA"], (zero, one)[answer]))

    def restore() -> None:
        hooks[0] = original
        _has_cuda.clear()

    patcher.on_undo(restore)


@contextlib.contextmanager
def saying_no_cuda() -> Iterator[None]:
    """Within, torch's C++ code hears that there is no CUDA, and leaves the driver alone."""
    for say in _has_cuda:
        say(False)
    try:
        yield
    finally:
        for say in _has_cuda:
            say(True)


def _hook_slots() -> dict[str, int]:
    """Places of the hooks in their table of virtual functions, from the release's own headers."""
    folder = Path(torch.__file__).parent / "include" / "ATen" / "detail"
    names: list[str] = []
    try:
        for header in ("AcceleratorHooksInterface.h", "CUDAHooksInterface.h"):
            text = (folder / header).read_text()
            text = re.sub(r"#ifdef USE_ROCM.*?#endif", "", text, flags=re.S)
            text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
            for name in re.findall(r"\bvirtual\b[^(;{]*?(~?\w+)\s*\(", text):
                if name not in names:  # else it overrides
                    names += [name, name] if name.startswith("~") else [name]  # destructors: two
    except OSError:
        return dict(_USUAL_SLOTS)
    return {name: names.index(name) for name in _USUAL_SLOTS if name in names}
