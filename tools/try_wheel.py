"""Installs a wheel as a user would, and tries what it promises.

Usage: tools/try_wheel.py [--torch [REQUIREMENT|FOLDER]] DIST

In a fresh virtual environment of the Python that runs this, with nothing else on the PATH: no
compiler can be called. With --torch, torch is installed as well (or REQUIREMENT, such as
torch==2.8.0; or it is found in FOLDER, a site-packages of the same Python), and a program with CPU
tensors is recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

MOST_BYTES = 4 * 1024 * 1024
COMPILERS = ("cc", "gcc", "g++", "c++", "clang", "clang++")
DEMO_EVENTS = 951
PROGRAM = """
import torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.ones(32, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
PARAMETER_BYTES = 4 * (64 * 64 + 64)


def check(is_right: bool, what: str) -> None:
    if not is_right:
        sys.exit(f"try_wheel.py: {what}")


def processor_seconds() -> float:
    """What the processes that have ended took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Environment:
    """A fresh virtual environment with the wheel in it."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.bin = folder / "bin"
        self.variables = {"PATH": str(self.bin), "HOME": str(folder), "COLUMNS": "80"}
        # Where pip finds torch.
        self.variables |= {k: v for k, v in os.environ.items() if k.startswith("PIP_")}
        found = [name for name in COMPILERS if shutil.which(name, path=str(self.bin))]
        check(not found, f"there is a compiler: {found}")

    def run(self, *words: object, folder: Path | None = None) -> str:
        """What a command prints; it must succeed."""
        line = [str(self.bin / str(words[0])), *map(str, words[1:])]
        done = subprocess.run(
            line, cwd=folder, env=self.variables, capture_output=True, text=True, timeout=3600
        )
        if done.returncode != 0:
            sys.exit(f"{' '.join(line)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def install(environment: Environment, dist: Path) -> str:
    """What pip took, without an index: the wheel needs nothing else."""
    start, used = time.monotonic(), processor_seconds()
    environment.run(
        *("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-index", "--only-binary", ":all:", "--find-links", dist, "gpumemprof"),
    )
    wall, used = time.monotonic() - start, processor_seconds() - used
    return f"{wall:.1f} s ({used:.1f} s of processor)"


def check_sizes(dist: Path) -> None:
    for wheel in sorted(dist.glob("*.whl")):
        check(wheel.stat().st_size <= MOST_BYTES, f"{wheel.name} has more than {MOST_BYTES} bytes")


def try_reading(environment: Environment, folder: Path) -> None:
    check("ran out of memory" in environment.run("gpumemprof", "demo"), "no report of the demo")
    demo = environment.run("python", "-c", "import gpumemprof; print(gpumemprof.demo_path())")
    report = json.loads(environment.run("gpumemprof", "report", demo.strip(), "--json"))
    check(report["devices"][0]["events"] == DEMO_EVENTS, "the report counts other events")
    environment.run("gpumemprof", "convert", demo.strip(), "--to", "gmp", folder / "demo.gmp")
    info = environment.run("gpumemprof", "info", folder / "demo.gmp")
    check(f"{DEMO_EVENTS} recorded" in info, f"info counts other events:\n{info}")


def try_viewer(environment: Environment, folder: Path) -> None:
    """The server answers with its page."""
    server = subprocess.Popen(
        [str(environment.bin / "gpumemprof"), "view", "demo.gmp", "--no-browser"],
        cwd=folder,
        env=environment.variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        line = server.stdout.readline()
        url = re.search(r"http://\S+", line)
        if url is None:
            sys.exit(f"try_wheel.py: the viewer's server says no address: {line}")
        with urllib.request.urlopen(url[0], timeout=30) as page:
            check(b"<html" in page.read(1000).lower(), "the viewer's server sends no page")
    finally:
        server.terminate()
        server.wait(timeout=30)


def try_recording(environment: Environment, folder: Path, torch: str) -> str:
    if Path(torch).is_dir():
        environment.variables["PYTHONPATH"] = torch
    else:
        environment.run("python", "-m", "pip", "install", "--quiet", torch, "numpy")
    (folder / "train.py").write_text(PROGRAM)
    environment.run("gpumemprof", "run", "--cpu", "-o", "run.gmp", "train.py", folder=folder)
    report = json.loads(environment.run("gpumemprof", "report", folder / "run.gmp", "--json"))
    sources = report["devices"][0]["sources"]
    parameters = sources["parameters"]["bytes_at_peak"]
    check(parameters == PARAMETER_BYTES, f"{parameters} bytes of parameters: {sources}")
    return environment.run("python", "-c", "import torch; print(torch.__version__)").strip()


def main() -> None:
    parser = argparse.ArgumentParser(description="Install a wheel and try what it promises.")
    parser.add_argument("--torch", nargs="?", const="torch", metavar="REQUIREMENT|FOLDER")
    parser.add_argument("dist", type=Path)
    options = parser.parse_args()
    dist = options.dist.resolve()
    check_sizes(dist)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = Environment(folder / "venv")
        tried = f"Python {sys.version.split()[0]}: installed in {install(environment, dist)}; "
        tried += "demo, report, convert, info"
        try_reading(environment, folder)
        try_viewer(environment, folder)
        tried += ", view"
        if options.torch:
            tried += f", run with torch {try_recording(environment, folder, options.torch)}"
        print(f"{tried}: all work")


if __name__ == "__main__":
    main()
