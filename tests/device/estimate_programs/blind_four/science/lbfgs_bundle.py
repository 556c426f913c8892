"""Bundle adjustment: cameras and points from their projections, by L-BFGS with a robust loss."""

import argparse

import torch
import torch.nn.functional as F


def rotate(axis, points):
    """Rodrigues' formula."""
    angle = axis.norm(dim=-1, keepdim=True).clamp(min=1e-8)
    k = axis / angle
    cross = torch.linalg.cross(k, points)
    dot = (k * points).sum(-1, keepdim=True)
    return points * angle.cos() + cross * angle.sin() + k * dot * (1 - angle.cos())


def project(cameras, points, which, seen):
    camera, point = cameras[which], points[seen]
    p = rotate(camera[:, :3], point) + camera[:, 3:6]
    flat = p[:, :2] / (p[:, 2:3].abs() + 1.0)
    radius = flat.square().sum(-1, keepdim=True)
    return camera[:, 6:7] * flat * (1 + camera[:, 7:8] * radius + camera[:, 8:9] * radius**2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cameras", type=int, default=500)
    parser.add_argument("--points", type=int, default=200_000)
    parser.add_argument("--observations", type=int, default=2_000_000)
    parser.add_argument("--history", type=int, default=10)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(10)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    truth = torch.randn(args.cameras, 9, device=device) * 0.1
    truth[:, 5] += 5.0
    truth[:, 6] = 1.0
    world = torch.randn(args.points, 3, device=device)
    which = torch.randint(args.cameras, (args.observations,), device=device)
    seen = torch.randint(args.points, (args.observations,), device=device)
    with torch.no_grad():
        pixels = project(truth, world, which, seen)
        pixels += 0.001 * torch.randn_like(pixels)
    cameras = (truth + 0.01 * torch.randn_like(truth)).requires_grad_()
    points = (world + 0.01 * torch.randn_like(world)).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [cameras, points],
        lr=0.5,
        max_iter=4,
        history_size=args.history,
        tolerance_grad=0.0,
        tolerance_change=0.0,
    )

    def closure():
        optimizer.zero_grad()
        loss = F.huber_loss(project(cameras, points, which, seen), pixels, delta=0.01)
        loss.backward()
        return loss

    for step in range(args.steps):
        loss = optimizer.step(closure)
        print(f"step {step}: {loss.item():.3e}")


if __name__ == "__main__":
    main()
