"""Demand forecasts with the TimeSeriesTransformer: Student's t outputs, sampled paths."""

import argparse

import torch
from accelerate.utils import set_seed
from transformers import TimeSeriesTransformerConfig, TimeSeriesTransformerForPrediction


def make_batch(n, past, horizon, stores, device, with_future):
    length = past + horizon
    t = torch.arange(length).float()
    phase = torch.rand(n, 1) * 24
    level = 5 + 5 * torch.rand(n, 1)
    values = level * (1 + 0.4 * torch.sin(2 * torch.pi * (t + phase) / 24))
    values = values + 0.3 * torch.randn(n, length)
    features = torch.stack(
        [torch.sin(2 * torch.pi * t / 24), torch.cos(2 * torch.pi * t / 24), torch.log1p(t)], -1
    ).expand(n, -1, -1)
    batch = {
        "past_values": values[:, :past],
        "past_time_features": features[:, :past],
        "past_observed_mask": (torch.rand(n, past) > 0.02).float(),
        "static_categorical_features": torch.randint(stores, (n, 1)),
        "static_real_features": level,
        "future_time_features": features[:, past:],
    }
    if with_future:
        batch["future_values"] = values[:, past:]
    return {name: value.to(device) for name, value in batch.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--context", type=int, default=240)
    parser.add_argument("--horizon", type=int, default=24)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--forecasts", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    set_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    lags = [1, 2, 3, 4, 5, 6, 7, 23, 24, 25]
    config = TimeSeriesTransformerConfig(
        prediction_length=args.horizon,
        context_length=args.context,
        lags_sequence=lags,
        num_time_features=3,
        num_static_categorical_features=1,
        num_static_real_features=1,
        cardinality=[100],
        embedding_dimension=[8],
        d_model=args.width,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=4 * args.width,
        decoder_ffn_dim=4 * args.width,
        num_parallel_samples=args.samples,
    )
    model = TimeSeriesTransformerForPrediction(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95))
    past = args.context + max(lags)
    model.train()
    for step in range(args.steps):
        batch = make_batch(args.batch_size, past, args.horizon, 100, device, with_future=True)
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")
    model.eval()
    batch = make_batch(args.forecasts, past, args.horizon, 100, device, with_future=False)
    paths = model.generate(**batch).sequences
    low, high = paths.quantile(0.1, dim=1), paths.quantile(0.9, dim=1)
    print("paths", tuple(paths.shape), "mean width", (high - low).mean().item())


if __name__ == "__main__":
    main()
