"""LoRA on a Gemma 3 text model with peft and the HF Trainer: bf16, checkpointing, accumulation."""

import argparse
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Trainer,
    TrainingArguments,
    set_seed,
)


class Chats(Dataset):
    def __init__(self, n, length, vocab):
        g = torch.Generator().manual_seed(10)
        self.ids = torch.randint(3, vocab, (n, length), generator=g)
        self.labels = self.ids.clone()
        self.labels[:, : length // 4] = -100

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1152)
    parser.add_argument("--layers", type=int, default=18)
    parser.add_argument("--vocab", type=int, default=65536)
    parser.add_argument("--rank", type=int, default=16)
    args = parser.parse_args()
    set_seed(3)
    config = Gemma3TextConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=6 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        sliding_window=args.length // 2,
        use_cache=False,
    )
    model = Gemma3ForCausalLM(config).to(torch.bfloat16)
    model = get_peft_model(
        model,
        LoraConfig(
            r=args.rank,
            lora_alpha=2 * args.rank,
            lora_dropout=0.05,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj"],
            task_type="CAUSAL_LM",
        ),
    )
    model.enable_input_require_grads()
    model.print_trainable_parameters()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                gradient_accumulation_steps=2,
                gradient_checkpointing=True,
                gradient_checkpointing_kwargs={"use_reentrant": False},
                learning_rate=2e-4,
                max_steps=3,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Chats(8 * args.batch_size, args.length, args.vocab),
        )
        trainer.train()


if __name__ == "__main__":
    main()
