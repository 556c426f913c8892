"""The totals of a long recording's exports, read back by each format's reader, beside the report.

usage: long_totals.py RECORDING [--formats NAME ...]

For each device: the bytes in use at the peak and at the end, how many events, and the bytes of each
source. The readers take the files in batches, so that ten million events fit. Needs gpumemprof,
PyArrow and, for pprof, Go. Ends with 1 if a figure differs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
from pyarrow import compute

TABLES = ("csv", "parquet", "arrow")
PROFILES = ("folded", "speedscope", "pprof")
LIVES = ["device", "size_bytes", "alloc_event", "free_requested_event"]


def called(*words: object) -> str:
    command = [sys.executable, "-m", "gpumemprof", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def batches(folder: Path, table: str, kind: str, columns: list[str]) -> Iterator[Any]:
    path = folder / f"{table}.{kind}"
    if kind == "csv":
        chosen = pyarrow.csv.ConvertOptions(include_columns=columns)
        yield from pyarrow.csv.open_csv(path, convert_options=chosen)
    elif kind == "parquet":
        yield from pyarrow.parquet.ParquetFile(path).iter_batches(columns=columns)
    else:
        with pyarrow.ipc.open_file(path) as file:
            for number in range(file.num_record_batches):
                yield file.get_batch(number).select(columns)


def live_bytes(batch: Any, device: str, event: int) -> int:
    """What a device has in use after an event."""
    born = compute.less_equal(compute.fill_null(batch["alloc_event"], 0), event)
    freed = compute.less_equal(compute.fill_null(batch["free_requested_event"], event + 1), event)
    live = compute.and_(compute.equal(batch["device"], device), compute.and_not(born, freed))
    return compute.sum(batch.filter(live)["size_bytes"]).as_py() or 0


def of_tables(folder: Path, kind: str, devices: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in devices:
        name = one["device"]
        found[f"{name} events"] = found[f"{name} peak"] = found[f"{name} end"] = 0
    for batch in batches(folder, "events", kind, ["device"]):
        for one in devices:
            name = one["device"]
            found[f"{name} events"] += compute.sum(compute.equal(batch["device"], name)).as_py()
    for batch in batches(folder, "allocations", kind, LIVES):
        for one in devices:
            name = one["device"]
            peak = live_bytes(batch, name, one["peak"]["event_index"])
            found[f"{name} peak"] += peak
            found[f"{name} end"] += live_bytes(batch, name, one["events"])
    columns = ["device", "source", "bytes_at_peak", "bytes_max"]
    for batch in batches(folder, "sources", kind, columns):
        for row in batch.to_pylist():
            for figure in columns[2:]:
                found[f"{row['device']} {row['source']} {figure}"] = row[figure]
    return found


def of_report(devices: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in devices:
        name = one["device"]
        found[f"{name} events"] = one["events"]
        for moment in ("peak", "end"):
            found[f"{name} {moment}"] = one[moment]["allocated_bytes"]
        for source, figures in {**one["sources"], "rounding": one["rounding"]}.items():
            for figure in ("bytes_at_peak", "bytes_max"):
                found[f"{name} {source} {figure}"] = figures[figure]
    return found


def of_profile(path: Path, kind: str, devices: list[dict[str, Any]]) -> dict[str, Any]:
    if kind == "speedscope":
        profiles = json.loads(path.read_text())["profiles"]
        names = {
            f"{one['device']}: in use at the {moment}": f"{one['device']} {moment}"
            for one in devices
            for moment in ("peak", "end")
        }
        sums = {profile["name"]: sum(profile["weights"]) for profile in profiles}
        return {names[name]: total for name, total in sums.items() if name in names}
    largest = max(devices, key=lambda one: int(one["peak"]["allocated_bytes"]))["device"]
    if kind == "folded":
        with path.open() as lines:
            return {f"{largest} peak": sum(int(line.rpartition(" ")[2]) for line in lines)}
    words = ["go", "tool", "pprof", "-top", "-unit=B", "-sample_index=inuse_space", str(path)]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    total = re.search(r"of (-?\d+)B? total", text)
    assert total is not None, text
    return {"all devices at their peaks": int(total[1])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording")
    parser.add_argument("--formats", nargs="+", default=[*TABLES, *PROFILES])
    flags = parser.parse_args()
    devices = json.loads(called("report", flags.recording, "--json"))["devices"]
    expected = of_report(devices)
    peaks = [one["peak"]["allocated_bytes"] for one in devices]
    expected["all devices at their peaks"] = sum(peaks)
    different = 0
    for kind in flags.formats:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out"
            called("convert", flags.recording, out, "--to", kind)
            read = of_tables if kind in TABLES else of_profile
            found = read(out, kind, devices)
        wrong = {name: value for name, value in found.items() if expected.get(name) != value}
        different += len(wrong)
        print(f"{kind:>10}: {len(found)} figures, {len(wrong)} different {wrong or ''}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
