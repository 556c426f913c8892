"""Captions for pictures: a ViT encoder and a GPT-2 decoder, beam search, then sampling, in fp16."""

import argparse

import torch
from transformers import (
    GPT2Config,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
    ViTConfig,
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--new-tokens", type=int, default=20)
    parser.add_argument("--beams", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    encoder = ViTConfig(
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        image_size=args.size,
        patch_size=16,
    )
    decoder = GPT2Config(
        vocab_size=args.vocab,
        n_positions=64,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 64,
        bos_token_id=0,
        eos_token_id=1,
    )
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    model = VisionEncoderDecoderModel(config=config)
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    model = model.to(device, dtype).eval()
    starts = {"decoder_start_token_id": 0, "pad_token_id": 1, "eos_token_id": None}

    images = torch.rand(args.images, 3, args.size, args.size)
    for first in range(0, args.images, args.batch_size):
        pixels = images[first : first + args.batch_size].to(device, dtype)
        captions = model.generate(
            pixel_values=pixels,
            num_beams=args.beams,
            num_return_sequences=min(3, args.beams),
            max_new_tokens=args.new_tokens,
            no_repeat_ngram_size=2,
            **starts,
        )
        print("beams", tuple(captions.shape))
    out = model.generate(
        pixel_values=pixels,
        do_sample=True,
        top_k=50,
        temperature=1.2,
        num_return_sequences=4,
        max_new_tokens=args.new_tokens,
        output_scores=True,
        return_dict_in_generate=True,
        **starts,
    )
    sure = torch.stack(out.scores).softmax(-1).amax(-1).mean().item()
    print("samples", tuple(out.sequences.shape), f"mean confidence {sure:.3f}")


if __name__ == "__main__":
    main()
