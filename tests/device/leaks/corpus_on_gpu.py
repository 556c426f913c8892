"""Leaking and healthy programs of tests/leaks on a GPU: prints one line of JSON.

python tests/device/leaks/corpus_on_gpu.py [NAME...]

Each is recorded and judged as `gpumemprof leaks` does it, and who holds the leaked memory is looked
up as `run --leaks` does it. Of a program that is judged wrongly, the findings are in the result.
About a minute on one H200.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
    "leaking/paces/from_the_twelfth_step",
    "leaking/objects/exceptions_kept",
    "leaking/objects/suspended_generators",
    "leaking/caches/functools_cache",
    "blind/leaking/key_values_of_users",
    "blind/leaking/results_of_threads",
    "blind/leaking/server_without_no_grad",
    "blind/leaking/tasks_of_server",
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
    "healthy/training/autocast",
    "healthy/training/prefetching",
    "healthy/reinforcement/longer_episodes",
    "blind/healthy/beam_search",
    "blind/healthy/curriculum_of_lengths",
    "blind/healthy/key_values_grown_lazily",
    "blind/healthy/pipeline_of_threads",
    "blind/healthy/sharpness_aware",
]


def finding(each: Any) -> dict[str, Any]:
    """What was found, short enough to be printed."""
    found = each.found
    keys = ("file", "line", "bytes_per_step", "blocks_per_step", "bytes", "first_step", "source")
    return {
        "verdict": found["verdict"],
        "expected": each.program.expected,
        "lines": each.program.lines,
        "devices": found["devices"],
        "leaks": [{key: leak[key] for key in keys} for leak in found["leaks"][:4]],
    }


def main() -> int:
    begin = time.monotonic()
    os.environ.setdefault("LEAKS_DEVICE", "cuda")
    sys.path.insert(0, str(CORPUS))
    import evaluate
    import find_holders

    judged, failed, holders = [], [], {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in sys.argv[1:] or PROGRAMS:
            program = evaluate.read_program(CORPUS / f"{name}.py")
            try:
                rows = find_holders.rows_of(program.path, str(folder / f"{program.name}.gmp"))
                judged.append(evaluate.judge(program, folder))
                if "holder" in program.expected:
                    holders[program.name] = (
                        find_holders.is_right(program.path, rows),
                        find_holders.first_text(program.path, rows),
                    )
            except Exception as error:
                failed.append(f"{name}: {error!r}")
    figures = evaluate.table(judged)
    is_good = not failed and figures["false alarms"] == 0 and figures["recall"] >= 0.95
    wrong_holders = {name: text for name, (is_right, text) in holders.items() if not is_right}
    result = {
        "test": "leaks",
        "passed": is_good
        and figures["lines right"] == figures["found"]
        and len(wrong_holders) <= len(holders) // 10,
        **{key.replace(" ", "_"): value for key, value in figures.items()},
        "holders_right": f"{len(holders) - len(wrong_holders)} of {len(holders)}",
        "wrong_holders": wrong_holders,
        "problems": evaluate.problems(judged),
        "findings": {
            each.program.name: finding(each)
            for each in judged
            if not each.is_right or (each.is_alarm and not each.are_lines_right)
        },
        "failed": failed,
        "seconds": round(time.monotonic() - begin, 1),
    }
    print(json.dumps(result))
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
