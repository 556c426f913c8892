"""Translation with an M2M-100 model and Seq2SeqTrainer: label smoothing, fp16, generated
translations at evaluation.
"""

import argparse
import random
import tempfile

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    M2M100Config,
    M2M100ForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)


def sentence_pairs(count, longest, vocab, seed):
    rng = random.Random(seed)
    pairs = []
    for _ in range(count):
        source = [rng.randrange(10, vocab) for _ in range(rng.randint(longest // 4, longest))]
        target = [token for token in reversed(source) if rng.random() < 0.9] or source[:1]
        pairs.append({"input_ids": [4, *source, 2], "labels": [5, *target, 2]})
    return pairs


class PairCollator:
    def __init__(self, pad, decoder_start):
        self.pad = pad
        self.decoder_start = decoder_start

    def stack(self, rows, fill):
        longest = max(map(len, rows))
        return torch.tensor([row + [fill] * (longest - len(row)) for row in rows])

    def __call__(self, features):
        ids = self.stack([f["input_ids"] for f in features], self.pad)
        labels = self.stack([f["labels"] for f in features], -100)
        # Label smoothing is computed from the logits, so the model does not shift the labels.
        decoder_ids = labels.masked_fill(labels == -100, self.pad).roll(1, dims=1)
        decoder_ids[:, 0] = self.decoder_start
        return {
            "input_ids": ids,
            "attention_mask": ids.ne(self.pad).long(),
            "decoder_input_ids": decoder_ids,
            "labels": labels,
        }


def token_accuracy(prediction):
    guess, truth = prediction.predictions, prediction.label_ids
    n = min(guess.shape[1] - 1, truth.shape[1])
    same = (guess[:, 1 : n + 1] == truth[:, :n]) & (truth[:, :n] != -100)
    return {"accuracy": float(same.sum() / max(np.sum(truth[:, :n] != -100), 1))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--longest", type=int, default=128)
    parser.add_argument("--d-model", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(11)

    config = M2M100Config(
        vocab_size=args.vocab,
        d_model=args.d_model,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.d_model // 64,
        decoder_attention_heads=args.d_model // 64,
        encoder_ffn_dim=args.d_model * 4,
        decoder_ffn_dim=args.d_model * 4,
        encoder_layerdrop=0.0,
        decoder_layerdrop=0.0,
        max_position_embeddings=1024,
    )
    model = M2M100ForConditionalGeneration(config)
    training = Seq2SeqTrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=args.batch_size // 2,
        gradient_accumulation_steps=2,
        learning_rate=1e-4,
        label_smoothing_factor=0.1,
        fp16=not args.fp32,
        max_steps=args.steps,
        eval_strategy="steps",
        eval_steps=args.steps,
        predict_with_generate=True,
        generation_config=GenerationConfig(
            max_new_tokens=args.new_tokens,
            num_beams=1,
            decoder_start_token_id=config.decoder_start_token_id,
            pad_token_id=config.pad_token_id,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
        ),
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=training,
        train_dataset=sentence_pairs(args.batch_size * 10, args.longest, args.vocab, 0),
        eval_dataset=sentence_pairs(args.batch_size, args.longest, args.vocab, 1),
        data_collator=PairCollator(config.pad_token_id, config.decoder_start_token_id),
        compute_metrics=token_accuracy,
    )
    trainer.train()
    print([entry for entry in trainer.state.log_history if "eval_loss" in entry][-1])


if __name__ == "__main__":
    main()
