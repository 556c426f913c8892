"""BART writes headlines: Seq2SeqTrainer with bf16, accumulation and generation in evaluation."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)


class Articles(Dataset):
    def __init__(self, count, source, target, vocab):
        self.ids = torch.randint(4, vocab, (count, source))
        self.labels = torch.randint(4, vocab, (count, target))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        labels = self.labels[i]
        return {
            "input_ids": self.ids[i],
            "attention_mask": torch.ones_like(self.ids[i]),
            "decoder_input_ids": torch.cat([torch.tensor([2]), labels[:-1]]),
            "labels": labels,
        }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--source", type=int, default=512)
    parser.add_argument("--target", type=int, default=64)
    parser.add_argument("--d-model", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=50265)
    parser.add_argument("--new-tokens", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = BartForConditionalGeneration(
        BartConfig(
            vocab_size=args.vocab,
            d_model=args.d_model,
            encoder_layers=args.layers,
            decoder_layers=args.layers,
            encoder_attention_heads=args.d_model // 64,
            decoder_attention_heads=args.d_model // 64,
            encoder_ffn_dim=4 * args.d_model,
            decoder_ffn_dim=4 * args.d_model,
        )
    )
    generation = GenerationConfig(
        max_new_tokens=args.new_tokens,
        min_new_tokens=args.new_tokens,
        num_beams=2,
        decoder_start_token_id=2,
        pad_token_id=1,
        eos_token_id=2,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Seq2SeqTrainer(
            model=model,
            args=Seq2SeqTrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=args.batch_size,
                gradient_accumulation_steps=2,
                label_smoothing_factor=0.1,
                predict_with_generate=True,
                generation_config=generation,
                bf16=not args.fp32,
                max_steps=args.steps,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=Articles(64, args.source, args.target, args.vocab),
            eval_dataset=Articles(args.batch_size, args.source, args.target, args.vocab),
        )
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
