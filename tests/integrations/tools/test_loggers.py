"""Figures in TensorBoard, W&B and MLflow, read back by each; recordings beside traces."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gpumemprof
import pytest
from doc_pages import ROOT, run_page

PAGE = ROOT / "docs" / "integrations" / "loggers.md"
GIB = 1 << 30


def variables(folder: Path) -> dict[str, str]:
    """Nothing leaves the folder."""
    return {
        "OMP_NUM_THREADS": "1",
        "WANDB_SILENT": "true",
        "WANDB_DIR": str(folder),
        "MLFLOW_TRACKING_URI": f"file:{folder}/mlruns",
        "MLFLOW_ALLOW_FILE_STORE": "true",
    }


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loggers")
    assert run_page(PAGE, folder, **variables(folder)) == 2
    return folder


def expected(step: int) -> int:
    """The least that a step has allocated: its batch and what the layer makes of it."""
    return 2 * 4 * 1024 * (step + 1) * 256


def check(values: list[float]) -> None:
    assert len(values) == 3
    assert values == sorted(values)
    for step, value in enumerate(values):
        assert expected(step) <= value * GIB < 4 * expected(step) + (1 << 20)


def test_tensorboard_reads_them(ran: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(ran / "logs")).Reload()
    found = events.Scalars("memory/max_allocated(GiB)")
    assert [one.step for one in found] == [0, 1, 2]
    check([one.value for one in found])


def wandb_records(path: Path) -> Iterator[bytes]:
    """The records of an offline run: a log as LevelDB writes it, after a header of 7 bytes."""
    data, place, parts = path.read_bytes(), 7, b""
    assert data.startswith(b":W&B")
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        length, kind = struct.unpack_from("<HB", data, place + 4)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def test_wandb_keeps_them(ran: Path) -> None:
    from wandb.proto import wandb_internal_pb2

    (path,) = ran.glob("wandb/offline-run-*/run-*.wandb")
    values = []
    for data in wandb_records(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            key = item.key or "/".join(item.nested_key)
            if key == "memory/max_allocated(GiB)":
                values.append(float(item.value_json))
    check(values)


def test_mlflow_reads_them(ran: Path) -> None:
    program = """
import mlflow
client = mlflow.MlflowClient()
(run,) = client.search_runs(["0"])
history = client.get_metric_history(run.info.run_id, "memory/max_allocated_GiB")
print(*[metric.value for metric in sorted(history, key=lambda metric: metric.step)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ran,
        env={**os.environ, **variables(ran)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    check([float(word) for word in done.stdout.split()])


def test_each_trace_of_the_profiler_has_a_recording(ran: Path) -> None:
    for number in (0, 1):
        (device,) = gpumemprof.load(ran / "traces" / f"worker.{number}.gmp").devices
        batch, layer = 4 * 64 * 256, 4 * 256 * 257
        assert device.counters.allocations is not None and device.counters.allocations > 4
        # Two steps: the batch and its result; the gradients exist from the first on.
        assert device.peak.allocated_bytes is not None
        assert device.peak.allocated_bytes >= 2 * batch
        assert device.peak.allocated_bytes < 4 * batch + 4 * layer


def test_a_missing_package_is_one_sentence(tmp_path: Path) -> None:
    program = """
import sys
for name in ("wandb", "mlflow", "transformers", "lightning", "pytorch_lightning", "opentelemetry",
             "pyarrow", "polars"):
    sys.modules[name] = None
from gpumemprof.integrations.loggers import to_mlflow, to_wandb
from gpumemprof.integrations.monitoring.telemetry import instrument
from gpumemprof.integrations import huggingface, lightning
import gpumemprof
table = gpumemprof.load(gpumemprof.demo_path()).allocations
for use in (to_wandb, to_mlflow, huggingface.MemoryCallback, instrument, table.to_pandas,
            table.to_polars, lambda: lightning.callback_class("lightning.pytorch"),
            lambda: lightning.MemoryCallback):
    try:
        use()
    except gpumemprof.EnvironmentProblem as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8
    assert lines[-1].endswith("needs lightning, which is not installed; run: pip install lightning")
    assert all("is not installed; run: pip install" in line for line in lines)


def test_something_else_than_a_writer_or_an_accelerator_is_one_sentence() -> None:
    from gpumemprof.integrations.accelerate import watch
    from gpumemprof.integrations.loggers import to_tensorboard

    with pytest.raises(gpumemprof.UsageError, match="given None, which is not a SummaryWriter"):
        to_tensorboard(None)
    with pytest.raises(gpumemprof.UsageError, match="given None, which is not an Accelerator"):
        watch(None)
