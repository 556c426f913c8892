"""The kernel that computes attention is the one that torch chose on an H200."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from gpumemprof.estimate.engine.device import torch_release
from gpumemprof.estimate.rules.attention.choice import Attention, chosen_kernel

from replay import LoggedMemory, Replay

# torch itself says in which order it tries kernels; older releases have another one.
pytestmark = pytest.mark.skipif(torch_release() < (2, 11), reason="recorded with torch 2.11")

DATA = Path(__file__).parents[3] / "data" / "estimate" / "attention_choices.json"
CASE = re.compile(
    r"(\w+) (\w+) ([\d.]+) (\d+) (\d+) \((\d+), (\d+)\) (\w+) \((\d+), (\d+)\) (\w+)$"
)


def tensor_text(dtype: str, layout: str, shape: tuple[int, int, int, int]) -> str:
    batch, heads, length, size = shape
    text = f"{dtype}[{batch},{heads},{length},{size}]"
    if layout == "bhld":
        return text
    width = heads * size * (3 if layout == "packed" else 1)
    text += f"{{{length * width},{size},{width},1}}"
    return text + f"@{heads * size}" if layout == "packed" else text


def attention_of(replay: Replay, text: str) -> Attention:
    match = CASE.match(text)
    assert match is not None, text
    dtype, mask, dropout, groups, *rest, grad = match.groups()
    size, rows, columns = (int(each) for each in rest[:3])
    layout, batch, heads = rest[3], int(rest[4]), int(rest[5])
    kept_heads = heads // int(groups)
    query = replay.tensor(tensor_text(dtype, layout, (batch, heads, rows, size)))
    key = replay.tensor(tensor_text(dtype, layout, (batch, kept_heads, columns, size)))
    mask_sizes = {
        "bool11": (1, 1, rows, columns),
        "boolb1": (batch, 1, 1, columns),
        "bool2d": (rows, columns),
        "float1": (1, 1, rows, columns),
    }.get(mask, (batch, heads, rows, columns))
    tensor: Any = None
    if mask not in ("none", "causal"):
        mask_dtype = "b8" if mask.startswith("bool") else "f32" if mask == "f32" else dtype
        tensor = replay.tensor(f"{mask_dtype}[{','.join(map(str, mask_sizes))}]")
        tensor.requires_grad_(mask == "floatgrad")
    return Attention(
        query, key, key, tensor, float(dropout), mask == "causal", int(groups) > 1, grad == "True"
    )


def test_the_kernel_of_each_recorded_call() -> None:
    replay = Replay()
    device = replay.device(LoggedMemory())
    recorded = json.loads(DATA.read_text())["choices"]
    assert {kernel for _, kernel in recorded} == {"cudnn", "flash", "efficient", "math"}
    wrong = [
        f"{text}: {found}, not {kernel}"
        for text, kernel in recorded
        if (found := chosen_kernel(device, attention_of(replay, text))) != kernel
    ]
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize("kernel", ["flash", "efficient"])
def test_a_program_can_forbid_kernels(kernel: str) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    replay = Replay()
    device = replay.device(LoggedMemory())
    call = attention_of(replay, "bf16 none 0.0 1 64 (128, 128) bhld (2, 4) True")
    assert chosen_kernel(device, call) == "cudnn"
    backends = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    with sdpa_kernel(backends[kernel]):
        assert chosen_kernel(device, call) == kernel
