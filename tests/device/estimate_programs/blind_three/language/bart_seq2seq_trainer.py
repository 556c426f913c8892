"""Headlines with BART and the Seq2SeqTrainer: bf16, evaluation by generating with beams."""

import argparse
import tempfile

import numpy as np
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)


def make_articles(n, article, headline, vocab, seed):
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n):
        ids = rng.integers(3, vocab, size=rng.integers(article // 2, article + 1)).tolist()
        labels = rng.integers(3, vocab, size=rng.integers(headline // 2, headline + 1)).tolist()
        rows.append({"input_ids": [0, *ids, 2], "labels": [*labels, 2]})
    return rows


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    widest = max(len(r["labels"]) for r in rows)
    return {
        "input_ids": torch.tensor(
            [r["input_ids"] + [1] * (longest - len(r["input_ids"])) for r in rows]
        ),
        "attention_mask": torch.tensor(
            [[1] * len(r["input_ids"]) + [0] * (longest - len(r["input_ids"])) for r in rows]
        ),
        "labels": torch.tensor([r["labels"] + [-100] * (widest - len(r["labels"])) for r in rows]),
    }


def overlap(prediction):
    """The share of the reference's words that the generated headline has."""
    shares = []
    for written, reference in zip(prediction.predictions, prediction.label_ids):
        words = set(reference[reference >= 3].tolist())
        shares.append(len(words & set(written.tolist())) / max(len(words), 1))
    return {"overlap": float(np.mean(shares))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--article", type=int, default=600)
    parser.add_argument("--headline", type=int, default=40)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=50265)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=args.vocab,
        d_model=args.width,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.width // 64,
        decoder_attention_heads=args.width // 64,
        encoder_ffn_dim=4 * args.width,
        decoder_ffn_dim=4 * args.width,
        max_position_embeddings=1024,
        forced_eos_token_id=None,
    )
    model = BartForConditionalGeneration(config)
    generation = GenerationConfig(
        max_new_tokens=args.headline // 2,
        num_beams=args.beams,
        decoder_start_token_id=2,
        pad_token_id=1,
        eos_token_id=2,
        bos_token_id=0,
        length_penalty=2.0,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Seq2SeqTrainer(
            model=model,
            args=Seq2SeqTrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=args.batch_size // 2,
                max_steps=args.steps,
                bf16=not args.fp32,
                optim="adafactor",
                learning_rate=5e-4,
                predict_with_generate=True,
                generation_config=generation,
                logging_steps=1,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=make_articles(
                args.steps * args.batch_size, args.article, args.headline, args.vocab, 0
            ),
            eval_dataset=make_articles(args.batch_size, args.article, args.headline, args.vocab, 1),
            data_collator=collate,
            compute_metrics=overlap,
        )
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
