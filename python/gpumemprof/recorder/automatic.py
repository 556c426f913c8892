"""``GPUMEMPROF=1 python train.py``: records a program that nothing was changed in.

Each process records itself, like the children of ``gpumemprof run``. The first of them says at its
end where its recording is. GPUMEMPROF_OUTPUT names the file.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gpumemprof.recorder import processes
from gpumemprof.recorder.run_settings import Settings, rank_suffix

__all__ = ["begin"]

# Set by the first process, for those it starts.
_FIRST = "GPUMEMPROF_FIRST"


def _program_name() -> str:
    """What the recording is named after."""
    script = sys.argv[0] if sys.argv and sys.argv[0] else ""
    if "ipykernel" in script:
        return "notebook"
    if script in ("", "-c", "-m", "-"):
        return "python"
    path = Path(script)
    return path.parent.name if path.stem == "__main__" else path.stem


def begin() -> None:
    """Call once the program has imported torch."""
    is_first = _FIRST not in os.environ
    os.environ.setdefault(_FIRST, str(os.getpid()))
    # The ranks of one job are started by a process that records nothing itself.
    speaks = is_first or "LOCAL_RANK" in os.environ
    settings = Settings(announces=os.getpid() if speaks else 0)
    output = os.environ.get("GPUMEMPROF_OUTPUT", "")
    if output:
        path = Path.cwd() / output
        base = path.with_name(path.stem)
        suffix = path.suffix or ".gmp"
        settings.output = str(path.with_name(f"{path.stem}{rank_suffix()}{suffix}"))
    else:
        base = Path.cwd() / _program_name()
    settings.children_base = str(base)
    processes.join_by_itself(settings)
