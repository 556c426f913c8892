"""A small GPT-J with Trainer: bf16 weights, dataset of uneven texts, fused AdamW, saving at
the end.
"""

import argparse
import random
import tempfile

import torch
from transformers import GPTJConfig, GPTJForCausalLM, Trainer, TrainingArguments, set_seed


def texts(count, longest, vocab, seed):
    rng = random.Random(seed)
    return [
        {"input_ids": [rng.randrange(3, vocab) for _ in range(rng.randint(longest // 3, longest))]}
        for _ in range(count)
    ]


class PadToMultiple:
    def __init__(self, multiple):
        self.multiple = multiple

    def __call__(self, features):
        longest = max(len(f["input_ids"]) for f in features)
        longest = -(-longest // self.multiple) * self.multiple
        ids = torch.zeros(len(features), longest, dtype=torch.long)
        labels = torch.full((len(features), longest), -100)
        mask = torch.zeros(len(features), longest, dtype=torch.long)
        for row, feature in enumerate(features):
            n = len(feature["input_ids"])
            ids[row, :n] = torch.tensor(feature["input_ids"])
            labels[row, :n] = ids[row, :n]
            mask[row, :n] = 1
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--width", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=14)
    parser.add_argument("--vocab", type=int, default=50400)
    parser.add_argument("--on-cpu", action="store_true")
    args = parser.parse_args()
    set_seed(3)
    config = GPTJConfig(
        vocab_size=args.vocab,
        n_positions=-(-args.longest // 64) * 64,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 128,
        rotary_dim=64,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = GPTJForCausalLM(config).to(torch.bfloat16)
    training = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=args.batch_size,
        gradient_accumulation_steps=3,
        optim="adamw_torch" if args.on_cpu else "adamw_torch_fused",
        bf16=not args.on_cpu,
        max_steps=3,
        lr_scheduler_type="cosine",
        warmup_steps=1,
        save_strategy="steps",
        save_steps=3,
        dataloader_num_workers=2,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=training,
        train_dataset=texts(12 * args.batch_size, args.longest, args.vocab, 0),
        data_collator=PadToMultiple(64),
    )
    trainer.train()
    print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
