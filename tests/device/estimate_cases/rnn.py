"""LSTM, GRU and plain RNN: cuDNN's reserve space and workspaces."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Callable

import torch
from torch import nn

Case = tuple[str, Callable[[], Callable[[], Any]]]
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def case(device: str, options: tuple[Any, ...]) -> Case:
    kind, dtype, steps, batch, inputs, hidden, layers, both, dropout, first, mode, projected = (
        options
    )
    name = "rnn " + " ".join(map(str, options))

    def setup() -> Callable[[], Any]:
        made = getattr(nn, kind)
        extra = {"proj_size": projected} if projected else {}
        net = made(
            inputs, hidden, layers, bidirectional=both, dropout=dropout, batch_first=first, **extra
        ).to(device, DTYPES[dtype])
        shape = (batch, steps) if first else (steps, batch)
        x = torch.randn(*shape, inputs, dtype=DTYPES[dtype], device=device)
        if mode == "packed":
            lengths = [max(1, steps - index * steps // (2 * batch)) for index in range(batch)]
            x = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=first)
        elif mode == "grad":
            x.requires_grad_()
        if mode == "eval":
            net.eval()

        def body() -> Any:
            with torch.set_grad_enabled(mode != "eval"):
                out, _ = net(x)
            data = out.data if mode == "packed" else out
            if mode == "packed":
                out.data.sum().backward()
            elif mode != "eval":
                out.backward(torch.ones_like(out))
            return data

        return body

    return name, setup


def flatten_case(device: str, kind: str) -> Case:
    def setup() -> Callable[[], Any]:
        net = getattr(nn, kind)(64, 128, 2)
        return lambda: net.to(device)

    return f"rnn flatten {kind}", setup


def cases(device: str, seed: int = 0) -> Iterator[Case]:
    """A base size changed in one way at a time, then random sizes."""
    chooser = random.Random(seed)
    base: dict[str, Any] = {
        "kind": "LSTM",
        "dtype": "f32",
        "steps": 20,
        "batch": 8,
        "inputs": 64,
        "hidden": 128,
        "layers": 1,
        "both": False,
        "dropout": 0.0,
        "first": False,
        "mode": "train",
        "projected": 0,
    }
    ranges: dict[str, list[Any]] = {
        "kind": ["LSTM", "GRU", "RNN"],
        "dtype": ["f32", "f16", "bf16"],
        "steps": [1, 5, 20, 64, 128, 300],
        "batch": [1, 2, 8, 16, 32, 64, 100],
        "inputs": [1, 10, 32, 64, 128, 300, 512],
        "hidden": [16, 32, 50, 64, 100, 128, 200, 256, 384, 512, 768, 1024],
        "layers": [1, 2, 3, 4],
        "both": [False, True],
        "dropout": [0.0, 0.3],
        "first": [False, True],
        "mode": ["train", "grad", "eval", "packed"],
        "projected": [0, 0, 0, 32],
    }
    for kind in ranges["kind"]:
        yield flatten_case(device, kind)
    one_change = [
        {**base, "kind": kind, "dtype": dtype, key: value}
        for kind in ranges["kind"]
        for dtype in ranges["dtype"]
        for key, values in ranges.items()
        for value in values
    ]
    chooser.shuffle(one_change)
    for chosen in one_change:
        yield case(device, tuple(chosen.values()))
    while True:
        chosen = {key: chooser.choice(values) for key, values in ranges.items()}
        if chosen["projected"] and (chosen["kind"] != "LSTM" or chosen["hidden"] <= 32):
            chosen["projected"] = 0
        if chosen["layers"] == 1:
            chosen["dropout"] = 0.0
        yield case(device, tuple(chosen.values()))
