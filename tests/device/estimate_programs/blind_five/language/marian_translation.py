"""Translation with Marian in a plain loop: label smoothing, fp16, beams between epochs."""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import MarianConfig, MarianMTModel


def pairs(count, longest, vocab):
    g = torch.Generator().manual_seed(77)
    found = []
    for _ in range(count):
        n, m = torch.randint(longest // 3, longest, (2,), generator=g).tolist()
        source = torch.randint(2, vocab - 1, (n,), generator=g)
        found.append((source, torch.randint(2, vocab - 1, (m,), generator=g)))
    return sorted(found, key=lambda pair: len(pair[0]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--longest", type=int, default=96)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--new-tokens", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(31)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pad = args.vocab - 1
    config = MarianConfig(
        vocab_size=args.vocab,
        d_model=args.width,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.width // 64,
        decoder_attention_heads=args.width // 64,
        encoder_ffn_dim=4 * args.width,
        decoder_ffn_dim=4 * args.width,
        pad_token_id=pad,
        eos_token_id=0,
        decoder_start_token_id=pad,
        forced_eos_token_id=0,
        max_position_embeddings=512,
    )
    model = MarianMTModel(config).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, betas=(0.9, 0.98), eps=1e-9)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")

    def collate(batch):
        stack = torch.nn.utils.rnn.pad_sequence
        return tuple(
            stack([pair[i] for pair in batch], batch_first=True, padding_value=pad) for i in (0, 1)
        )

    data = pairs(3 * args.batch_size, args.longest, args.vocab)
    loader = DataLoader(data, args.batch_size, collate_fn=collate)
    for epoch in range(args.epochs):
        model.train()
        for source, target in loader:
            source, target = source.to(device), target.to(device)
            labels = target.masked_fill(target == pad, -100)
            with torch.autocast(device, torch.float16 if device == "cuda" else torch.bfloat16):
                logits = model(
                    input_ids=source, attention_mask=(source != pad).long(), labels=labels
                ).logits
                loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        source, _ = collate(data[:8])
        source = source.to(device)
        out = model.generate(
            source,
            attention_mask=(source != pad).long(),
            num_beams=4,
            max_new_tokens=args.new_tokens,
            min_new_tokens=args.new_tokens,
        )
        print(f"epoch {epoch}: {loss.item():.3f}", tuple(out.shape))


if __name__ == "__main__":
    main()
