"""Applied advice: what `--fit` to 60 % of the measured peak gives must run under that limit.

Three processes for each model: a few recorded steps; the same unchanged under the limit, which must
run out of memory, or the test shows nothing; the advised change under the limit, which must not.
The limit is on what the pool reserves (`set_per_process_memory_fraction`), and the 60 % refers to
the peak of allocated bytes, which is smaller. Prints one line of JSON.

Usage: fit.py [--cpu] [MODEL...]     --cpu: small models on CPU tensors, which have no limit
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import gpumemprof

SHARE = 0.6
RECORDED_STEPS, APPLIED_STEPS = 3, 6
PARTS = {"micro_batch_x0.5": 2, "micro_batch_x0.25": 4, "micro_batch_x0.125": 8}
SIZES = {"gpt2": 4, "resnet50": 32}  # samples in a batch
SMALL_SIZES = {"gpt2": 8, "resnet50": 8}
# What train() can do; gradients are dropped after each step in any case.
KNOWN = {
    *("expandable_segments", "fused", "foreach_off", "adam_8bit", "adafactor", "sgd"),
    *("sgd_momentum", "checkpointing", "autocast_bf16", "pure_bf16", *PARTS),
    *("zero_grad_to_none", "zero_grad_early"),
}


class Program:
    """A model, its blocks in the order they run, its batches and its loss."""

    def __init__(self, name: str, is_small: bool) -> None:
        import torch

        self.name = name
        self.samples = (SMALL_SIZES if is_small else SIZES)[name]
        self.random = torch.Generator().manual_seed(1)
        torch.manual_seed(0)
        if name == "gpt2":
            import transformers

            small = {"n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 300}
            small.update(bos_token_id=0, eos_token_id=0)
            config = transformers.GPT2Config(**(small if is_small else {}))
            self.model: Any = transformers.GPT2LMHeadModel(config)
            self.blocks = list(self.model.transformer.h)
            self.length = 64 if is_small else 512
        else:
            from torchvision.models.resnet import Bottleneck, ResNet

            self.model = ResNet(Bottleneck, [2, 2, 2, 2] if is_small else [3, 4, 6, 3])
            model = self.model
            layers = (model.layer1, model.layer2, model.layer3, model.layer4)
            self.blocks = [block for layer in layers for block in layer]
            self.length = 32 if is_small else 224

    def batch(self) -> tuple[Any, Any]:
        import torch

        if self.name == "gpt2":
            shape = (self.samples, self.length)
            ids = torch.randint(0, self.model.config.vocab_size, shape, generator=self.random)
            return ids, ids
        shape = (self.samples, 3, self.length, self.length)
        labels = torch.randint(0, 1000, (self.samples,), generator=self.random)
        return torch.randn(shape, generator=self.random), labels

    def loss(self, x: Any, y: Any) -> Any:
        import torch

        if self.name == "gpt2":
            return self.model(input_ids=x, labels=y).loss
        return torch.nn.functional.cross_entropy(self.model(x).float(), y)

    def checkpoint(self, which: list[int]) -> None:
        if self.name == "gpt2":
            self.model.config.use_cache = False  # it would be filled twice
        for number in which:
            block = self.blocks[number]
            block.forward = checkpointed(block.forward)

    def optimizer(self, remedies: set[str]) -> Any:
        import torch

        parameters = list(self.model.parameters())
        if "adam_8bit" in remedies:
            import bitsandbytes

            return bitsandbytes.optim.AdamW8bit(parameters, lr=1e-4)
        if "adafactor" in remedies:
            return torch.optim.Adafactor(parameters, lr=1e-3)
        mode: dict[str, bool] = {}
        if "fused" in remedies:
            mode = {"fused": True}
        elif "foreach_off" in remedies:
            mode = {"foreach": False}
        if "sgd" in remedies:
            return torch.optim.SGD(parameters, lr=1e-3, **mode)
        if self.name == "gpt2" and "sgd_momentum" not in remedies:
            return torch.optim.AdamW(parameters, lr=1e-4, **mode)
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, **mode)


def checkpointed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        from torch.utils.checkpoint import checkpoint

        return checkpoint(functools.partial(forward, **kwargs), *args, use_reentrant=False)

    return run


def parts_of(batch: tuple[Any, Any], parts: int) -> Iterator[tuple[Any, Any]]:
    x, y = batch
    return zip(x.chunk(parts), y.chunk(parts))


def train(program: Program, spec: dict[str, Any]) -> None:
    """One training program; the remedies are written into it as a user would write them."""
    import torch

    remedies = set(spec["remedies"])
    device = spec["device"]
    model = program.model
    half = torch.bfloat16
    if "pure_bf16" in remedies:
        model = model.to(half)
    model.train().to(device)
    if "checkpointing" in remedies:
        program.checkpoint(spec["blocks"] or list(range(len(program.blocks))))
    optimizer = program.optimizer(remedies)
    parts = next((PARTS[name] for name in remedies if name in PARTS), 1)
    for _ in range(spec["steps"]):
        x, y = (tensor.to(device) for tensor in program.batch())
        if "pure_bf16" in remedies and x.is_floating_point():
            x = x.to(half)
        for x_part, y_part in parts_of((x, y), parts):
            with torch.autocast(device, half, enabled="autocast_bf16" in remedies):
                loss = program.loss(x_part, y_part) / parts
            loss.backward()
            del loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del x, y, x_part, y_part


def child(spec: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own: train, and return what torch's counters then report."""
    import torch

    is_cuda = spec["device"] == "cuda"
    total = torch.cuda.mem_get_info()[1] if is_cuda else None
    if is_cuda and spec["limit"] is not None:
        torch.cuda.set_per_process_memory_fraction(spec["limit"] / total)
    oom = None
    with contextlib.ExitStack() as stack:
        if spec["recording"] is not None:
            stack.enter_context(gpumemprof.record(spec["recording"], cpu=not is_cuda))
        program = Program(spec["model"], not is_cuda)
        try:
            train(program, spec)
        except torch.OutOfMemoryError as error:
            oom = str(error).partition(". ")[0]
    return {
        "oom": oom,
        "blocks": len(program.blocks),
        "allocated": torch.cuda.max_memory_allocated() if is_cuda else None,
        "reserved": torch.cuda.max_memory_reserved() if is_cuda else None,
        "retries": torch.cuda.memory_stats()["num_alloc_retries"] if is_cuda else None,
    }


def run(spec: dict[str, Any], folder: Path) -> dict[str, Any]:
    spec = {"limit": None, "recording": None, "blocks": None, "steps": APPLIED_STEPS, **spec}
    environment = dict(os.environ)
    if "expandable_segments" in spec["remedies"]:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
    if spec["device"] == "cpu":
        # For CPU tensors the only counters are those of a recording.
        spec["recording"] = spec["recording"] or str(folder / "applied.gmp")
        Path(spec["recording"]).unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(spec)],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{spec['remedies']}: {done.stderr[-1200:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if spec["device"] == "cpu":
        (device,) = gpumemprof.load(spec["recording"]).devices
        result["allocated"] = device.peak.allocated_bytes
    return result


def ask_for_plan(recording: Path, limit: int, samples: int) -> dict[str, Any]:
    """The command's output and exit code."""
    words = ["advise", str(recording), "--fit", str(limit), "--batch", str(samples), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "gpumemprof", *words], capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr[-1200:])
    plan: dict[str, Any] = json.loads(done.stdout)["fit"]
    return plan


def has_bitsandbytes() -> bool:
    try:
        import bitsandbytes  # noqa: F401
    except Exception:
        return False
    return True


def choose(plan: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """The advised set, or the next one if this machine lacks what it needs; and a note about it."""
    if not plan["is_found"]:
        return None, "no set was found"
    for number, plan_set in enumerate([plan, *plan.get("alternatives", [])]):
        names = set(plan_set["remedies"])
        if names - KNOWN:
            return None, f"{sorted(names - KNOWN)} cannot be carried out here"
        if "adam_8bit" not in names or has_bitsandbytes():
            return plan_set, "" if number == 0 else f"alternative {number}: no bitsandbytes here; "
    return None, "bitsandbytes is not installed, and every set needs it"


def blocks_of(plan_set: dict[str, Any], count: int) -> tuple[list[int] | None, str]:
    """Which blocks to checkpoint; None means all of them."""
    named = plan_set.get("checkpointing")
    if not isinstance(named, dict) or "checkpointing" not in plan_set["remedies"]:
        return None, ""
    which = list(named["which"])
    if named["of"] != count:
        return None, f"all {count} blocks, since the advice counts {named['of']}; "
    return which, f"{len(which)} of {count} blocks; "


def in_band(band: dict[str, int] | None, measured: int | None) -> bool | None:
    if band is None or measured is None:
        return None
    return band["low_bytes"] <= measured <= band["high_bytes"]


def compare(model: str, device: str, folder: Path) -> dict[str, Any]:
    common = {"model": model, "device": device}
    recording = folder / f"{model}.gmp"
    as_it_is = {"remedies": [], "steps": RECORDED_STEPS, "recording": str(recording)}
    unchanged = run({**common, **as_it_is}, folder)
    limit = int(SHARE * unchanged["allocated"])
    result = {"unchanged": unchanged, "limit": limit, "wrong": []}
    samples = (SMALL_SIZES if device == "cpu" else SIZES)[model]
    plan = ask_for_plan(recording, limit, samples)
    plan_set, word = choose(plan)
    if plan_set is None:
        result["wrong"].append(word)
        return result
    which, blocks_word = blocks_of(plan_set, unchanged["blocks"])
    result["plan"] = plan_set
    control = run({**common, "remedies": [], "limit": limit}, folder)
    change = {"remedies": plan_set["remedies"], "blocks": which, "limit": limit}
    applied = run({**common, **change}, folder)
    result["control"], result["applied"] = control, applied
    result["word"] = word + blocks_word
    for kind in ("allocated", "reserved"):
        band = plan_set[f"predicted_peak_{kind}_band"]
        result[f"is_{kind}_in_band"] = in_band(band, applied[kind])
    if device == "cuda":
        if control["oom"] is None:
            result["wrong"].append("unchanged it runs under the limit too")
        if applied["oom"] is not None:
            result["wrong"].append(applied["oom"])
    elif applied["allocated"] > limit:
        result["wrong"].append(f"takes {applied['allocated']} of {limit} bytes")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("models", nargs="*", default=[])
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(child(json.loads(options.child))))
        return
    device = "cpu" if options.cpu else "cuda"
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models or SIZES:
            try:
                results[model] = compare(model, device, Path(folder))
            except RuntimeError as error:  # noqa: PERF203 - one model's failure is not the other's
                results[model] = {"wrong": [str(error)]}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
