"""Where calibrations are kept: `estimate` uses every file in this folder."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from gpumemprof.errors import InputError

__all__ = ["VARIABLE", "calibration_files", "calibration_folder", "check_calibration"]

# Shape, setting and batch, and three workspaces; `rules/convolution/measured.py` describes them.
_ROW = re.compile(r"\S+ \S+ \d+( [cw]?\d+){3}")
VARIABLE = "GPUMEMPROF_CALIBRATION"
"""The file that ``estimate --calibration`` names, for the process of the program."""


def calibration_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "gpumemprof" / "calibrations"


def calibration_files() -> list[Path]:
    """Those that hold for this process, the one that was asked for first."""
    named = os.environ.get(VARIABLE)
    kept = sorted(calibration_folder().glob("*.json"))
    return [Path(named), *kept] if named else kept


def check_calibration(path: Path) -> None:
    """Look at a file's form, without torch.

    Raises:
        InputError: it is not a calibration.
    """
    try:
        found = json.loads(path.read_bytes())
        is_one = len(found["environment"]["capability"]) == 2 and all(
            _ROW.fullmatch(row) for row in found["rows"]
        )
    except (ValueError, KeyError, TypeError):
        is_one = False
    if not is_one:
        hint = "make one with gpumemprof calibrate"
        raise InputError("it is not a calibration", "bad_input", str(path), hint)
