"""Audio tagging with the Audio Spectrogram Transformer and accelerate in fp16, many labels."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import ASTConfig, ASTForAudioClassification


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frames", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--labels", type=int, default=527)
    parser.add_argument("--precision", default="fp16")
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.precision)
    torch.manual_seed(47)
    config = ASTConfig(
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        max_length=args.frames,
        num_labels=args.labels,
        problem_type="multi_label_classification",
    )
    model = ASTForAudioClassification(config)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, weight_decay=5e-7)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3], gamma=0.5)
    spectra = torch.randn(5 * args.batch, args.frames, 128)
    tags = (torch.rand(len(spectra), args.labels) < 0.01).float()
    train = DataLoader(TensorDataset(spectra, tags), args.batch, shuffle=True, drop_last=True)
    test = DataLoader(
        TensorDataset(spectra[: 2 * args.batch], tags[: 2 * args.batch]), 2 * args.batch
    )
    model, optimizer, train, test, schedule = accelerator.prepare(
        model, optimizer, train, test, schedule
    )
    for x, y in train:
        loss = model(input_values=x, labels=y).loss
        accelerator.backward(loss)
        accelerator.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        accelerator.print(loss.item())
    model.eval()
    for x, y in test:
        with torch.no_grad():
            scores = model(input_values=x).logits.sigmoid()
        scores, y = accelerator.gather_for_metrics((scores, y))
        accelerator.print("mean score of true tags", scores[y > 0].mean().item())


if __name__ == "__main__":
    main()
