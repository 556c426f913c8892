"""On a GPU: memory that grows outside of torch's pool is found, memory that comes and goes is not.

    python tests/device/leaks/outside_the_pool.py

Two programs train alike and call `cudaMalloc` themselves in each step, as an extension would. One
keeps what it gets, the other frees it. Prints one line of JSON; "failed" lists what is not as it
should be. About half a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STEPS = 40
STEP_BYTES = 64 << 20
EXPECTED = {"keeps": "outside_pool", "frees": "clean"}
ACCEPTED = {"keeps": {"outside_pool"}, "frees": {"clean", "warm_up"}}
PROGRAM = f"""
import ctypes, sys, time
import torch

torch.cuda.init()
path = next(line.split()[-1] for line in open("/proc/self/maps") if "libcudart.so" in line)
runtime = ctypes.CDLL(path)
net = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range({STEPS}):
    net(torch.randn(64, 512, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    place = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(place), ctypes.c_size_t({STEP_BYTES})) == 0
    time.sleep(0.2)  # The use of the card is sampled.
    if sys.argv[1] == "frees":
        assert runtime.cudaFree(place) == 0
"""


def judge(folder: Path, way: str) -> dict[str, Any]:
    program, recording = folder / "train.py", folder / f"{way}.gmp"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "gpumemprof"]
    ran = subprocess.run(
        [*command, "run", "-o", str(recording), str(program), way],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if ran.returncode != 0:
        return {"verdict": f"exit code {ran.returncode}: {ran.stderr[-600:]}"}
    words = [*command, "leaks", str(recording)]
    text = subprocess.run(words, capture_output=True, text=True).stdout
    found = subprocess.run([*words, "--json"], capture_output=True, text=True)
    return {"verdict": json.loads(found.stdout)["verdict"], "text": text[:600]}


def main() -> int:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as made:
        found = {way: judge(Path(made), way) for way in EXPECTED}
    failed = [
        f"{way}: {result['verdict']}, not {EXPECTED[way]}"
        for way, result in found.items()
        if result["verdict"] not in ACCEPTED[way]
    ]
    seconds = round(time.monotonic() - begin, 1)
    print(json.dumps({"test": "outside_pool", "failed": failed, **found, "seconds": seconds}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
