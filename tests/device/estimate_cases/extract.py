"""Turn the recordings of estimate_sweep.py into the table of convolutions and the tests' data.

Usage: python estimate_cases/extract.py SWEEP_FOLDER [CALIBRATION...]
Writes python/gpumemprof/estimate/rules/data/conv_h200.json.xz, with the rows of the files that
`gpumemprof calibrate` wrote on the same card, and tests/data/estimate/*.json.
"""

from __future__ import annotations

import gzip
import json
import lzma
import math
import random
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from gpumemprof.estimate.rules import load_rules
from gpumemprof.estimate.rules.convolution.columns import in_columns
from gpumemprof.estimate.rules.convolution.measured import encoded, load_table
from gpumemprof.estimate.rules.convolution.shape import Convolution
from gpumemprof.estimate.rules.convolution.workspace import is_native_depthwise
from gpumemprof.estimate.rules.table import rules

ROOT = Path(__file__).resolve().parents[3]
TABLE = ROOT / "python" / "gpumemprof" / "estimate" / "rules" / "data" / "conv_h200.json.xz"
TESTS = ROOT / "tests" / "data" / "estimate"
# part: how many calls of each operation the tests keep
SAMPLES = {
    "attention": 40,
    "matmul": 14,
    "convolution": 60,
    "modules": 12,
    "reductions": 25,
    "rnn": 30,
}
LONGEST_CALL = 1200
KERNELS = ("cudnn", "flash", "efficient")


def read(folder: Path, part: str) -> Any:
    with gzip.open(folder / f"{part}.json.gz", "rt") as file:
        return json.load(file)


def first_case_of_each_op(recorded: Any) -> dict[int, str]:
    names: dict[int, str] = {}
    for name, used, *_ in recorded["cases"]:
        for index in used:
            names.setdefault(index, name)
    return names


def parse(text: str) -> tuple[str, list[int], bool]:
    """Type, sizes and whether the strides are not the default ones."""
    match = re.match(r"(\w+)\[([\d,]*)\](\{.*\})?", text)
    assert match is not None, text
    sizes = [int(size) for size in match[2].split(",")] if match[2] else []
    return match[1], sizes, match[3] is not None


def freed_at_once(events: list[int], start: int) -> int:
    """The size of the allocation at `start` if the next event frees it, else 0."""
    if start + 1 >= len(events) or events[start] < 0:
        return 0
    number = sum(event > 0 for event in events[: start + 1])
    return events[start] if events[start + 1] == -number else 0


def convolution_sizes(events: list[int], is_forward: bool) -> dict[int, int]:
    """Workspaces by kind: 0 forward, 1 gradient of the input, 2 gradient of the weight."""
    if is_forward:
        return {0: freed_at_once(events, 1)}
    data = freed_at_once(events, 1)
    return {1: data, 2: freed_at_once(events, 4 if data else 2)}


def trial_sizes(events: list[int], is_forward: bool) -> dict[int, int]:
    """The largest block of each kind that the search for the fastest algorithm tried."""
    freed = {-event - 1 for event in events if event < 0}
    groups: list[int] = []
    number = -1
    for event in events:
        if event > 0:
            number += 1
            if number not in freed:
                groups.append(0)
            elif groups:
                groups[-1] = max(groups[-1], event)
    kinds = (0,) if is_forward else (1, 2)
    return dict(zip(kinds, groups))


def joined(sizes: list[int]) -> str:
    return "x".join(map(str, sizes))


def convolution_rows(recorded: Any, mode: str) -> Any:
    """Sizes by shape, by type and layout, and by batch: [forward, input, weight]."""
    names = first_case_of_each_op(recorded)
    shapes: Any = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: [None] * 3)))
    for index, (op, args, _, variants) in enumerate(recorded["ops"]):
        events, results, _ = variants[0 if mode == "benchmark" else -1]
        if names[index].split()[1] != mode or None in events:
            continue
        is_forward = op == "aten.convolution.default"
        tensor, weight = args[:2] if is_forward else args[1:3]
        stride, padding, dilation, is_transposed, _, groups = args[3 if is_forward else 4 :][:6]
        dtype, sizes, is_last = parse(tensor)
        _, weights, weight_is_last = parse(weight)
        outputs = parse(results if is_forward else args[0])[1]
        has_layout = math.prod(weights[2:]) > 1 and weights[1] > 1
        if is_last != weight_is_last and has_layout:
            continue  # the weight is copied first
        kind = "t" if is_transposed else "c"
        lists = (weights[2:], stride, padding, dilation, sizes[2:])
        key = f"{kind}{sizes[1]},{outputs[1]},{groups}," + ",".join(map(joined, lists))
        setting = dtype + ("-last" if is_last or weight_is_last else "")
        row = shapes[key][setting][sizes[0]]
        find = trial_sizes if mode == "benchmark" else convolution_sizes
        for number, size in find(events, is_forward).items():
            row[number] = size
    return shapes


def rows_of(shapes: Any) -> dict[str, str]:
    """The rows of a table, as `Table` reads them: workspaces by shape, setting and batch."""
    rows = {}
    for key, settings in shapes.items():
        for setting, batches in settings.items():
            for batch, sizes in batches.items():
                convolution = Convolution.named(key, setting, batch)
                if None not in sizes and not is_native_depthwise(convolution):
                    texts = " ".join(encoded(convolution, size) for size in sizes)
                    rows[f"{key} {setting} {batch}"] = texts
    return rows


def convolution_table(recorded: Any, calibrations: list[Path]) -> bytes:
    """One line for each convolution; "trials" are the blocks of cudnn.benchmark's searches."""
    rows = rows_of(convolution_rows(recorded, "plain"))
    for path in calibrations:
        for row in load_table(path).rows():
            name, sizes = row.rsplit(" ", 3)[0], row.split(" ", 3)[3]
            rows[name] = sizes
    trials = rows_of(convolution_rows(recorded, "benchmark"))
    table = {
        "environment": recorded["environment"],
        "columns": in_columns(f"{name} {sizes}" for name, sizes in sorted(rows.items())),
        "trials": [f"{name} {sizes}" for name, sizes in sorted(trials.items())],
    }
    text = json.dumps(table, separators=(",", ":"))
    return lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME)


def sampled_calls(recorded: Any, part: str, names: set[str], count: int) -> list[Any]:
    """Some calls of each operation that has a rule."""
    cases = first_case_of_each_op(recorded)
    by_op: dict[str, list[Any]] = defaultdict(list)
    for index, (op, args, kwargs, variants) in enumerate(recorded["ops"]):
        events, results, _ = variants[0]
        text = json.dumps(args)
        if part == "convolution" and cases[index].split()[1] != "plain":
            continue
        is_short = len(text) <= LONGEST_CALL and "sparse" not in text
        if op.split(".")[1] in names and None not in events and is_short:
            by_op[op].append([op, args, kwargs, events, results])
    calls = []
    for op in sorted(by_op):
        random.Random(op).shuffle(by_op[op])  # the same calls, whatever other rules there are
        calls += by_op[op][:count]
    return calls


def attention_choices(recorded: Any, count: int = 900) -> list[Any]:
    rows = []
    for name, used, *_ in recorded["cases"]:
        ops = {recorded["ops"][index][0] for index in used}
        chosen = (k for k in KERNELS if f"aten._scaled_dot_product_{k}_attention.default" in ops)
        rows.append([name.replace("attention ", ""), next(chosen, "math")])
    random.Random(len(rows)).shuffle(rows)
    return sorted(rows[:count])


def write(path: Path, environment: Any, key: str, rows: list[Any]) -> None:
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    head = json.dumps(environment)
    path.write_text(f'{{"environment": {head},\n"{key}": [\n{lines}\n]}}\n')


def main(folder: Path, calibrations: list[Path]) -> None:
    load_rules()
    names = {name for rule in rules() for name in rule.names}
    TESTS.mkdir(parents=True, exist_ok=True)
    TABLE.write_bytes(convolution_table(read(folder, "convolution"), calibrations))
    for part, count in SAMPLES.items():
        recorded = read(folder, part)
        calls = sampled_calls(recorded, part, names, count)
        if calls:
            write(TESTS / f"calls_{part}.json", recorded["environment"], "calls", calls)
        print(part, len(calls), "calls")
    recorded = read(folder, "attention")
    path = TESTS / "attention_choices.json"
    write(path, recorded["environment"], "choices", attention_choices(recorded))


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(path) for path in sys.argv[2:]])
