"""Further training of an OPT with the Trainer: fp16, accumulation, smoothed labels."""

import argparse
import random
import tempfile

import torch
from transformers import (
    OPTConfig,
    OPTForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


class Collator:
    def __init__(self, pad, multiple=8):
        self.pad, self.multiple = pad, multiple

    def __call__(self, texts):
        longest = max(len(text) for text in texts)
        longest = -(-longest // self.multiple) * self.multiple
        ids = torch.full((len(texts), longest), self.pad)
        mask = torch.zeros(len(texts), longest, dtype=torch.long)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = torch.tensor(text)
            mask[row, : len(text)] = 1
        labels = ids.masked_fill(mask == 0, -100)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def make_texts(n, shortest, longest, vocab, seed):
    rng = random.Random(seed)
    return [
        [rng.randrange(4, vocab) for _ in range(rng.randint(shortest, longest))] for _ in range(n)
    ]


class Reporter(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            print(f"step {state.global_step}: {logs['loss']} lr {logs['learning_rate']:.2e}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=3)
    parser.add_argument("--longest", type=int, default=768)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=50272)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(4)
    config = OPTConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        word_embed_proj_dim=args.hidden // 2,
        ffn_dim=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        max_position_embeddings=1024,
        do_layer_norm_before=False,
        use_cache=False,
    )
    model = OPTForCausalLM(config)
    rows = args.steps * args.batch_size * args.accumulation
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                gradient_accumulation_steps=args.accumulation,
                max_steps=args.steps,
                fp16=not args.fp32,
                label_smoothing_factor=args.smoothing,
                optim="adamw_torch_fused" if torch.cuda.is_available() else "adamw_torch",
                learning_rate=1e-4,
                warmup_steps=1,
                lr_scheduler_type="cosine",
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=make_texts(rows, args.longest // 4, args.longest, args.vocab, 0),
            data_collator=Collator(pad=1),
            callbacks=[Reporter()],
        )
        trainer.train()
        scores = trainer.predict(
            make_texts(4, args.longest // 16, args.longest // 8, args.vocab, 1)
        )
        print(scores.metrics["test_loss"])


if __name__ == "__main__":
    main()
