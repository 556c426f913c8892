"""Headlines with Pegasus and Seq2SeqTrainer: label smoothing, bf16, checkpointing, beams at
the end.
"""

import argparse
import tempfile

import torch
from transformers import (
    GenerationConfig,
    PegasusConfig,
    PegasusForConditionalGeneration,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)


def articles(count, source, target, vocab, seed):
    g = torch.Generator().manual_seed(seed)
    examples = []
    for _ in range(count):
        labels = torch.randint(4, vocab, (target,), generator=g)
        examples.append(
            {
                "input_ids": torch.randint(4, vocab, (source,), generator=g),
                "attention_mask": torch.ones(source, dtype=torch.long),
                "decoder_input_ids": torch.cat([torch.zeros(1, dtype=torch.long), labels[:-1]]),
                "labels": labels,
            }
        )
    return examples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--source", type=int, default=640)
    parser.add_argument("--target", type=int, default=64)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=64000)
    parser.add_argument("--new-tokens", type=int, default=20)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(5)
    config = PegasusConfig(
        vocab_size=args.vocab,
        d_model=args.width,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.width // 64,
        decoder_attention_heads=args.width // 64,
        encoder_ffn_dim=4 * args.width,
        decoder_ffn_dim=4 * args.width,
        max_position_embeddings=max(args.source, 128),
    )
    model = PegasusForConditionalGeneration(config)
    model.generation_config = GenerationConfig(
        decoder_start_token_id=0, eos_token_id=1, pad_token_id=0
    )
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=args.batch_size,
            gradient_checkpointing=True,
            gradient_accumulation_steps=2,
            label_smoothing_factor=0.1,
            bf16=not args.fp32,
            max_steps=3,
            predict_with_generate=True,
            generation_max_length=args.new_tokens,
            generation_num_beams=4,
            save_strategy="no",
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=articles(6 * args.batch_size, args.source, args.target, args.vocab, 0),
        eval_dataset=articles(args.batch_size, args.source, args.target, args.vocab, 1),
    )
    trainer.train()
    print(trainer.evaluate()["eval_loss"])


if __name__ == "__main__":
    main()
