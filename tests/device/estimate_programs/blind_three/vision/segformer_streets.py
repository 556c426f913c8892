"""Street scenes with SegFormer: overlapping patches, focal and Lovasz loss."""

import argparse

import torch
import torch.nn.functional as F
from transformers import SegformerConfig, SegformerForSemanticSegmentation


def lovasz(probabilities, labels, classes):
    """The Lovasz extension of the Jaccard loss, averaged over the classes that are there."""
    p = probabilities.permute(0, 2, 3, 1).reshape(-1, classes)
    labels = labels.reshape(-1)
    losses = []
    for c in range(classes):
        there = (labels == c).float()
        if there.sum() == 0:
            continue
        errors, order = (there - p[:, c]).abs().sort(descending=True)
        there = there[order]
        total = there.sum()
        rest = total - there.cumsum(0)
        union = total + (1 - there).cumsum(0)
        jaccard = 1 - rest / union
        steps = torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])
        losses.append(errors.dot(steps))
    return torch.stack(losses).mean()


def focal(logits, labels, gamma=2.0):
    losses = F.cross_entropy(logits, labels, reduction="none")
    return ((1 - torch.exp(-losses)) ** gamma * losses).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--height", type=int, default=384)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--classes", type=int, default=19)
    parser.add_argument("--base", type=int, default=64)
    parser.add_argument("--depths", type=int, nargs=4, default=[3, 4, 6, 3])
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    b = args.base
    config = SegformerConfig(
        depths=args.depths,
        hidden_sizes=[b, 2 * b, 5 * b, 8 * b],
        decoder_hidden_size=4 * b,
        num_labels=args.classes,
    )
    model = SegformerForSemanticSegmentation(config).to(device)
    decoder = [p for name, p in model.named_parameters() if name.startswith("decode")]
    encoder = [p for name, p in model.named_parameters() if not name.startswith("decode")]
    optimizer = torch.optim.AdamW(
        [{"params": encoder}, {"params": decoder, "lr": 6e-4}], lr=6e-5, weight_decay=0.01
    )
    rate = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=args.steps, power=1.0)
    for step in range(args.steps):
        coarse = torch.randint(args.classes, (args.batch_size, 1, 12, 24)).float()
        labels = F.interpolate(coarse, (args.height, args.width)).squeeze(1).long().to(device)
        images = torch.randn(args.batch_size, 3, args.height, args.width).to(device)
        logits = model(pixel_values=images).logits
        logits = F.interpolate(
            logits, (args.height, args.width), mode="bilinear", align_corners=False
        )
        loss = focal(logits, labels) + lovasz(logits.softmax(1), labels, args.classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rate.step()
        with torch.no_grad():
            right = (logits.argmax(1) == labels).float().mean()
        print(f"step {step}: loss {loss.item():.4f}, right {right.item():.3f}")


if __name__ == "__main__":
    main()
