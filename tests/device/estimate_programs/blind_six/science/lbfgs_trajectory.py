"""Controls of many simulated robots optimised together by L-BFGS through a learned model of
their motion.
"""

import argparse

import torch
import torch.nn as nn


class Dynamics(nn.Module):
    def __init__(self, state, action, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(state + action, width),
            nn.ELU(),
            nn.Linear(width, width),
            nn.ELU(),
            nn.Linear(width, state),
        )

    def forward(self, s, a):
        return s + 0.05 * self.net(torch.cat([s, a], dim=-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--robots", type=int, default=4096)
    parser.add_argument("--horizon", type=int, default=48)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--steps", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Dynamics(24, 8, args.width).cuda()
    adam = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(3):
        s, a = torch.randn(16384, 24).cuda(), torch.randn(16384, 8).cuda()
        loss = (model(s, a) - (0.9 * s + 0.1 * a.repeat(1, 3))).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    model.requires_grad_(False)
    controls = torch.zeros(args.horizon, args.robots, 8, device="cuda", requires_grad=True)
    start, goal = torch.randn(args.robots, 24).cuda(), torch.randn(args.robots, 24).cuda()
    optimizer = torch.optim.LBFGS([controls], lr=0.5, max_iter=5, history_size=10)

    def closure():
        optimizer.zero_grad()
        s, cost = start, 0
        for a in controls:
            s = model(s, a.tanh())
            cost = cost + 1e-3 * a.square().mean()
        cost = cost + (s - goal).square().mean()
        cost.backward()
        return cost

    for step in range(args.steps):
        print(step, optimizer.step(closure).item())


if __name__ == "__main__":
    main()
