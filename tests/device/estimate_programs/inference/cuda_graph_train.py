"""Captures a whole training step (forward, backward, optimizer) in a CUDA graph."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def make_model(width, layers, classes):
    blocks = []
    for _ in range(layers):
        blocks += [nn.Linear(width, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.1)]
    return nn.Sequential(*blocks, nn.Linear(width, classes))


def train_step(model, optimizer, inputs, labels):
    optimizer.zero_grad(set_to_none=True)
    loss = F.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = make_model(args.width, args.layers, args.classes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=not args.eager)
    inputs = torch.randn(args.batch_size, args.width, device=device)
    labels = torch.randint(0, args.classes, (args.batch_size,), device=device)

    if args.eager:
        for step in range(args.steps):
            loss = train_step(model, optimizer, inputs, labels)
            print(f"step {step} loss {loss.item():.4f}")
        return

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train_step(model, optimizer, inputs, labels)
    torch.cuda.current_stream().wait_stream(side)

    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = F.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    for step in range(args.steps):
        inputs.copy_(torch.randn(args.batch_size, args.width))
        labels.copy_(torch.randint(0, args.classes, (args.batch_size,)))
        graph.replay()
        print(f"step {step} loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad():
        right = (model(inputs).argmax(1) == labels).float().mean()
    print(f"accuracy {right.item():.4f}")


if __name__ == "__main__":
    main()
