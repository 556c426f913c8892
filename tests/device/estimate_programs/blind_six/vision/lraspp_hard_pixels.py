"""LR-ASPP on street scenes: the hardest pixels alone count in the loss; confusion matrix after
each epoch.
"""

import argparse

import torch
import torch.nn.functional as F
from torchvision.models.segmentation import lraspp_mobilenet_v3_large


def hard_pixels(logits, labels, share):
    each = F.cross_entropy(logits, labels, ignore_index=255, reduction="none").flatten()
    keep = int(share * each.numel())
    return each.topk(keep).values.mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=19)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=args.classes
    ).to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    confusion = torch.zeros(args.classes, args.classes, dtype=torch.long, device="cuda")
    for epoch in range(2):
        model.train()
        for _ in range(2):
            images = torch.rand(args.batch_size, 3, args.height, args.width).to("cuda")
            labels = torch.randint(0, args.classes, (args.batch_size, args.height, args.width))
            labels[:, :8] = 255
            loss = hard_pixels(model(images)["out"], labels.to("cuda"), 0.25)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            guess = model(images)["out"].argmax(1).flatten()
            truth = labels.to("cuda").flatten()
            valid = truth != 255
            index = args.classes * truth[valid] + guess[valid]
            counts = torch.bincount(index, minlength=args.classes**2)
            confusion += counts.view(args.classes, args.classes)
        union = confusion.sum(0) + confusion.sum(1) - confusion.diag()
        print(epoch, loss.item(), (confusion.diag() / union.clamp(min=1)).mean().item())


if __name__ == "__main__":
    main()
