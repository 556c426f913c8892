"""LoRA on Qwen2 through the Trainer: bf16, gradient checkpointing, variable lengths."""

import argparse
import random
import tempfile

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments, set_seed


class Conversations(Dataset):
    def __init__(self, count, longest, vocab, seed):
        rng = random.Random(seed)
        self.lengths = [rng.randint(longest // 4, longest) for _ in range(count)]
        self.vocab, self.seed = vocab, seed

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        rng = torch.Generator().manual_seed(self.seed + index)
        return {"input_ids": torch.randint(1, self.vocab, (self.lengths[index],), generator=rng)}


class Collator:
    def __init__(self, multiple=8):
        self.multiple = multiple

    def __call__(self, examples):
        longest = max(len(example["input_ids"]) for example in examples)
        longest = -(-longest // self.multiple) * self.multiple
        ids = torch.zeros(len(examples), longest, dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, example in enumerate(examples):
            words = example["input_ids"]
            ids[row, : len(words)] = words
            mask[row, : len(words)] = 1
        return {
            "input_ids": ids,
            "attention_mask": mask,
            "labels": ids.masked_fill(mask == 0, -100),
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=50000)
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    set_seed(11)
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128 or 2,
        num_key_value_heads=2,
        use_cache=False,
    )
    model = Qwen2ForCausalLM(config).to(torch.bfloat16)
    model.enable_input_require_grads()
    targets = ["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"]
    lora = LoraConfig(r=32, lora_alpha=64, target_modules=targets, task_type=TaskType.CAUSAL_LM)
    model = get_peft_model(model, lora)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                gradient_accumulation_steps=2,
                gradient_checkpointing=True,
                gradient_checkpointing_kwargs={"use_reentrant": False},
                bf16=args.precision == "bf16",
                learning_rate=1e-4,
                max_steps=args.steps,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                remove_unused_columns=False,
            ),
            train_dataset=Conversations(
                2 * args.batch_size * args.steps, args.longest, args.vocab, 11
            ),
            data_collator=Collator(),
        )
        print(trainer.train().metrics)


if __name__ == "__main__":
    main()
