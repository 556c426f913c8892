"""Programs using well-known packages, unchanged: the recording equals what was allocated."""

from __future__ import annotations

from pathlib import Path

from programs import run_counted, run_program


def test_trainer_of_transformers_imported_before_torch(tmp_path: Path) -> None:
    ran = run_counted(
        tmp_path,
        """
        import transformers
        from transformers import GPT2Config
        import torch
        from referee import Referee
        referee = Referee()
        from transformers import GPT2LMHeadModel, Trainer, TrainingArguments
        config = GPT2Config(n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=32)
        data = [{"input_ids": torch.arange(16), "labels": torch.arange(16)} for _ in range(8)]
        settings = TrainingArguments("out", max_steps=2, per_device_train_batch_size=2,
            use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True)
        Trainer(GPT2LMHeadModel(config), settings, train_dataset=data).train()
        """,
    )
    assert ran.recorded() == [ran.counted()]


def test_accelerate(tmp_path: Path) -> None:
    ran = run_counted(
        tmp_path,
        """
        from accelerate import Accelerator
        import torch
        from referee import Referee
        referee = Referee()
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
    )
    assert ran.recorded() == [ran.counted()]


def test_lightning_with_workers(tmp_path: Path) -> None:
    ran = run_program(
        tmp_path,
        """
        import json
        import torch
        from referee import Referee
        referee = Referee()  # lightning keeps a tensor from its import on
        import lightning
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, row): return torch.full((64,), float(row))
        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(64, 64)
            def training_step(self, batch, number): return self.layer(batch).sum()
            def configure_optimizers(self): return torch.optim.Adam(self.parameters())
        if __name__ == "__main__":
            loader = torch.utils.data.DataLoader(Data(), batch_size=2, num_workers=2)
            trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False,
                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
            trainer.fit(Model(), loader)
            json.dump(referee.peak(), open("peak.json", "w"))
        """,
    )
    assert ran.recorded() == [ran.counted()]
    # Each worker creates four items of 256 bytes, and two batches of them.
    assert len(ran.recorded("run.*.gmp")) == 2
    assert min(ran.recorded("run.*.gmp")) >= 2 * 256


def test_compiled(tmp_path: Path) -> None:
    ran = run_counted(
        tmp_path,
        """
        import torch
        from referee import Referee
        referee = Referee()
        layer = torch.nn.Linear(64, 64)
        @torch.compile
        def step(x): return torch.nn.functional.gelu(layer(x)).sum()
        for _ in range(2):
            step(torch.randn(128, 64)).backward()
        """,
    )
    assert ran.recorded() == [ran.counted()]


def test_datasets(tmp_path: Path) -> None:
    ran = run_counted(
        tmp_path,
        """
        import datasets
        data = datasets.Dataset.from_dict({"x": [[float(i)] * 50 for i in range(20)]})
        import torch
        from referee import Referee
        referee = Referee()
        data = data.with_format("torch")
        layer = torch.nn.Linear(50, 50)
        for batch in torch.utils.data.DataLoader(data, batch_size=5):
            layer(batch["x"]).sum().backward()
        """,
    )
    assert ran.recorded() == [ran.counted()]


def test_probing_as_diffusers_does(tmp_path: Path) -> None:
    ran = run_counted(
        tmp_path,
        """
        import importlib.metadata, importlib.util
        is_torch_available = importlib.util.find_spec("torch") is not None
        assert is_torch_available and importlib.metadata.version("torch")
        from transformers.utils import is_torch_available as says_transformers
        from accelerate.utils import is_cuda_available
        assert says_transformers()
        import torch
        from referee import Referee
        referee = Referee()
        kept = [torch.randn(100 * number) for number in range(1, 50)]
        total = sum(each.sum() for each in kept)
        """,
    )
    assert ran.recorded() == [ran.counted()]
