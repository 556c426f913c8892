"""Runs programs of the corpus, several in one process, and records each of them.

record_programs.py FOLDER FILE... writes FOLDER/<topic>.<name>.gmp, and prints the CPU seconds that
each program took as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def recording_of(folder: Path, program: Path) -> Path:
    return folder / f"{program.parent.name}.{program.stem}.gmp"


def run(program: Path, recording: Path) -> None:
    """Run one program as Python runs a script, and keep its variables until the recording ends."""
    import gpumemprof
    import torch

    torch.manual_seed(0)
    code = compile(program.read_text(), str(program), "exec")
    variables: dict[str, Any] = {"__name__": "__main__", "__file__": str(program)}
    is_cpu = os.environ.get("LEAKS_DEVICE", "cpu") == "cpu"
    with gpumemprof.record(recording, cpu=is_cpu, overwrite=True):
        exec(code, variables)
    variables.clear()
    gc.enable()
    gc.collect()


def main() -> int:
    folder = Path(sys.argv[1])
    sys.path.insert(0, str(HERE))
    import torch

    torch.set_num_threads(1)
    seconds, failed = {}, 0
    for name in sys.argv[2:]:
        program = Path(name).resolve()
        begin = time.process_time()
        try:
            run(program, recording_of(folder, program))
        except Exception:
            failed += 1
            print(f"{program}:", file=sys.stderr)
            traceback.print_exc()
        seconds[f"{program.parent.name}.{program.stem}"] = time.process_time() - begin
    print(json.dumps(seconds))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
