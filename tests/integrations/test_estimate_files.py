"""Libraries save, log and cache for real; the same program, predicted there, changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from precious_files import estimate, manifest, require

PROGRAM = """
import os, sys
import torch

def with_safetensors(model):
    from safetensors.torch import load_file, save_file
    save_file(model.state_dict(), "model.safetensors")
    assert load_file("model.safetensors")["weight"].shape == (8, 8)

def with_transformers(model):
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
    GPT2LMHeadModel(config).to(DEVICE).save_pretrained("saved")
    assert sorted(os.listdir("saved"))[0] == "config.json"
    if DEVICE == "cpu":
        GPT2LMHeadModel.from_pretrained("saved")

def with_the_trainer(model):
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
    config = GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
    words = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 8
    options = TrainingArguments(
        "runs", per_device_train_batch_size=4, max_steps=4, save_steps=2, save_total_limit=1,
        report_to=["tensorboard"], use_cpu=DEVICE == "cpu",
    )
    Trainer(GPT2LMHeadModel(config), options, train_dataset=words).train()
    assert {"checkpoint-4"} == {name for name in os.listdir("runs") if "checkpoint" in name}

def with_accelerate(model):
    from accelerate import Accelerator
    accelerator = Accelerator(cpu=DEVICE == "cpu")
    prepared = accelerator.prepare(model)
    accelerator.save_state("state")
    accelerator.save_model(prepared, "weights")
    assert os.listdir("state") and os.listdir("weights")

def with_lightning(model):
    import lightning
    from torch.utils.data import DataLoader

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def training_step(self, batch, _):
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    trainer = lightning.Trainer(
        max_steps=2, accelerator="cpu" if DEVICE == "cpu" else "gpu", default_root_dir="lightning",
        enable_progress_bar=False, enable_model_summary=False,
    )
    trainer.fit(Module(), DataLoader(torch.randn(8, 8), batch_size=4))
    trainer.save_checkpoint("lightning/last.ckpt")
    assert os.path.exists("lightning/last.ckpt")

def with_tensorboard(model):
    from torch.utils.tensorboard import SummaryWriter
    with SummaryWriter("logs") as writer:
        writer.add_scalar("loss", 1.0, 0)
    assert os.listdir("logs")

def with_wandb(model):
    import wandb
    with wandb.init(mode="offline", dir=".", project="tried") as run:
        run.log({"loss": 1.0})
    assert os.path.isdir("wandb")

def with_mlflow(model):
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow
    mlflow.set_tracking_uri("file:mlruns")
    with mlflow.start_run():
        mlflow.log_metric("loss", 1.0)
    assert os.path.isdir("mlruns")

def with_datasets(model):
    from datasets import Dataset
    Dataset.from_dict({"x": [1, 2, 3]}).map(lambda row: row).save_to_disk("data")
    assert "state.json" in os.listdir("data")

def with_numpy_and_pandas(model):
    import numpy, pandas
    numpy.save("array.npy", numpy.ones(3))
    numpy.memmap("mapped.bin", dtype="uint8", mode="w+", shape=(8,))[:] = 7
    pandas.DataFrame({"x": [1]}).to_csv("table.csv")
    pandas.DataFrame({"x": [1]}).to_parquet("table.parquet")
    assert numpy.fromfile("mapped.bin", "uint8").tolist() == [7] * 8

def with_arrow(model):
    import pyarrow, pyarrow.parquet
    pyarrow.parquet.write_table(pyarrow.table({"x": [1, 2]}), "arrow.parquet")
    assert pyarrow.parquet.read_table("arrow.parquet").num_rows == 2

if __name__ == "__main__":
    DEVICE, name = sys.argv[1:]
    os.makedirs(name, exist_ok=True)
    os.chdir(name)
    globals()[name](torch.nn.Linear(8, 8).to(DEVICE))
    print(name, "done", file=sys.stderr)
"""
NAMES = [line[4:].split("(")[0] for line in PROGRAM.splitlines() if line.startswith("def with_")]


@pytest.mark.parametrize("name", NAMES)
def test_a_library_that_saves_changes_no_file(tmp_path: Path, name: str) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    real = subprocess.run(
        [sys.executable, "train.py", "cpu", name],
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert real.returncode == 0, real.stderr
    before = manifest(tmp_path / name)
    assert before
    for layer in ("overlay", "redirect", "landlock"):
        found = estimate(tmp_path, layer, "--json", "--steps", "all", "train.py", "cuda", name)
        assert manifest(tmp_path / name) == before, layer
        if layer == "overlay":
            require(layer)
            assert f"{name} done" in found.stderr, found.stderr
            assert json.loads(found.stdout)["shelter"] == layer
