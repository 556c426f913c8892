"""How long `gpumemprof estimate` takes: processor and wall seconds, and resident memory.

usage: python bench/estimate/prediction_time.py [--only NAME...]

Four programs, the first three of which need transformers: three training steps of GPT-2, a model
of 70 billion parameters on a card that is too small for it, 256 generated tokens, and the ranks of
a world of 1,024 that can differ. The first row is what Python takes to import the libraries, which
the other rows include; the bar is for what they take beyond that, in seconds of a processor. The
ranks of the world import them several times, and their bar includes that. The exit code is 1 if a
program takes longer, takes more than 1 GiB of resident memory, or cannot be predicted.
"""

from __future__ import annotations

import argparse
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
PROGRAMS = {"gpt2": TRAINING, "70b": LARGE, "generate": GENERATION, "world": WORLD}
BARS = {"gpt2": 10.0, "70b": 30.0, "generate": 20.0, "world": 60.0}
FLAGS = {"world": ["--nproc", "8", "--nnodes", "128"]}
MOST_RESIDENT_MIB = 1024
# 0: it fits, 1: it does not.
ANSWERED = (0, 1)


class Cost(NamedTuple):
    processor_seconds: float
    wall_seconds: float
    resident_mib: float
    exit_code: int


def run(command: list[str]) -> Cost:
    """Of the command and all processes that it starts; the memory is that of the largest."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    return Cost(
        usage.ru_utime + usage.ru_stime,
        time.perf_counter() - started,
        usage.ru_maxrss / 1024,
        os.waitstatus_to_exitcode(status),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    options = parser.parse_args()
    rows = {"imports": run([sys.executable, "-c", IMPORTS])}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            path = Path(folder) / f"{name}.py"
            path.write_text(PROGRAMS[name])
            flags = ["--gpu", "h200", "--steps", "3", *FLAGS.get(name, [])]
            words = ["-m", "gpumemprof", "estimate", *flags, str(path)]
            rows[name] = run([sys.executable, *words])
    imports = rows["imports"].processor_seconds
    has_missed = False
    print(f"{'program':<10}{'CPU s':>8}{'beyond':>8}{'bar':>6}{'wall s':>8}{'MiB':>8}  exit code")
    for name, cost in rows.items():
        beyond = cost.processor_seconds - (0 if name == "world" else imports)
        bar = BARS.get(name)
        missed = bar is not None and (
            beyond > bar or cost.resident_mib > MOST_RESIDENT_MIB or cost.exit_code not in ANSWERED
        )
        has_missed = has_missed or missed
        figures = f"{beyond:8.1f}{bar:6.0f}" if bar is not None else f"{'':14}"
        print(
            f"{name:<10}{cost.processor_seconds:8.1f}{figures}{cost.wall_seconds:8.1f}"
            f"{cost.resident_mib:8.0f}  {cost.exit_code}{'  MISSED' if missed else ''}"
        )
    return 1 if has_missed else 0


if __name__ == "__main__":
    sys.exit(main())
