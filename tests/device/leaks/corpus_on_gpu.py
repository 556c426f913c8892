"""Leaking and healthy programs of tests/leaks on a GPU: prints one line of JSON.

python tests/device/leaks/corpus_on_gpu.py
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "leaks"
PROGRAMS = [
    "leaking/containers/detached_outputs_in_list",
    "leaking/containers/concatenated_history",
    "leaking/containers/gradient_history",
    "leaking/graphs/auxiliary_losses",
    "leaking/graphs/recurrent_state",
    "leaking/graphs/scores_without_no_grad",
    "leaking/hooks/forward_hook",
    "leaking/hooks/backward_hook",
    "leaking/caches/sessions_never_closed",
    "leaking/objects/cycles_with_collector",
    "leaking/paces/every_third_step",
    "healthy/training/adam",
    "healthy/training/evaluation_between_steps",
    "healthy/training/checkpointed",
    "healthy/schedules/random_lengths",
    "healthy/schedules/growing_lengths",
    "healthy/schedules/layers_unfrozen",
    "healthy/bounded/deque_with_bound",
    "healthy/bounded/replay_buffer",
    "healthy/bounded/metric_reset_each_epoch",
    "healthy/inference/generation",
    "healthy/inference/sessions_evicted",
]


def main() -> int:
    begin = time.monotonic()
    os.environ["LEAKS_DEVICE"] = "cuda"
    sys.path.insert(0, str(CORPUS))
    import evaluate
    import record_programs

    judged, failed = [], []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in PROGRAMS:
            program = evaluate.read_program(CORPUS / f"{name}.py")
            try:
                record_programs.run(program.path, folder / f"{program.name}.gmp")
                judged.append(evaluate.judge(program, folder))
            except Exception as error:
                failed.append(f"{name}: {error!r}")
    figures = evaluate.table(judged)
    is_good = not failed and figures["false alarms"] == 0 and figures["recall"] >= 0.95
    result = {
        "test": "leaks",
        "passed": is_good and figures["lines right"] == figures["found"],
        **{key.replace(" ", "_"): value for key, value in figures.items()},
        "problems": evaluate.problems(judged),
        "failed": failed,
        "seconds": round(time.monotonic() - begin, 1),
    }
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
