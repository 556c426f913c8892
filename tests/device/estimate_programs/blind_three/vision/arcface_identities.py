"""Faces with ArcFace and very many identities: only a sample of the class centres takes part."""

import argparse
import math

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F


class PartialArcFace(nn.Module):
    """The centres of the batch's identities and random others; a margin on the right angle."""

    def __init__(self, dim, identities, share, scale=64.0, margin=0.5):
        super().__init__()
        self.centres = nn.Parameter(0.01 * torch.randn(identities, dim))
        self.sampled = int(share * identities)
        self.scale, self.margin = scale, margin

    def choose(self, labels):
        positive = labels.unique()
        chance = torch.rand(len(self.centres), device=labels.device)
        chance[positive] = 2.0
        index = chance.topk(self.sampled).indices.sort().values
        return index, torch.searchsorted(index, labels)

    def forward(self, embeddings, labels):
        index, labels = self.choose(labels)
        centres = F.normalize(self.centres[index])
        cosine = F.linear(F.normalize(embeddings), centres).clamp(-1 + 1e-7, 1 - 1e-7)
        right = cosine.gather(1, labels[:, None])
        turned = right * math.cos(self.margin) - (1 - right**2).sqrt() * math.sin(self.margin)
        logits = cosine.scatter(1, labels[:, None], turned.to(cosine.dtype))
        return F.cross_entropy(self.scale * logits, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="ghostnetv2_100")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--identities", type=int, default=400_000)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = timm.create_model(args.model, pretrained=False, num_classes=args.dim).to(device)
    head = PartialArcFace(args.dim, args.identities, args.share).to(device)
    optimizer = torch.optim.SGD(
        [*model.parameters(), *head.parameters()], lr=0.02, momentum=0.9, weight_decay=5e-4
    )
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
        labels = torch.randint(args.identities, (args.batch_size,), device=device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            embeddings = model(images)
        loss = head(embeddings.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")

    model.eval()
    pairs = torch.randn(2, args.batch_size, 3, args.size, args.size, device=device)
    with torch.no_grad():
        a, b = (F.normalize(model(x) + model(x.flip(-1))) for x in pairs)
    print("mean similarity of pairs:", (a * b).sum(1).mean().item())


if __name__ == "__main__":
    main()
