"""Runs programs of the corpus, and prints as JSON who holds what grew, as ``run --leaks`` finds it.

find_holders.py FILE...
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def rows_of(program: Path, recording: str) -> list[dict[str, Any]]:
    """Run one program as Python runs a script; its variables exist until the holders are known."""
    import gpumemprof
    import torch
    from gpumemprof.holders.leaks_of_run import LeaksOfRun

    torch.manual_seed(0)
    code = compile(program.read_text(), str(program), "exec")
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(program)}
    with gpumemprof.record(recording, cpu=True, overwrite=True) as active:
        leaks = LeaksOfRun(active)
        exec(code, variables)
        leaks.finish()
        rows = [leak.row() for leak in leaks.found]
    variables.clear()
    gc.enable()
    gc.collect()
    return rows


def main() -> int:
    sys.path.insert(0, str(HERE))
    import torch

    torch.set_num_threads(1)
    found, failed = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:]:
            program = Path(name).resolve()
            try:
                rows = rows_of(program, f"{folder}/run.gmp")
            except Exception:
                failed += 1
                print(f"{program}:", file=sys.stderr)
                traceback.print_exc()
                continue
            found[f"{program.parent.name}.{program.stem}"] = rows
    print(json.dumps(found))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
