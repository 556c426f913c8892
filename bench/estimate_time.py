"""How long `gpumemprof estimate` takes: processor and wall seconds, and resident memory.

usage: python bench/estimate_time.py [--only NAME...]

Three programs, which need transformers: three training steps of GPT-2, a model of 70 billion
parameters on a card that is too small for it, and 256 generated tokens. The first row is what
Python takes to import the libraries, which every figure includes.
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
PROGRAMS = {"gpt2": TRAINING, "70b": LARGE, "generate": GENERATION}


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
            estimate = ["estimate", "--gpu", "h200", "--steps", "3", str(path)]
            rows[name] = run([sys.executable, "-m", "gpumemprof", *estimate])
    print(f"{'program':<10}{'CPU s':>8}{'wall s':>8}{'MiB':>8}  exit code")
    for name, cost in rows.items():
        print(
            f"{name:<10}{cost.processor_seconds:8.1f}{cost.wall_seconds:8.1f}"
            f"{cost.resident_mib:8.0f}  {cost.exit_code}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
