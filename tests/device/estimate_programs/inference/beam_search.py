"""Summaries by beam search with BART: encoder once, beams share it, n-grams are not repeated."""

import argparse

import torch
from transformers import BartConfig, BartForConditionalGeneration


def load(args, device):
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
    return model.half().to(device).eval() if device == "cuda" else model.eval()


def articles(args):
    lengths = torch.randint(args.source // 2, args.source + 1, (args.batch_size, 1))
    ids = torch.randint(4, args.vocab, (args.batch_size, args.source))
    mask = (torch.arange(args.source)[None] < lengths).long()
    return torch.where(mask.bool(), ids, torch.ones_like(ids)), mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--source", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=50264)
    args = parser.parse_args()
    torch.manual_seed(31)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load(args, device)
    for number in range(2):
        ids, mask = articles(args)
        with torch.inference_mode():
            out = model.generate(
                ids.to(device),
                attention_mask=mask.to(device),
                num_beams=args.beams,
                num_return_sequences=2,
                length_penalty=2.0,
                no_repeat_ngram_size=3,
                early_stopping=False,
                min_new_tokens=args.new_tokens,
                max_new_tokens=args.new_tokens,
                do_sample=False,
            )
        print(f"batch {number}: {tuple(out.shape)}; first summary {out[0, :8].tolist()}")


if __name__ == "__main__":
    main()
