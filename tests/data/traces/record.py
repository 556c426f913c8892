"""Records the small CPU runs of this folder: `python record.py` writes them beside itself.

A network of four layers trains for eight steps; one step has a larger batch, and a cache is filled
under a tag. Run it from a folder whose path may stand in the files, with a Python whose packages
have such a path too.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

TRAIN = """\
import gpumemprof
import torch
from model import Net

torch.manual_seed(0)
net = Net(width=256, depth=4)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
with gpumemprof.tag("kv_cache"):
    cache = [torch.zeros(64, 256) for _ in range(3)]
for step in range(8):
    gpumemprof.step()
    batch = torch.randn(96 if step == 4 else 32, 256)
    loss = net(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""

MODEL = """\
import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Net(torch.nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = torch.nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)
"""

EMPTY = "import torch\n"


def record(script: str, output: Path) -> None:
    # The name of this machine is nobody's business.
    code = "import socket, sys; socket.gethostname = lambda: 'trainer'; "
    code += "from gpumemprof.__main__ import main; sys.exit(main(sys.argv[1:]))"
    words = ["run", "--cpu", "-f", "-o", str(output), script]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code, *words], check=True, env=environment)


def main() -> None:
    here = Path(__file__).parent
    work = Path.cwd()
    assert socket.gethostname() not in str(work)
    (work / "train.py").write_text(TRAIN)
    (work / "model.py").write_text(MODEL)
    (work / "empty.py").write_text(EMPTY)
    record("train.py", work / "cpu_training.gmp")
    record("empty.py", work / "empty.gmp")
    whole = (work / "cpu_training.gmp").read_bytes()
    (here / "cpu_training_cut.gmp").write_bytes(whole[: len(whole) * 2 // 3])
    for name in ("cpu_training.gmp", "empty.gmp"):
        shutil.copyfile(work / name, here / name)


if __name__ == "__main__":
    main()
