"""How long `gpumemprof estimate` takes, and its resident memory, against the bars of each.

usage: python bench/estimate/prediction_time.py [--only NAME...] [--json]

Six programs, most of which need transformers: three training steps of GPT-2 and of ResNet-50; three
steps of a model of 70 billion parameters on a card that has room for it, and on one that does not,
which takes two predictions; 256 generated tokens; and a world of 1,024 ranks, of which those that
can differ are predicted: an 8 billion parameter Llama with FSDP2 and tensor parallel, and a small
encoder with FSDP2.

Bars are in seconds on the clock, so this needs a machine that does nothing else; the seconds of
processors are shown beside, which a busy machine changes less. Bars marked "beyond imports" are for
what a prediction takes beyond `import` of the same libraries, measured in the same run. The exit
code is 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

IMPORTS = "import torch\nimport transformers.models.gpt2.modeling_gpt2\n"
TRAINING = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config()).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 50257, (4, 512)).cuda()
    model(tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
RESNET = """
import torch
import torchvision

model = torchvision.models.resnet50().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    images = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
LARGE = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=8192, intermediate_size=28672, num_hidden_layers=80,
            num_attention_heads=64, num_key_value_heads=8, vocab_size=128256,
        )
    )
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(3):
    tokens = torch.randint(0, 128256, (1, 512)).cuda()
    model(tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
GENERATION = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel

model = GPT2LMHeadModel(GPT2Config()).cuda().eval()
tokens = torch.randint(0, 50257, (1, 16)).cuda()
model.generate(tokens, max_new_tokens=256, do_sample=False)
"""
WORLD = """
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).cuda()
for each in model.layers:
    fully_shard(each)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(4, 512, 768, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
LLAMA_WORLD = """
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, parallelize_module,
)
from transformers import LlamaConfig, LlamaForCausalLM

dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
mesh = init_device_mesh("cuda", (128, 8), mesh_dim_names=("data", "tensor"))
config = LlamaConfig(
    hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
    num_key_value_heads=8, vocab_size=128256, use_cache=False,
)
with torch.device("meta"):
    model = LlamaForCausalLM(config)
plan = {
    **{f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"},
    "self_attn.o_proj": RowwiseParallel(),
    "mlp.gate_proj": ColwiseParallel(),
    "mlp.up_proj": ColwiseParallel(),
    "mlp.down_proj": RowwiseParallel(),
}
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
for layer in model.model.layers:
    parallelize_module(layer, mesh["tensor"], plan)
    fully_shard(layer, mesh=mesh["data"], mp_policy=policy)
fully_shard(model, mesh=mesh["data"], mp_policy=policy)
model.to_empty(device="cuda")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    tokens = torch.randint(0, 128256, (1, 2048), device="cuda")
    model(tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


class Case(NamedTuple):
    program: str
    bar_seconds: float
    is_beyond_imports: bool
    imports: str = IMPORTS
    flags: tuple[str, ...] = ("--gpu", "h200")


_WORLD = ("--gpu", "h200", "--nproc", "8", "--nnodes", "128")
CASES = {
    "gpt2": Case(TRAINING, 10, True),
    "resnet50": Case(RESNET, 10, True, "import torch, torchvision\n"),
    "70b": Case(LARGE, 30, False),
    "70b-too-large": Case(LARGE, 30, False, flags=("--gpu", "h100-80gb")),
    "generate": Case(GENERATION, 20, False),
    "world-llama": Case(LLAMA_WORLD, 60, False, flags=_WORLD),
    "world-encoder": Case(WORLD, 60, False, flags=_WORLD),
}
MOST_RESIDENT_MIB = 1024
# 0: it fits, 1: it does not.
ANSWERED = (0, 1)


class Cost(NamedTuple):
    processor_seconds: float
    wall_seconds: float
    resident_mib: float
    exit_code: int


def run(command: list[str], folder: Path | None = None) -> Cost:
    """Of the command and all processes that it starts; the memory is that of the largest."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    return Cost(
        usage.ru_utime + usage.ru_stime,
        time.perf_counter() - started,
        usage.ru_maxrss / 1024,
        os.waitstatus_to_exitcode(status),
    )


class Row(NamedTuple):
    name: str
    cost: Cost
    counted_seconds: float
    """On the clock, what the bar is about."""
    bar_seconds: float
    bar_is: str
    is_met: bool
    why: str


def measured(name: str, case: Case, folder: Path) -> Row:
    path = folder / f"{name}.py"
    path.write_text(case.program)
    words = ["-m", "gpumemprof", "estimate", "--steps", "3", *case.flags, str(path)]
    cost = run([sys.executable, *words])
    counted = cost.wall_seconds
    if case.is_beyond_imports:
        counted -= run([sys.executable, "-c", case.imports]).wall_seconds
    problems = []
    if cost.exit_code not in ANSWERED:
        problems.append(f"exit code {cost.exit_code}")
    if counted > case.bar_seconds:
        problems.append("too long")
    if cost.resident_mib > MOST_RESIDENT_MIB:
        problems.append("too much memory")
    what = "beyond imports" if case.is_beyond_imports else "in all"
    return Row(name, cost, counted, case.bar_seconds, what, not problems, ", ".join(problems))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = []
    if not options.json:
        print(
            f"{'program':<14}{'s':>7}{'bar s':>7}  {'of the time':<15}{'CPU s':>7}{'MiB':>7}"
            f"{'bar MiB':>8}  bar",
            flush=True,
        )
    # Files that are read for the first time, and bytecode, belong to no program.
    run([sys.executable, "-c", "import torch, torchvision\n" + IMPORTS])
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            row = measured(name, CASES[name], Path(folder))
            rows.append(row)
            if not options.json:
                print(
                    f"{name:<14}{row.counted_seconds:7.1f}{row.bar_seconds:7.0f}  "
                    f"{row.bar_is:<15}{row.cost.processor_seconds:7.1f}"
                    f"{row.cost.resident_mib:7.0f}{MOST_RESIDENT_MIB:8}  "
                    f"{'met' if row.is_met else f'NOT MET: {row.why}'}",
                    flush=True,
                )
    if options.json:
        print(json.dumps([{**row._asdict(), "cost": row.cost._asdict()} for row in rows]))
    return 0 if all(row.is_met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
