"""Callbacks of trainers: steps, evaluation and saving in the recording, figures in the logs."""

from __future__ import annotations

import csv
import pickle
import re
import socket
import subprocess
import sys
from pathlib import Path

import gpumemprof
import pytest
from doc_pages import ROOT, run_page
from programs import environment

MARKS = re.compile(r"^(step \d+|evaluation|prediction|saving)$")
FIGURES = {"memory/max_allocated(GiB)"}  # CPU tensors have no pool


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the page's programs ran."""
    folder = tmp_path_factory.mktemp("trainers")
    offline = {name: value for name, value in environment(folder).items() if "OFFLINE" in name}
    page = ROOT / "docs" / "integrations" / "trainers.md"
    assert run_page(page, folder, OMP_NUM_THREADS="1", **offline) == 3
    return folder


def marks(path: Path) -> list[str]:
    """The marks in order; the end of a step, which the next one implies, left out."""
    snapshot = path.with_suffix(".pickle")
    words = ["convert", "-f", "--to", "torch-snapshot", str(path), str(snapshot)]
    subprocess.run([sys.executable, "-m", "gpumemprof", *words], check=True, capture_output=True)
    found = []
    for mark in pickle.loads(snapshot.read_bytes())["external_annotations"]:
        is_start = mark["stage"] == "START"
        if MARKS.match(mark["name"]) and (is_start or not mark["name"].startswith("step")):
            found.append(mark["name"] if is_start else f"/{mark['name']}")
    return found


def logged(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The scalars that TensorBoard reads there."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: dict[str, list[tuple[int, float]]] = {}
    for path in folder.rglob("events.out.tfevents.*"):
        events = EventAccumulator(str(path)).Reload()
        for name in events.Tags()["scalars"]:
            rows = [(one.step, one.value) for one in events.Scalars(name)]
            found.setdefault(name, []).extend(rows)
    return found


def test_transformers_marks_steps_evaluation_and_saving(ran: Path) -> None:
    between = ["evaluation", "/evaluation", "saving", "/saving"]
    assert marks(ran / "transformers.gmp") == [
        *("step 1", "step 2", *between),
        *("step 3", "step 4", *between),
    ]


def test_an_evaluation_of_one_batch_is_marked_from_its_start(ran: Path) -> None:
    marks(ran / "transformers.gmp")  # writes the snapshot
    snapshot = pickle.loads((ran / "transformers.pickle").read_bytes())
    times = [
        one["time_us"] for one in snapshot["external_annotations"] if one["name"] == "evaluation"
    ]
    (events,) = (trace for trace in snapshot["device_traces"] if trace)
    within = [one for one in events if times[0] <= one["time_us"] <= times[1]]
    # The forward of two layers, not only what follows the batch.
    assert sum(one["action"] == "alloc" for one in within) > 20


def test_the_loggers_of_transformers_get_the_figures(ran: Path) -> None:
    found = logged(ran / "out")
    names = {name for name in found if "memory" in name}
    assert {name.rpartition("train/")[2] for name in names} == FIGURES
    (peaks,) = (rows for name, rows in found.items() if "max_allocated" in name)
    # Four steps; at the second and the fourth an evaluation, which logs too.
    assert {number for number, _ in peaks} == {1, 2, 3, 4}
    assert all(value > 0 for _, value in peaks)


def test_accelerate_marks_saving_and_logs_the_figures(ran: Path) -> None:
    assert marks(ran / "accelerate.gmp") == [
        *("step 1", "step 2", "step 3", "step 4"),
        *("evaluation", "/evaluation", "saving", "/saving"),
    ]
    found = logged(ran / "logs")
    assert set(found) >= {"batch", *FIGURES}
    assert [number for number, _ in found["memory/max_allocated(GiB)"]] == [0, 1, 2, 3]


def test_lightning_is_recorded_with_its_phases_without_a_change(ran: Path) -> None:
    sanity = ["evaluation", "/evaluation"]
    after = ["evaluation", "/evaluation", "saving", "/saving"]
    found = marks(ran / "lightning.gmp")
    assert found == [
        *sanity,
        *("step 1", "step 2", *after),
        *("step 3", "step 4", *after),
    ]
    (path,) = ran.glob("lightning_logs/*/metrics.csv")
    rows = list(csv.DictReader(path.open()))
    assert rows and set(rows[0]) == {"step", *FIGURES}
    # As Lightning numbers what the model logs.
    assert [int(row["step"]) for row in rows] == [0, 1, 2, 3]
    assert all(float(row["memory/max_allocated(GiB)"]) > 0 for row in rows)


def test_what_the_figures_of_cpu_tensors_leave_out_is_said(ran: Path) -> None:
    report = gpumemprof.load(ran / "transformers.gmp").to_text(width=10_000)
    head, _, _ = report.partition("Memory at the peak")
    # The callback began both after the model was made.
    assert "its parameters are missing here, and the true peak is higher" in head
    # GPUMEMPROF=1 began before, the callback's figures after it.
    whole = gpumemprof.load(ran / "lightning.gmp")
    assert "missing" not in whole.to_text(width=10_000).partition("Memory at the peak")[0]
    (path,) = ran.glob("lightning_logs/*/metrics.csv")
    rows = list(csv.DictReader(path.open()))
    most = max(float(row["memory/max_allocated(GiB)"]) for row in rows) * 2**30
    parameters, data = 4 * (64 * 64 + 64), 4 * 8 * 64
    peak = whole.devices[0].peak.allocated_bytes
    # Lightning and torch keep a few numbers of their own.
    assert peak is not None and 0 <= peak - most - parameters - data < 64
    page = (ROOT / "docs" / "integrations" / "trainers.md").read_text()
    assert "Of CPU tensors only those count that are made after the figures began" in page


ZERO_CODE = {
    "transformers": """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=32)
data = [{"input_ids": torch.arange(16), "labels": torch.arange(16)} for _ in range(8)]
settings = TrainingArguments("out", max_steps=3, per_device_train_batch_size=2, use_cpu=True,
    report_to=[], save_strategy="no", disable_tqdm=True)
model = GPT2LMHeadModel(config)
Trainer(model, settings, train_dataset=data).train()
""",
    "accelerate": """
import torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 8))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.DataLoader(torch.randn(32, 64), batch_size=8)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
for batch in data:
    accelerator.backward(model(batch).sum())
    optimizer.step()
    optimizer.zero_grad()
""",
}


@pytest.mark.parametrize("tool", ZERO_CODE)
def test_the_variable_alone_gives_a_labelled_recording(tmp_path: Path, tool: str) -> None:
    counting = "\nprint(sum(4 * one.numel() for one in model.parameters()))\n"
    (tmp_path / "train.py").write_text(ZERO_CODE[tool] + counting)
    variables = {"GPUMEMPROF": "1", "GPUMEMPROF_OUTPUT": "run.gmp"}
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env={**environment(tmp_path), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (device,) = gpumemprof.load(tmp_path / "run.gmp").sources()
    parameters = device.sources["parameters"]
    assert parameters.provenance == "measured"
    assert parameters.bytes_at_peak == int(done.stdout.split()[-1])
    assert device.sources["optimizer_state"].bytes_max >= 2 * parameters.bytes_at_peak
    assert len(device.steps) >= 3


def test_without_the_variable_lightning_gets_no_callback_and_imports_nothing(
    tmp_path: Path,
) -> None:
    program = """
import sys, lightning
trainer = lightning.Trainer(logger=False, accelerator="cpu", enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)
assert not [one for one in trainer.callbacks if "Memory" in type(one).__name__]
assert "gpumemprof_plugins.lightning_plugin" in sys.modules
assert "gpumemprof" not in sys.modules
"""
    variables = environment(tmp_path)
    variables.pop("GPUMEMPROF", None)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


AGAIN = {
    "lightning": """
import lightning, sys, torch
from gpumemprof.integrations.lightning import MemoryCallback

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 64)
    def training_step(self, batch, number):
        return self.layer(batch).sum()
    def test_step(self, batch, number):
        self.layer(batch)
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

ranks = int(sys.argv[1])
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", devices=ranks, strategy="ddp" if ranks > 1 else "auto",
    logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks=[MemoryCallback("run.gmp")],
)
data = torch.utils.data.DataLoader(torch.randn(16, 64), batch_size=4)
trainer.fit(Model(), data)
trainer.test(Model(), data, verbose=False)
""",
    "transformers": """
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
from gpumemprof.integrations.huggingface import MemoryCallback

config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=32)
data = [{"input_ids": torch.arange(16), "labels": torch.arange(16)} for _ in range(8)]
settings = TrainingArguments("out", max_steps=2, per_device_train_batch_size=2, use_cpu=True,
    report_to=[], save_strategy="no", disable_tqdm=True)
trainer = Trainer(GPT2LMHeadModel(config), settings, train_dataset=data)
MemoryCallback("run.gmp").add_to(trainer)
trainer.train()
trainer.train()
""",
}


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("tool", AGAIN)
def test_what_a_trainer_does_again_and_each_rank_has_a_file(
    tmp_path: Path, tool: str, ranks: int
) -> None:
    (tmp_path / "train.py").write_text(AGAIN[tool])
    words = [sys.executable, "train.py", str(ranks)]
    if tool == "transformers" and ranks > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
        words = [sys.executable, *launcher, "train.py"]
    done = subprocess.run(
        words,
        cwd=tmp_path,
        env={**environment(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    names = ["run"]
    if ranks > 1:
        names = [f"run.{socket.gethostname()}.rank{rank}" for rank in range(ranks)]
    expected = {f"{name}{again}.gmp" for name in names for again in ("", ".2")}
    assert {path.name for path in tmp_path.glob("*.gmp")} == expected
    for name in names:
        device = gpumemprof.load(tmp_path / f"{name}.gmp").devices[0]
        assert device.peak.allocated_bytes is not None and device.peak.allocated_bytes > 0


def test_an_exception_in_lightning_completes_the_recording(tmp_path: Path) -> None:
    program = AGAIN["lightning"].partition("trainer.fit")[0]
    whole = "return self.layer(batch).sum()"
    program = program.replace(whole, f"{whole} * (1 // (1 - number))")
    program += """
try:
    trainer.fit(Model(), data)
except ZeroDivisionError:
    (callback,) = (one for one in trainer.callbacks if hasattr(one, "recording"))
    assert callback.recording.summary["events"] > 0
    print("complete")
"""
    (tmp_path / "train.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "train.py", "1"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1:] == ["complete"], done.stderr
