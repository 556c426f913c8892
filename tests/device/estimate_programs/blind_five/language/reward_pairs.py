"""A reward model for pairs of answers: Trainer with its own loss, fp16 amp and checkpointing."""

import argparse
import tempfile

import torch
import torch.nn.functional as F
from transformers import (
    Qwen2Config,
    Qwen2ForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)


class RewardTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        rewards = model(
            input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"]
        ).logits.squeeze(-1)
        chosen, rejected = rewards.chunk(2)
        loss = -F.logsigmoid(chosen.float() - rejected.float() - inputs["margin"]).mean()
        return (loss, {"rewards": rewards}) if return_outputs else loss


def collate(pairs):
    rows = [p["chosen"] for p in pairs] + [p["rejected"] for p in pairs]
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    margin = torch.tensor([p["margin"] for p in pairs])
    return {"input_ids": ids, "attention_mask": mask, "margin": margin}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--pairs", type=int, default=6)
    ap.add_argument("--longest", type=int, default=640)
    ap.add_argument("--width", type=int, default=896)
    ap.add_argument("--layers", type=int, default=12)
    ap.add_argument("--vocab", type=int, default=32000)
    ap.add_argument("--no-half", action="store_true")
    args = ap.parse_args()
    set_seed(5)
    model = Qwen2ForSequenceClassification(
        Qwen2Config(
            vocab_size=args.vocab,
            hidden_size=args.width,
            intermediate_size=3 * args.width,
            num_hidden_layers=args.layers,
            num_attention_heads=args.width // 64,
            num_key_value_heads=2,
            num_labels=1,
            pad_token_id=0,
            use_cache=False,
        )
    )
    data = []
    for i in range(8 * args.pairs):
        g = torch.Generator().manual_seed(i)
        lengths = torch.randint(args.longest // 3, args.longest, (2,), generator=g).tolist()
        chosen, rejected = (torch.randint(1, args.vocab, (n,), generator=g) for n in lengths)
        data.append({"chosen": chosen, "rejected": rejected, "margin": 0.1 * (i % 3)})
    with tempfile.TemporaryDirectory() as folder:
        RewardTrainer(
            model=model,
            args=TrainingArguments(
                folder,
                per_device_train_batch_size=args.pairs,
                max_steps=4,
                fp16=not args.no_half,
                gradient_checkpointing=True,
                learning_rate=1e-5,
                logging_steps=2,
                remove_unused_columns=False,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=data,
            data_collator=collate,
        ).train()


if __name__ == "__main__":
    main()
