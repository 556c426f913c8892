"""The module of every allocation on the GPU, against hooks on every module and node.

The small models of the tests, and the real ones where torchvision and transformers are installed.
Prints one line of JSON: for each model the number of allocations, and the wrong ones.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable

import gpumemprof
import pyarrow
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from module_models import MODELS, train
from module_referee import OUTSIDE, Referee

Case = tuple[Callable[[], nn.Module], Callable[[nn.Module], torch.Tensor]]
STEPS = 3


def tokens(vocabulary: int) -> torch.Tensor:
    return torch.randint(0, vocabulary, (2, 64), device="cuda")


def language(model: Any) -> torch.Tensor:
    ids = tokens(model.config.vocab_size)
    loss: torch.Tensor = model(input_ids=ids, labels=ids).loss
    return loss


def gpt2(checkpointing: bool) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=192, n_head=6))
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    return model


def mixtral() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(
        MixtralConfig(
            vocab_size=1000,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            num_local_experts=4,
        )
    )


def resnet() -> nn.Module:
    from torchvision.models import resnet50

    return resnet50(weights=None)


def images(model: nn.Module) -> torch.Tensor:
    return model(torch.randn(4, 3, 96, 96, device="cuda")).square().mean()


def detector() -> nn.Module:
    from torchvision.models.detection import fasterrcnn_resnet50_fpn

    return fasterrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, num_classes=5, min_size=160, max_size=160
    )


def detect(model: nn.Module) -> torch.Tensor:
    pictures = [torch.rand(3, 160, 160, device="cuda") for _ in range(2)]
    targets = [
        {
            "boxes": torch.tensor([[10.0, 10.0, 90.0, 90.0]], device="cuda"),
            "labels": torch.tensor([1], device="cuda"),
        }
        for _ in pictures
    ]
    return sum(model(pictures, targets).values(), start=torch.zeros((), device="cuda"))


REAL: dict[str, Case] = {
    "torchvision resnet50": (resnet, images),
    "torchvision fasterrcnn": (detector, detect),
    "transformers gpt2": (lambda: gpt2(False), language),
    "transformers gpt2, checkpointed": (lambda: gpt2(True), language),
    "transformers mixtral": (mixtral, language),
}


def check(folder: Path, name: str, case: Case) -> dict[str, Any]:
    make, run = case
    torch.manual_seed(0)
    model = make().cuda()
    path = folder / f"{len(list(folder.iterdir()))}.gmp"
    with gpumemprof.record(path):
        train(model, run, Referee(model), STEPS)
        torch.cuda.synchronize()
    events = pyarrow.table(gpumemprof.load(path).events)
    rows = events.select(["action", "size_bytes", "user_metadata", "module"]).to_pylist()
    rows = [row for row in rows if row["action"] == "alloc"]
    wrong = [
        f"{row['module'] or OUTSIDE} not {row['user_metadata'] or OUTSIDE}"
        for row in rows
        if (row["module"] or OUTSIDE) != (row["user_metadata"] or OUTSIDE)
    ]
    modules = len({row["module"] for row in rows})
    return {"allocations": len(rows), "modules": modules, "wrong": len(wrong), "some": wrong[:5]}


def main() -> None:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, case in {**MODELS, **REAL}.items():
            try:
                results[name] = check(Path(folder), name, case)
            except ImportError as error:  # noqa: PERF203
                results[name] = {"missing": str(error)}
            except Exception as error:  # so that the others are checked too
                results[name] = {"wrong": -1, "some": [f"{type(error).__name__}: {error}"[:300]]}
    print(json.dumps(results))


if __name__ == "__main__":
    main()
