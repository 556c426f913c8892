"""Trainer on a Mistral whose weights are bfloat16, with Adafactor and an evaluation every two
steps.
"""

import tempfile
from dataclasses import dataclass, field

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModelForCausalLM,
    HfArgumentParser,
    MistralConfig,
    Trainer,
    TrainingArguments,
)


@dataclass
class Options:
    batch_size: int = 4
    eval_batch_size: int = 8
    block: int = 1024
    hidden: int = 1536
    layers: int = 10
    vocab: int = 32000
    window: int = 512
    steps: int = 4
    scratch: str = field(default_factory=tempfile.mkdtemp)


class Blocks(Dataset):
    def __init__(self, count, block, vocab, seed):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(0, vocab, (count, block), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def main():
    (options,) = HfArgumentParser(Options).parse_args_into_dataclasses()
    config = MistralConfig(
        vocab_size=options.vocab,
        hidden_size=options.hidden,
        intermediate_size=options.hidden * 7 // 2,
        num_hidden_layers=options.layers,
        num_attention_heads=options.hidden // 128,
        num_key_value_heads=options.hidden // 512 or 1,
        sliding_window=options.window,
        use_cache=False,
    )
    model = AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    training = TrainingArguments(
        output_dir=options.scratch,
        per_device_train_batch_size=options.batch_size,
        per_device_eval_batch_size=options.eval_batch_size,
        max_steps=options.steps,
        learning_rate=1e-3,
        optim="adafactor",
        lr_scheduler_type="constant",
        eval_strategy="steps",
        eval_steps=2,
        prediction_loss_only=True,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=training,
        train_dataset=Blocks(128, options.block, options.vocab, 0),
        eval_dataset=Blocks(options.eval_batch_size * 2, options.block, options.vocab, 1),
    )
    trainer.train()
    print(trainer.evaluate())


if __name__ == "__main__":
    main()
