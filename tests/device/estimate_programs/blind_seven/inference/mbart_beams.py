"""Translates requests with mBART and beam search: several beams, two answers for each sentence,
lengths sorted so that a batch has little padding.
"""

import argparse
import random

import torch
from transformers import MBartConfig, MBartForConditionalGeneration


def sentences(count, longest, vocab, seed):
    rng = random.Random(seed)
    return [
        [rng.randrange(10, vocab) for _ in range(rng.randint(max(longest // 8, 2), longest - 2))]
        for _ in range(count)
    ]


def encode(rows, language, eos, pad, device):
    rows = [[*row, eos, language] for row in rows]
    width = max(len(row) for row in rows)
    ids = torch.tensor([row + [pad] * (width - len(row)) for row in rows], device=device)
    return ids, ids.ne(pad).long()


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--requests", type=int, default=3)
    parser.add_argument("--longest", type=int, default=200)
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--d-model", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=120000)
    args = parser.parse_args()

    torch.manual_seed(0)
    config = MBartConfig(
        vocab_size=args.vocab,
        max_position_embeddings=1024,
        d_model=args.d_model,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.d_model // 64,
        decoder_attention_heads=args.d_model // 64,
        encoder_ffn_dim=args.d_model * 4,
        decoder_ffn_dim=args.d_model * 4,
        forced_eos_token_id=None,
    )
    dtype = torch.float16 if args.device == "cuda" else torch.float32
    with torch.device(args.device):
        model = MBartForConditionalGeneration(config)
    model = model.to(dtype).eval()

    english, german = 5, 6
    rows = sentences(args.batch_size * args.requests, args.longest, args.vocab, seed=0)
    rows.sort(key=len, reverse=True)
    for start in range(0, len(rows), args.batch_size):
        batch = rows[start : start + args.batch_size]
        ids, mask = encode(batch, english, config.eos_token_id, config.pad_token_id, args.device)
        output = model.generate(
            input_ids=ids,
            attention_mask=mask,
            decoder_start_token_id=german,
            num_beams=args.beams,
            num_return_sequences=2,
            max_new_tokens=args.new_tokens,
            length_penalty=1.0,
            early_stopping=True,
            no_repeat_ngram_size=3,
            return_dict_in_generate=True,
            output_scores=True,
        )
        scores = output.sequences_scores.view(len(batch), 2)
        print(
            f"{tuple(ids.shape)} -> {tuple(output.sequences.shape)}, "
            f"best {scores[:, 0].mean().item():.3f}, second {scores[:, 1].mean().item():.3f}"
        )


if __name__ == "__main__":
    main()
