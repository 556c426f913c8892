"""How well remedies are predicted on models that nobody tuned for: advice against measured runs.

usage: python bench/advice_models.py [MODEL ...] [--remedy NAME] [--markdown] [--keep FOLDER]

Trains each of `small_models` for three steps with CPU tensors, unchanged and with one remedy at a
time, records all runs, and compares the advice for the plain run with the measured peak of the
changed run. The last lines summarize by remedy and by model.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gpumemprof
import torch
from small_models import MODELS, VOCABULARY, Kind, plainly
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

STEPS = 3
BATCH = 8
TOKENS = 64
PIXELS = 32
KIB = 1 << 10


class Setup(NamedTuple):
    """One way to train a model; the defaults are the plain run."""

    batch: int = BATCH
    tokens: int = TOKENS
    optimizer: str = "adamw"
    precision: str = "fp32"
    recompute: str = ""
    blocks: tuple[int, ...] = ()  # recompute only these, out of this many:
    of: int = 0
    parts: int = 1  # of a batch, each with its own backward
    batches: int = 1  # before each step
    zeroes: str = "after step"


# The run that has the remedy, and the run that is advised if it is not the plain one.
REMEDIES: dict[str, tuple[Setup, Setup]] = {
    "checkpointing": (Setup(recompute="blocks"), Setup()),
    "checkpointing_selective": (Setup(recompute="selective"), Setup()),
    "autocast_bf16": (Setup(precision="autocast"), Setup()),
    "pure_bf16": (Setup(precision="bf16"), Setup()),
    "sgd": (Setup(optimizer="sgd"), Setup()),
    "sgd_momentum": (Setup(optimizer="sgd_momentum"), Setup()),
    "adafactor": (Setup(optimizer="adafactor"), Setup()),
    "foreach_off": (Setup(optimizer="adamw_loop"), Setup()),
    "fused": (Setup(optimizer="adamw_fused"), Setup()),
    "batch_x0.5": (Setup(batch=BATCH // 2), Setup()),
    "batch_x2": (Setup(batch=2 * BATCH), Setup()),
    "sequence_x0.5": (Setup(tokens=TOKENS // 2), Setup()),
    "sequence_x2": (Setup(tokens=2 * TOKENS), Setup()),
    "accumulate_x4": (Setup(batches=4), Setup()),
    "micro_batch_x0.25": (Setup(parts=4), Setup()),
    "autocast_bf16+micro_batch_x0.5": (Setup(precision="autocast", parts=2), Setup()),
    "autocast_bf16+micro_batch_x0.25": (Setup(precision="autocast", parts=4), Setup()),
    "checkpointing+autocast_bf16": (Setup(recompute="blocks", precision="autocast"), Setup()),
    "checkpointing+micro_batch_x0.25": (Setup(recompute="blocks", parts=4), Setup()),
    "pure_bf16+sgd": (Setup(precision="bf16", optimizer="sgd"), Setup()),
    "zero_grad_to_none": (Setup(), Setup(zeroes="in place")),
    "zero_grad_early": (Setup(), Setup(zeroes="before backward")),
}


def make_optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    parameters = list(model.parameters())
    if name.startswith("sgd"):
        return torch.optim.SGD(
            parameters, lr=1e-3, momentum=0.9 if name == "sgd_momentum" else 0, foreach=False
        )
    if name == "adafactor":
        return torch.optim.Adafactor(parameters, lr=1e-3, foreach=False)
    return torch.optim.AdamW(
        parameters, lr=1e-3, foreach=name == "adamw", fused=name == "adamw_fused"
    )


KEPT = [
    torch.ops.aten.mm.default,
    torch.ops.aten.addmm.default,
    torch.ops.aten.bmm.default,
    torch.ops.aten.convolution.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
]


def selectively(block: nn.Module, *inputs: Tensor) -> Tensor:
    """Recompute a block, but keep matrix products and attention."""
    context = partial(create_selective_checkpoint_contexts, KEPT)
    result: Tensor = checkpoint(block, *inputs, use_reentrant=False, context_fn=context)
    return result


class Chosen:
    """Recompute the blocks with these numbers, in the order they run."""

    def __init__(self, numbers: tuple[int, ...], of: int) -> None:
        self.numbers = numbers
        self.of = of
        self.calls = 0

    def __call__(self, block: nn.Module, *inputs: Tensor) -> Tensor:
        number = self.calls % self.of
        self.calls += 1
        result: Tensor = plainly(block, *inputs) if number in self.numbers else block(*inputs)
        return result


def make_batch(kind: Kind, setup: Setup) -> tuple[Tensor, Tensor]:
    if kind.reads_tokens:
        tokens = torch.randint(VOCABULARY, (setup.batch, setup.tokens + 1))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    images = torch.randn(setup.batch, 3, PIXELS, PIXELS)
    if setup.precision == "bf16":
        images = images.to(torch.bfloat16)
    return images, torch.randint(100, (setup.batch,))


def train(kind: Kind, setup: Setup) -> None:
    model: Any = kind.build()
    if setup.precision == "bf16":
        model = model.to(torch.bfloat16)
    model.recompute = {"blocks": plainly, "selective": selectively}.get(setup.recompute)
    if setup.blocks:
        model.recompute = Chosen(setup.blocks, setup.of)
    optimizer = make_optimizer(setup.optimizer, model)
    context = contextlib.nullcontext()
    for _ in range(STEPS):
        for _ in range(setup.batches):
            x, y = make_batch(kind, setup)
            for x_part, y_part in zip(x.chunk(setup.parts), y.chunk(setup.parts)):
                context = (
                    torch.autocast("cpu", dtype=torch.bfloat16)
                    if setup.precision == "autocast"
                    else contextlib.nullcontext()
                )
                with context:
                    logits = model(x_part)
                    loss = functional.cross_entropy(logits.flatten(0, -2), y_part.flatten())
                del logits
                if setup.zeroes == "before backward":
                    optimizer.zero_grad()
                loss.backward()
                del loss
        optimizer.step()
        if setup.zeroes != "before backward":
            optimizer.zero_grad(set_to_none=setup.zeroes != "in place")


def record(name: str, setup: Setup, path: Path) -> gpumemprof.Recording:
    torch.manual_seed(0)
    gc.collect()
    with gpumemprof.record(path, cpu=True, overwrite=True):
        train(MODELS[name], setup)
    gc.collect()
    return gpumemprof.load(path)


class Pair(NamedTuple):
    """A prediction and the truth."""

    model: str
    remedy: str
    plain: int
    true: int
    predicted: int | None
    low: int
    high: int
    why: str

    @property
    def error_pct(self) -> float:
        return 100 * ((self.predicted or 0) - self.true) / self.true

    @property
    def is_within(self) -> bool:
        return self.low <= self.true <= self.high


def compare_subset(name: str, folder: Path) -> Iterator[Pair]:
    """The blocks that a limit of 80 % of the peak asks for, if it asks for nothing but blocks."""
    plain = record(name, Setup(), folder / f"{name}.plain.gmp")
    peak = plain.devices[0].peak.allocated_bytes
    fit = plain.advise(fit=peak * 8 // 10)["fit"]
    for found in [fit, *fit["alternatives"]]:
        if found["remedies"] != ["checkpointing"]:
            continue
        blocks = found["checkpointing"]
        setup = Setup(blocks=tuple(blocks["which"]), of=blocks["of"])
        truth = record(name, setup, folder / f"{name}.subset.gmp")
        band = found["predicted_peak_allocated_band"]
        yield Pair(
            name,
            f"checkpointing of {blocks['blocks']} of {blocks['of']}",
            peak,
            truth.devices[0].peak.allocated_bytes,
            found["predicted_peak_allocated_bytes"],
            band["low_bytes"],
            band["high_bytes"],
            "",
        )


def compare(name: str, folder: Path, only: Sequence[str]) -> Iterator[Pair]:
    kind = MODELS[name]
    if kind.has_blocks and (not only or "checkpointing" in only):
        yield from compare_subset(name, folder)
    advised: dict[Setup, dict[str, Any]] = {}
    for remedy, (changed, plain) in REMEDIES.items():
        if only and remedy not in only:
            continue
        if remedy.startswith("checkpointing") and not kind.has_blocks:
            continue
        if remedy.startswith("sequence") and not kind.reads_tokens:
            continue
        if plain not in advised:
            path = folder / f"{name}.plain{len(advised)}.gmp"
            sets = [words for words in REMEDIES if "+" in words]
            advised[plain] = record(name, plain, path).advise(batch=plain.batch, together=sets)
        advice = advised[plain]
        entries = {entry["name"]: entry for entry in advice["remedies"]}
        if remedy not in entries:
            continue
        entry = entries[remedy]
        truth = record(name, changed, folder / f"{name}.{remedy}.gmp")
        band = entry["predicted_peak_allocated_band"] or {"low_bytes": 0, "high_bytes": 0}
        yield Pair(
            name,
            remedy,
            advice["baseline"]["peak_allocated_bytes"],
            truth.devices[0].peak.allocated_bytes,
            entry["predicted_peak_allocated_bytes"],
            band["low_bytes"],
            band["high_bytes"],
            entry["why"],
        )


def print_pairs(pairs: Sequence[Pair], markdown: bool) -> None:
    names = ["model", "remedy", "plain", "predicted", "true", "error", "band", "in"]
    if markdown:
        print("| " + " | ".join(names) + " |")
        print("|" + "---|" * len(names))
    for pair in pairs:
        known = pair.predicted is not None
        cells = [
            pair.model,
            pair.remedy,
            f"{pair.plain / KIB:.0f}",
            f"{(pair.predicted or 0) / KIB:.0f}" if known else "-",
            f"{pair.true / KIB:.0f}",
            f"{pair.error_pct:+.1f} %" if known else pair.why,
            f"{pair.low / KIB:.0f} to {pair.high / KIB:.0f}" if known else "-",
            ("yes" if pair.is_within else "no") if known else "-",
        ]
        print("| " + " | ".join(cells) + " |" if markdown else "  ".join(cells), flush=True)


def sum_up(pairs: Sequence[Pair]) -> None:
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair.predicted is None:
            continue
        for key in ("all", pair.model, pair.remedy.partition(" of ")[0]):
            groups.setdefault(key, []).append(pair)
    for name, members in groups.items():
        errors = [abs(pair.error_pct) for pair in members]
        within = sum(pair.is_within for pair in members)
        print(
            f"- {name}: {len(members)} pairs, median error {statistics.median(errors):.1f} %, "
            f"worst {max(errors):.1f} %, {within} in the band"
        )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--remedy", action="append", default=[], help="only this one")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--keep", type=Path, help="leave the recordings in this folder")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in options.models or MODELS:
            pairs.extend(compare(name, folder, options.remedy))
    print_pairs(pairs, options.markdown)
    print()
    sum_up(pairs)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
