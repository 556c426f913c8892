"""Fine-tunes wav2vec 2.0 with CTC: frozen feature encoder, padded audio, three-stage rate."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC, set_seed


class Speech(Dataset):
    def __init__(self, count, seconds, vocab, seed):
        generator = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(
            int(seconds * 8000), int(seconds * 16000) + 1, (count,), generator=generator
        ).tolist()
        self.vocab = vocab

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        wave = torch.randn(self.lengths[index], generator=generator)
        letters = torch.randint(1, self.vocab, (self.lengths[index] // 3200,), generator=generator)
        return wave, letters


def collate(examples):
    longest = max(len(wave) for wave, _ in examples)
    most = max(len(letters) for _, letters in examples)
    values = torch.zeros(len(examples), longest)
    mask = torch.zeros(len(examples), longest, dtype=torch.long)
    labels = torch.full((len(examples), most), -100)
    for row, (wave, letters) in enumerate(examples):
        values[row, : len(wave)] = wave
        mask[row, : len(wave)] = 1
        labels[row, : len(letters)] = letters
    return {"input_values": values, "attention_mask": mask, "labels": labels}


def three_stages(step, total):
    if step < total * 0.1:
        return (step + 1) / (total * 0.1 + 1)
    if step < total * 0.5:
        return 1.0
    return 0.5 ** (step - total * 0.5)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    set_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        mask_time_prob=0.05,
        layerdrop=0.0,
    )
    model = Wav2Vec2ForCTC(config)
    model.freeze_feature_encoder()
    model.to(device).train()
    loader = DataLoader(
        Speech(args.batch_size * args.steps, args.seconds, 32, 0),
        batch_size=args.batch_size,
        collate_fn=collate,
    )
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=5e-5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: three_stages(s, args.steps))
    for step, batch in enumerate(loader):
        batch = {key: value.to(device) for key, value in batch.items()}
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        print(f"step {step} ctc {loss.item():.4f} samples {batch['input_values'].size(1)}")


if __name__ == "__main__":
    main()
