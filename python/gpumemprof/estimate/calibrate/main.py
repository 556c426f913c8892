"""Runs ``gpumemprof calibrate``."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpumemprof.command_line import CommandParser
from gpumemprof.errors import Error, NoCudaError, UsageError
from gpumemprof.estimate.calibrate.folder import calibration_folder
from gpumemprof.recorder.run_closing import print_message

__all__ = ["main"]

DEFAULT_SECONDS = 180
HELP = f"""\
Measure the workspaces of convolutions on this machine's GPU.

Usage: gpumemprof calibrate [OPTIONS]

estimate uses the measurements for cards of the same architecture.

Options:
  --limit SECONDS    Stop after this time (default: {DEFAULT_SECONDS})
  -o, --output FILE  Write them here, for estimate --calibration FILE;
                     by default to the folder that estimate looks into
  -f, --force        Replace FILE if it exists
  -h, --help         Print this help
"""
_CODES = {"usage": 2, "bad_input": 3, "environment": 4}


def main(arguments: Sequence[str]) -> int:
    """Run the verb; returns 0, 2 for wrong usage, 4 for a problem of this machine."""
    try:
        parser = CommandParser("gpumemprof calibrate", HELP)
        parser.add_argument("--limit", default=str(DEFAULT_SECONDS))
        parser.add_argument("-o", "--output")
        parser.add_argument("-f", "--force", action="store_true")
        options = parser.parse(arguments)
        if options.help:
            print(HELP, end="")
            return 0
        if not re.fullmatch(r"\d+(\.\d+)?", options.limit) or float(options.limit) == 0:
            raise parser.mistake(f"--limit must be a number of seconds, not '{options.limit}'")
        path, count = _measure(float(options.limit), options.output, options.force)
        print(f"{count:,} convolutions measured, written to {path}")
        return 0
    except Error as error:
        print_message(str(error))
        return _CODES.get(error.code, 70)
    except OSError as error:
        print_message(f"{error.filename}: {error.strerror}; name another file with -o")
        return _CODES["environment"]


def _measure(seconds: float, output: str | None, force: bool) -> tuple[Path, int]:
    """The file, and how many convolutions it has."""
    try:
        import torch
    except ImportError:
        raise Error(
            "calibrate needs PyTorch", "environment", "", "install torch and try again"
        ) from None
    if not torch.cuda.is_available():
        raise NoCudaError(
            "calibrate measures on a GPU, and torch finds none here",
            "environment",
            "",
            "run it on the machine that has the card",
        )
    from gpumemprof.estimate.calibrate.measure import environment

    facts = environment()
    path = Path(output) if output else calibration_folder() / f"{_file_name(facts)}.json"
    if output and path.exists() and not force:
        raise UsageError("it exists already", "usage", str(path), "give -f to replace it")
    rows = _rows(seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    path.write_text(f'{{"environment": {json.dumps(facts)},\n"rows": [\n{lines}\n]}}\n')
    return path, len(rows)


def _file_name(facts: dict[str, Any]) -> str:
    return re.sub(r"\W+", "-", str(facts["name"])).strip("-").lower()


def _rows(seconds: float) -> list[str]:
    import torch

    from gpumemprof.estimate.calibrate.measure import measured_row
    from gpumemprof.estimate.calibrate.shapes import drawn
    from gpumemprof.estimate.rules.convolution.workspace import is_native_depthwise

    started = shown = time.monotonic()
    rows: list[str] = []
    for convolution in drawn():
        now = time.monotonic()
        if now - started >= seconds:
            break
        if now - shown >= 1 and sys.stderr.isatty():
            shown = now
            print(f"\r{len(rows):,} convolutions, {now - started:.0f} s", end="", file=sys.stderr)
        if is_native_depthwise(convolution):
            continue
        try:
            rows.append(measured_row(convolution))
        except RuntimeError:  # too large for this card, or a type that it does not have
            torch.cuda.empty_cache()
        if len(rows) % 256 == 0:
            torch.cuda.empty_cache()
    if sys.stderr.isatty():
        print("\r" + " " * 40, end="\r", file=sys.stderr)
    return rows
