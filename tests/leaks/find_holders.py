"""Runs programs of the corpus, and prints as JSON who holds what grew, as ``run --leaks`` finds it.

find_holders.py FILE...
"""

from __future__ import annotations

import ast
import gc
import json
import os
import re
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
    is_cpu = os.environ.get("LEAKS_DEVICE", "cpu") == "cpu"
    with gpumemprof.record(recording, cpu=is_cpu, overwrite=True) as active:
        leaks = LeaksOfRun(active)
        exec(code, variables)
        leaks.finish()
        rows = [leak.row() for leak in leaks.found]
    variables.clear()
    gc.enable()
    gc.collect()
    return rows


def expected_of(program: Path) -> dict[str, Any]:
    match = re.search(r"^EXPECTED = (.*)$", program.read_text(), re.MULTILINE)
    assert match is not None
    found: dict[str, Any] = ast.literal_eval(match[1])
    return found


def first_text(program: Path, rows: list[dict[str, Any]]) -> str:
    """Of the line that leaks; of any line if it is not among those that were found."""
    text = program.read_text()
    lines = {n for n, line in enumerate(text.splitlines(), 1) if line.endswith("# leaks")}
    own = [
        row
        for row in rows
        if (row["site"]["file"] or "").endswith(program.name) and row["site"]["line"] in lines
    ]
    return str((own or rows)[0]["text"]) if rows else ""


def is_right(program: Path, rows: list[dict[str, Any]]) -> bool:
    """Whether the holder that was found is the one its author wrote down."""
    holder = expected_of(program)["holder"]
    text = first_text(program, rows)
    return re.search(rf"(?<!\w){re.escape(holder)}(?!\w)", text) is not None


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
