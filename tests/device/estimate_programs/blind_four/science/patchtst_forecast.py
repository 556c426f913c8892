"""PatchTST from transformers: first hidden patches, then forecasts with the same encoder."""

import argparse

import torch
from transformers import PatchTSTConfig, PatchTSTForPrediction, PatchTSTForPretraining


def series(args, generator, device):
    """Sums of waves with random phases, one for each channel."""
    t = torch.arange(args.context + args.horizon) / 24
    shape = (args.batch_size, 1, args.channels)
    out = sum(
        torch.sin(2 * torch.pi * (t[None, :, None] / p + torch.rand(shape, generator=generator)))
        for p in (1, 7, 30)
    )
    out = out + 0.1 * torch.randn(out.shape, generator=generator)
    return out.to(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=96)
    parser.add_argument("--channels", type=int, default=21)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3, help="of each phase")
    args = parser.parse_args()
    torch.manual_seed(5)
    generator = torch.Generator().manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shared = dict(
        num_input_channels=args.channels,
        context_length=args.context,
        patch_length=16,
        patch_stride=8,
        d_model=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=8,
        ffn_dim=2 * args.width,
        attention_dropout=0.1,
    )
    first = PatchTSTForPretraining(
        PatchTSTConfig(**shared, do_mask_input=True, random_mask_ratio=0.4)
    ).to(device)
    optimizer = torch.optim.AdamW(first.parameters(), lr=1e-4)
    for step in range(args.steps):
        values = series(args, generator, device)[:, : args.context]
        loss = first(past_values=values).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"hidden patches {step}: {loss.item():.4f}")

    second = PatchTSTForPrediction(
        PatchTSTConfig(**shared, prediction_length=args.horizon, loss="mse")
    )
    weights = {k: v for k, v in first.model.state_dict().items() if "mask" not in k}
    second.model.load_state_dict(weights, strict=False)
    second.to(device)
    del first, optimizer
    optimizer = torch.optim.SGD(second.parameters(), lr=1e-3, momentum=0.9)
    for step in range(args.steps):
        values = series(args, generator, device)
        past, future = values.split([args.context, args.horizon], dim=1)
        loss = second(past_values=past, future_values=future).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"forecast {step}: {loss.item():.4f}")
    second.eval()
    with torch.no_grad():
        out = second(past_values=past).prediction_outputs
    print("error", (out - future).abs().mean().item())


if __name__ == "__main__":
    main()
