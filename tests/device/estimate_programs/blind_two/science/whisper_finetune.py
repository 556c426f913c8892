"""Fine-tunes Whisper on synthetic speech: masked spectrograms, frozen encoder part, word errors."""

import argparse

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from transformers import (
    WhisperConfig,
    WhisperForConditionalGeneration,
    get_linear_schedule_with_warmup,
)

START, END, PAD = 3, 2, 2


class Speech(Dataset):
    def __init__(self, n, mels, frames, longest, vocab):
        self.n, self.mels, self.frames = n, mels, frames
        self.longest, self.vocab = longest, vocab

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        gen = torch.Generator().manual_seed(i)
        size = int(torch.randint(self.longest // 3, self.longest, (), generator=gen))
        text = torch.randint(10, self.vocab, (size,), generator=gen)
        features = torch.randn(self.mels, self.frames, generator=gen)
        features[:, self.frames * size // self.longest :] = -1.0
        return features, torch.cat([text, torch.tensor([END])])


def collate(rows):
    features, texts = zip(*rows)
    return torch.stack(features), pad_sequence(texts, batch_first=True, padding_value=-100)


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--frames", type=int, default=3000)
    parser.add_argument("--longest", type=int, default=120)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=51865)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--batches", type=int, default=6)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = WhisperConfig(
        vocab_size=args.vocab,
        num_mel_bins=80,
        d_model=args.width,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.width // 64,
        decoder_attention_heads=args.width // 64,
        encoder_ffn_dim=4 * args.width,
        decoder_ffn_dim=4 * args.width,
        max_source_positions=args.frames // 2,
        max_target_positions=448,
        dropout=0.1,
        apply_spec_augment=True,
        mask_time_prob=0.05,
        mask_feature_prob=0.05,
        pad_token_id=PAD,
        bos_token_id=START,
        eos_token_id=END,
        decoder_start_token_id=START,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config).to(device)
    # The convolutions and the first encoder layer stay as they are.
    for part in (model.model.encoder.conv1, model.model.encoder.conv2):
        part.requires_grad_(False)
    model.model.encoder.layers[0].requires_grad_(False)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-5, eps=1e-6)
    scheduler = get_linear_schedule_with_warmup(optimizer, 1, args.batches // args.accumulate)
    data = Speech(args.batches * args.batch_size, 80, args.frames, args.longest, args.vocab)
    loader = DataLoader(data, args.batch_size, shuffle=True, collate_fn=collate)

    model.train()
    for i, (features, labels) in enumerate(loader, 1):
        with torch.autocast(device.type, dtype=torch.bfloat16):
            out = model(input_features=features.to(device), labels=labels.to(device))
        (out.loss / args.accumulate).backward()
        if i % args.accumulate == 0:
            torch.nn.utils.clip_grad_norm_(trainable, 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        print(f"batch {i}: loss {out.loss.item():.3f}")

    model.eval()
    features, labels = next(iter(DataLoader(data, args.batch_size, collate_fn=collate)))
    ids = torch.full((args.batch_size, 1), START, device=device)
    with torch.no_grad(), torch.autocast(device.type, dtype=torch.bfloat16):
        encoded = model.model.encoder(features.to(device))
        cache = None
        for _ in range(24):  # greedy decoding by hand
            out = model(
                encoder_outputs=encoded,
                decoder_input_ids=ids if cache is None else ids[:, -1:],
                past_key_values=cache,
                use_cache=True,
            )
            cache = out.past_key_values
            ids = torch.cat([ids, out.logits[:, -1:].argmax(-1)], dim=1)
    wrong = total = 0
    for guess, real in zip(ids[:, 1:].tolist(), labels.tolist()):
        real = [t for t in real if t >= 0]
        wrong += edit_distance(guess, real)
        total += len(real)
    print(f"error rate {wrong / total:.3f}")


if __name__ == "__main__":
    main()
