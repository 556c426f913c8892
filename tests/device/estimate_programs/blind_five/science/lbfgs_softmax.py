"""A linear probe fitted with full-batch LBFGS on stored features, for several decays."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def fit(features, labels, classes, decay, iterations):
    probe = nn.Linear(features.size(1), classes).to(features.device)
    nn.init.zeros_(probe.weight)
    nn.init.zeros_(probe.bias)
    optimizer = torch.optim.LBFGS(probe.parameters(), max_iter=iterations, history_size=10)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(probe(features), labels) + decay * probe.weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return probe


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--samples", type=int, default=60_000)
    p.add_argument("--features", type=int, default=1536)
    p.add_argument("--classes", type=int, default=365)
    p.add_argument("--iterations", type=int, default=15)
    a = p.parse_args()
    torch.manual_seed(10)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    centres = torch.randn(a.classes, a.features, device=device)
    labels = torch.randint(0, a.classes, (a.samples,), device=device)
    features = centres[labels] + 4 * torch.randn(a.samples, a.features, device=device)
    features = F.normalize(features, dim=1)
    cut = a.samples * 4 // 5
    best = (0.0, None)
    for decay in (1e-6, 1e-5, 1e-4):
        probe = fit(features[:cut], labels[:cut], a.classes, decay, a.iterations)
        with torch.no_grad():
            accuracy = (probe(features[cut:]).argmax(1) == labels[cut:]).float().mean().item()
        print(decay, accuracy)
        best = max(best, (accuracy, decay))
    print("best", best)


if __name__ == "__main__":
    main()
