"""An image encoder, frozen, and a text decoder (TrOCR-like) that is fine-tuned and generates."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import (
    GPT2Config,
    VisionEncoderDecoderConfig,
    VisionEncoderDecoderModel,
    ViTConfig,
    get_linear_schedule_with_warmup,
)


def build(args):
    encoder = ViTConfig(
        image_size=args.size,
        patch_size=16,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
    )
    decoder = GPT2Config(
        vocab_size=args.vocab,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 64,
        n_positions=128,
        is_decoder=True,
        add_cross_attention=True,
        bos_token_id=0,
        eos_token_id=1,
    )
    config = VisionEncoderDecoderConfig.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id = 0
    config.pad_token_id = 1
    config.eos_token_id = 1
    return VisionEncoderDecoderModel(config=config)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=384)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--text", type=int, default=48)
    parser.add_argument("--new-tokens", type=int, default=16)
    args = parser.parse_args()
    torch.manual_seed(38)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(args).to(device)
    model.encoder.requires_grad_(False)
    pixels = torch.randn(4 * args.batch_size, 3, args.size, args.size)
    labels = torch.randint(2, args.vocab, (len(pixels), args.text))
    labels[1::2, args.text // 2 :] = -100
    loader = DataLoader(TensorDataset(pixels, labels), args.batch_size, shuffle=True)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=4e-5)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, len(loader))
    model.train()
    for step, (images, text) in enumerate(loader):
        with torch.autocast(device, torch.bfloat16):
            loss = model(pixel_values=images.to(device), labels=text.to(device)).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(step, loss.item())
    model.eval()
    with torch.no_grad():
        written = model.generate(
            pixels[: args.batch_size].to(device),
            max_new_tokens=args.new_tokens,
            min_new_tokens=args.new_tokens,
            do_sample=False,
            decoder_start_token_id=0,
            pad_token_id=1,
        )
    print(tuple(written.shape))


if __name__ == "__main__":
    main()
