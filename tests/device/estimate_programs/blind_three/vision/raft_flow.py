"""Optical flow with torchvision's RAFT: made-up motion, the sequence loss over all its updates."""

import argparse

import torch
import torch.nn.functional as F
from torchvision.models.optical_flow import raft_small


def moving_pairs(n, height, width, device):
    """A smooth image and the same after a smooth motion, with the motion."""
    texture = torch.rand(n, 3, height // 4, width // 4, device=device)
    first = F.interpolate(texture, (height, width), mode="bicubic", align_corners=False)
    coarse = 6 * torch.randn(n, 2, 4, 6, device=device)
    flow = F.interpolate(coarse, (height, width), mode="bilinear", align_corners=True)
    ys, xs = torch.meshgrid(
        torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij"
    )
    grid_x = 2 * (xs - flow[:, 0]) / (width - 1) - 1
    grid_y = 2 * (ys - flow[:, 1]) / (height - 1) - 1
    grid = torch.stack([grid_x, grid_y], dim=-1)
    second = F.grid_sample(first, grid, padding_mode="border", align_corners=True)
    return 2 * first - 1, 2 * second - 1, flow


def sequence_loss(predictions, flow, gamma=0.8):
    n = len(predictions)
    return sum(gamma ** (n - 1 - i) * (p - flow).abs().mean() for i, p in enumerate(predictions))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--height", type=int, default=288)
    parser.add_argument("--width", type=int, default=448)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = raft_small(weights=None).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, weight_decay=1e-4, eps=1e-8)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-4, total_steps=args.steps + 10)
    for step in range(args.steps):
        first, second, flow = moving_pairs(args.batch_size, args.height, args.width, device)
        predictions = model(first, second, num_flow_updates=args.updates)
        loss = sequence_loss(predictions, flow)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
        error = (predictions[-1].detach() - flow).norm(dim=1).mean()
        print(f"step {step}: loss {loss.item():.3f}, end-point error {error.item():.3f}")
    model.eval()
    with torch.no_grad():
        model(first, second, num_flow_updates=2 * args.updates)


if __name__ == "__main__":
    main()
