"""Predictions for transformers' own models compared with runs that have the remedy.

Each model is trained for three steps as it is and once with each remedy, all recorded; the advice
for the plain run is compared with the measured peak. Prints one JSON line.

Usage: pairs.py [--cpu]
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gpumemprof
import torch
import transformers

STEPS = 3
CPU_MODELS = {
    "gpt2, 4 layers": (
        transformers.GPT2Config(n_layer=4, n_embd=256, n_head=4, vocab_size=2000, n_positions=128),
        (8, 64),
    ),
}
CUDA_MODELS = {
    "llama, 1.1 B": (
        transformers.LlamaConfig(
            hidden_size=2048,
            intermediate_size=5632,
            num_hidden_layers=22,
            num_attention_heads=32,
            num_key_value_heads=4,
            vocab_size=32000,
        ),
        (2, 512),
    ),
    "gpt2": (transformers.GPT2Config(), (8, 256)),
}
REMEDIES = (
    ("pure_bf16",),
    ("autocast_bf16",),
    ("checkpointing",),
    ("checkpointing", "pure_bf16"),
    ("autocast_bf16", "checkpointing"),
)


def train(config: Any, shape: tuple[int, int], device: str, remedies: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    if "pure_bf16" in remedies:
        model = model.to(torch.bfloat16)
    model = model.to(device)
    model.config.use_cache = False
    model.train()
    if "checkpointing" in remedies:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, config.vocab_size, shape, device=device)
    half = torch.autocast(device, torch.bfloat16)
    for _ in range(STEPS):
        with half if "autocast_bf16" in remedies else contextlib.nullcontext():
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def record(path: Path, *arguments: Any) -> gpumemprof.Recording:
    with gpumemprof.record(path):
        train(*arguments)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return gpumemprof.load(path)


def peak(recording: gpumemprof.Recording) -> int:
    return max(device["peak"]["allocated_bytes"] for device in recording.report()["devices"])


def study(config: Any, shape: tuple[int, int], device: str, folder: Path) -> list[dict[str, Any]]:
    plain = record(folder / "plain.gmp", config, shape, device, ())
    together = ["+".join(names) for names in REMEDIES if len(names) > 1]
    advice = {row["name"]: row for row in plain.advise(together=together)["remedies"]}
    rows = []
    for names in REMEDIES:
        name = "+".join(names)
        told = advice[name]
        measured = peak(record(folder / f"{name}.gmp", config, shape, device, names))
        predicted = told["predicted_peak_allocated_bytes"]
        low, high = (
            (told["predicted_peak_allocated_band"] or {}).get(key)
            for key in ("low_bytes", "high_bytes")
        )
        is_inside = predicted is not None and low <= measured <= high
        rows.append(
            {
                "remedy": name,
                "plain": peak(plain),
                "predicted": predicted,
                "low": low,
                "high": high,
                "measured": measured,
                "is_in_band": is_inside,
            }
        )
    return rows


def main() -> None:
    is_cpu = "--cpu" in sys.argv
    models = CPU_MODELS if is_cpu else CUDA_MODELS
    result = {}
    for name, (config, shape) in models.items():
        with tempfile.TemporaryDirectory() as folder:
            result[name] = study(config, shape, "cpu" if is_cpu else "cuda", Path(folder))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
