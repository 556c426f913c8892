"""Runs small programs of real packages under ``gpumemprof run``, and compares the peaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import warnings
from dataclasses import dataclass
from pathlib import Path

import gpumemprof

REFEREE = Path(__file__).parent / "referee.py"


@dataclass
class Ran:
    """What a program produced."""

    folder: Path
    output: str
    closing: str

    def counted(self, name: str = "peak") -> int:
        """A peak that the program counted itself."""
        number: int = json.loads((self.folder / f"{name}.json").read_text())
        return number

    def recorded(self, pattern: str = "run.gmp") -> list[int]:
        """The peaks of the recordings of this name, sorted by size."""
        return sorted(peak_of(path) for path in self.folder.glob(pattern))


def peak_of(path: Path) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording = gpumemprof.load(path)
    (device,) = recording.devices
    assert device.exact_from_event == 0
    assert device.peak.allocated_bytes is not None
    return device.peak.allocated_bytes


def environment(folder: Path) -> dict[str, str]:
    """Offline, with one thread, and with all files inside the folder."""
    return {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HOME": str(folder / "hf"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TOKENIZERS_PARALLELISM": "false",
        "WANDB_DISABLED": "true",
        "CUDA_VISIBLE_DEVICES": "",
    }


def write(folder: Path, program: str, name: str = "train.py") -> None:
    (folder / "referee.py").write_text(REFEREE.read_text())
    (folder / name).write_text(textwrap.dedent(program))


def run(folder: Path, *words: str) -> Ran:
    """Run what was written; it must succeed."""
    command = [sys.executable, "-m", "gpumemprof", "run", "--cpu", "-o", "run.gmp", *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Ran(folder, done.stdout, done.stderr)


def run_program(folder: Path, program: str, *arguments: str) -> Ran:
    write(folder, program)
    return run(folder, "train.py", *arguments)


def run_counted(folder: Path, program: str) -> Ran:
    """A program that has a referee, which writes its count at the end."""
    ending = "\nimport json\njson.dump(referee.peak(), open('peak.json', 'w'))\n"
    return run_program(folder, textwrap.dedent(program) + ending)
