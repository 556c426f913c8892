"""Actions in clips: a ResNet with a frozen stem for each frame, a bidirectional LSTM over time."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet18


class ActionNet(nn.Module):
    def __init__(self, classes, hidden):
        super().__init__()
        net = resnet18(weights=None)
        self.stem = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1)
        self.body = nn.Sequential(net.layer2, net.layer3, net.layer4, net.avgpool, nn.Flatten())
        self.lstm = nn.LSTM(512, hidden, 2, batch_first=True, bidirectional=True, dropout=0.2)
        self.attend = nn.Linear(2 * hidden, 1)
        self.out = nn.Linear(2 * hidden, classes)
        self.stem.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.stem.eval()
        return self

    def forward(self, clips):
        n, t = clips.shape[:2]
        with torch.no_grad():
            x = self.stem(clips.flatten(0, 1))
        h, _ = self.lstm(self.body(x).view(n, t, -1))
        weight = self.attend(h).softmax(dim=1)
        return self.out((weight * h).sum(dim=1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--clips", type=int, default=16)
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--classes", type=int, default=101)
    args = parser.parse_args()
    torch.manual_seed(41)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = ActionNet(args.classes, args.hidden).to(device)
    optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=3e-4)
    for step in range(4):
        model.train()
        clips = torch.randn(args.clips, args.frames, 3, args.size, args.size).to(device)
        labels = torch.randint(args.classes, (args.clips,)).to(device)
        loss = F.cross_entropy(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(f"{step}: {loss.item():.3f}, gradient {norm.item():.3f}")
        if step % 2 == 1:
            model.eval()
            with torch.no_grad():
                held = torch.randn(
                    2 * args.clips, args.frames, 3, args.size, args.size, device=device
                )
                print("classes seen", model(held).argmax(1).unique().numel())


if __name__ == "__main__":
    main()
