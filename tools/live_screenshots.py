"""Makes the pictures of ``gpumemprof live`` in the documents, from programs that really run.

    python tools/live_screenshots.py [FOLDER]

Two programs train on CPU tensors under ``gpumemprof run``, one of which leaks; the screen watches
them for a while. Needs torch, Textual and the installed package.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from gpumemprof.live.screen.app import LiveScreen
from gpumemprof.live.screen.frame import Frame
from gpumemprof.live.targets import find_target
from gpumemprof.live.watcher import Watcher

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SECONDS = 25
PROGRAM = """
import time, torch
torch.set_num_threads(1)
layers = [torch.nn.TransformerEncoderLayer(128, 4, 512, batch_first=True) for _ in range(4)]
model = torch.nn.Sequential(*layers, torch.nn.Linear(128, 16))
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for step in range(100000):
    batch = torch.randn(4, 16 + 8 * (step % 4), 128)
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    {leak}
    time.sleep(0.03)
"""
PROGRAMS = {"train.py": "losses.append(batch)", "baseline.py": "losses.append(loss.item())"}


async def take(folder: Path, images: Path, size: tuple[int, int]) -> None:
    screen = LiveScreen(Frame(Watcher([find_target(str(folder))])))
    async with screen.run_test(size=size) as pilot:
        await asyncio.sleep(SECONDS)
        await pilot.press("end")
        await screen.look()
        await pilot.pause()
        name = f"live-{size[0]}x{size[1]}.svg"
        (images / name).write_text(screen.export_screenshot(title="gpumemprof live"))


def main() -> None:
    images = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    with tempfile.TemporaryDirectory() as folder:
        programs = []
        for name, leak in PROGRAMS.items():
            (Path(folder) / name).write_text(PROGRAM.format(leak=leak))
            words = [sys.executable, "-m", "gpumemprof", "run", "--cpu", name]
            programs.append(subprocess.Popen(words, cwd=folder, stderr=subprocess.DEVNULL))
        try:
            for size in ((80, 24), (200, 50)):
                asyncio.run(take(Path(folder), images, size))
        finally:
            for program in programs:
                program.kill()
                program.wait()


if __name__ == "__main__":
    main()
