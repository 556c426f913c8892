"""Transformer layers in evaluation allocate and free what they did on an H200, in its order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from gpumemprof.estimate.engine.device import torch_release
from torch import nn

RECORDED = json.loads(
    (Path(__file__).parents[2] / "data" / "estimate" / "fused_encoder.json").read_text()
)
BATCH, LENGTH, SIZE, HEADS, HIDDEN = 8, 96, 256, 4, 1024

pytestmark = pytest.mark.skipif(torch_release() < (2, 11), reason="recorded with torch 2.11")


def padding_mask() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(LENGTH // 4, LENGTH + 1, (BATCH,), generator=generator)
    lengths[0] = LENGTH - 3
    return (torch.arange(LENGTH)[None] >= lengths[:, None]).cuda()


def encoder(size: int = SIZE, hidden: int = HIDDEN, count: int = 2, **options: object) -> nn.Module:
    nested = options.pop("nested", True)
    layer = nn.TransformerEncoderLayer(size, HEADS, hidden, batch_first=True, **options)
    return nn.TransformerEncoder(layer, count, enable_nested_tensor=nested)


def masks_of(name: str) -> dict[str, torch.Tensor]:
    if name in ("without mask", "attention without weights"):
        return {}
    if name == "nothing padded":
        padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool, device="cuda")
    elif name == "padded left":
        padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool, device="cuda")
        padding[:, :5] = True
    else:
        padding = padding_mask()
    if name == "attention with weights":
        return {"key_padding_mask": padding}
    found = {"src_key_padding_mask": padding}
    if name == "both masks":
        found["mask"] = nn.Transformer.generate_square_subsequent_mask(LENGTH, device="cuda")
    return found


def model_of(name: str) -> nn.Module:
    if name.startswith("attention"):
        return nn.MultiheadAttention(SIZE, HEADS, batch_first=True)
    if name == "layer":
        return nn.TransformerEncoderLayer(SIZE, HEADS, HIDDEN, batch_first=True)
    options = {
        "gelu": {"activation": "gelu"},
        "normalized first": {"norm_first": True},
        "not nested": {"nested": False},
        "small heads": {"size": 24, "hidden": 64},
        "masked": {"count": 3},
        "masked float16": {"count": 3},
    }
    return encoder(**options.get(name, {}))


class Log:
    """Numbers allocations; a free is -1 minus the number."""

    def __init__(self, memory) -> None:
        self.events: list[int] = []
        self._numbers: dict[int, int] = {}
        allocate, free = memory.allocate, memory.free

        def logged_allocate(size, *args):
            address = allocate(size, *args)
            self._numbers[address] = sum(event > 0 for event in self.events)
            self.events.append(size)
            return address

        def logged_free(address):
            if address in self._numbers:
                self.events.append(-1 - self._numbers.pop(address))
            return free(address)

        memory.allocate, memory.free = logged_allocate, logged_free

    def restart(self) -> None:
        self.events.clear()
        self._numbers.clear()


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_a_fused_layer(name: str, estimate, memory) -> None:
    log = Log(memory)
    dtype = torch.float16 if name.endswith("float16") else torch.float32
    model = model_of(name).to("cuda", dtype).eval()
    size = 24 if name == "small heads" else SIZE
    x = torch.empty(BATCH, LENGTH, size, device="cuda", dtype=dtype)
    masks = masks_of(name)
    with torch.no_grad():
        for _ in range(2):  # the first call also takes the workspaces, which stay
            log.restart()
            if name.startswith("attention"):
                result = model(x, x, x, need_weights=name.endswith("with weights"), **masks)
            else:
                result = model(x, **masks)
            del result
    assert log.events == RECORDED[name]
