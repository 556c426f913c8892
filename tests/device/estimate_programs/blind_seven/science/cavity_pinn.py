"""A physics-informed network for the lid-driven cavity: the network gives a stream function and the
pressure, and the Navier-Stokes residuals come from repeated automatic differentiation.
"""

import argparse
import math

import torch
import torch.nn as nn


class ModifiedMLP(nn.Module):
    """Fourier features, and two encoders that gate every hidden layer."""

    def __init__(self, width, depth, features, scale):
        super().__init__()
        self.register_buffer("freqs", torch.randn(2, features) * scale)
        self.u = nn.Linear(2 * features, width)
        self.v = nn.Linear(2 * features, width)
        self.first = nn.Linear(2 * features, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 2)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                nn.init.zeros_(module.bias)

    def forward(self, xy):
        angle = xy @ self.freqs
        z = torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)
        u, v = torch.tanh(self.u(z)), torch.tanh(self.v(z))
        h = torch.tanh(self.first(z))
        for layer in self.hidden:
            gate = torch.tanh(layer(h))
            h = gate * u + (1 - gate) * v
        return self.out(h)


def gradient(y, x):
    (grad,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True, retain_graph=True)
    return grad[:, 0:1], grad[:, 1:2]


def flow(model, xy):
    psi, p = model(xy).split(1, dim=-1)
    psi_x, psi_y = gradient(psi, xy)
    return psi_y, -psi_x, p


def residuals(model, xy, reynolds):
    u, v, p = flow(model, xy)
    u_x, u_y = gradient(u, xy)
    v_x, v_y = gradient(v, xy)
    p_x, p_y = gradient(p, xy)
    u_xx, _ = gradient(u_x, xy)
    _, u_yy = gradient(u_y, xy)
    v_xx, _ = gradient(v_x, xy)
    _, v_yy = gradient(v_y, xy)
    momentum_x = u * u_x + v * u_y + p_x - (u_xx + u_yy) / reynolds
    momentum_y = u * v_x + v * v_y + p_y - (v_xx + v_yy) / reynolds
    return momentum_x, momentum_y


def walls(count, device):
    s = torch.rand(count, 1, device=device)
    zero, one = torch.zeros_like(s), torch.ones_like(s)
    points = torch.cat(
        [
            torch.cat([s, one], dim=1),
            torch.cat([s, zero], dim=1),
            torch.cat([zero, s], dim=1),
            torch.cat([one, s], dim=1),
        ]
    )
    speed = torch.zeros(4 * count, 2, device=device)
    # A lid that is at rest in its corners, so that the data have no jumps.
    speed[:count, 0:1] = (1 - torch.cosh(10 * (s - 0.5)) / math.cosh(5)) ** 2
    return points, speed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=8000)
    parser.add_argument("--wall-points", type=int, default=1000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--reynolds", type=float, default=100.0)
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--weight-every", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(1234)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ModifiedMLP(args.width, args.depth, args.features, scale=2.0).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9999)
    wall_weight = 10.0

    for it in range(args.iterations):
        xy = torch.rand(args.points, 2, device=device, requires_grad=True)
        momentum_x, momentum_y = residuals(model, xy, args.reynolds)
        loss_r = momentum_x.square().mean() + momentum_y.square().mean()

        points, speed = walls(args.wall_points, device)
        points.requires_grad_(True)
        u, v, _ = flow(model, points)
        loss_b = (torch.cat([u, v], dim=1) - speed).square().sum(dim=1).mean()

        if it % args.weight_every == 0:
            # Balance the two terms by the sizes of their gradients.
            params = list(model.parameters())
            grads = []
            for part in (loss_r, loss_b):
                pieces = torch.autograd.grad(part, params, retain_graph=True, allow_unused=True)
                grads.append(sum(g.square().sum() for g in pieces if g is not None).sqrt())
            ratio = (grads[0] / (grads[1] + 1e-8)).clamp(0.1, 100.0).item()
            wall_weight = 0.9 * wall_weight + 0.1 * ratio

        loss = loss_r + wall_weight * loss_b
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        schedule.step()
        print(
            f"iteration {it} residual {loss_r.item():.4e} walls {loss_b.item():.4e} "
            f"weight {wall_weight:.2f}"
        )

    axis = torch.linspace(0, 1, 101, device=device)
    centre = torch.stack([torch.full_like(axis, 0.5), axis], dim=1).requires_grad_(True)
    u, _, _ = flow(model, centre)
    print(f"largest speed on the centre line {u.abs().max().item():.4f}")


if __name__ == "__main__":
    main()
