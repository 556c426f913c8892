"""DETR: a ResNet, a transformer with object queries, and a matching of boxes by scipy."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torchvision.models import resnet34
from torchvision.ops import box_convert, generalized_box_iou


class DETR(nn.Module):
    def __init__(self, classes, queries, dim, layers):
        super().__init__()
        backbone = resnet34(weights=None)
        self.backbone = nn.Sequential(*list(backbone.children())[:-2])
        self.reduce = nn.Conv2d(512, dim, 1)
        self.transformer = nn.Transformer(
            dim, 8, layers, layers, 4 * dim, dropout=0.1, batch_first=True, norm_first=True
        )
        self.queries = nn.Parameter(torch.randn(queries, dim))
        self.rows = nn.Parameter(torch.rand(64, dim // 2))
        self.columns = nn.Parameter(torch.rand(64, dim // 2))
        self.kind = nn.Linear(dim, classes + 1)
        self.box = nn.Sequential(
            nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 4)
        )

    def forward(self, images):
        h = self.reduce(self.backbone(images))
        B, _, H, W = h.shape
        place = torch.cat(
            [
                self.columns[:W].unsqueeze(0).expand(H, W, -1),
                self.rows[:H].unsqueeze(1).expand(H, W, -1),
            ],
            dim=-1,
        ).flatten(0, 1)
        tokens = h.flatten(2).transpose(1, 2) + place
        out = self.transformer(tokens, self.queries.expand(B, -1, -1))
        return self.kind(out), self.box(out).sigmoid()


@torch.no_grad()
def match(logits, boxes, targets):
    """For every image, which query answers for which object."""
    pairs = []
    probabilities = logits.softmax(-1)
    for p, b, target in zip(probabilities, boxes, targets):
        cost = -p[:, target["labels"]] + 5 * torch.cdist(b, target["boxes"], p=1)
        cost = cost - 2 * generalized_box_iou(
            box_convert(b, "cxcywh", "xyxy"), box_convert(target["boxes"], "cxcywh", "xyxy")
        )
        query, thing = linear_sum_assignment(cost.cpu().numpy())
        pairs.append((torch.as_tensor(query), torch.as_tensor(thing)))
    return pairs


def set_loss(logits, boxes, targets, empty_weight=0.1):
    pairs = match(logits, boxes, targets)
    none = logits.size(-1) - 1
    kinds = torch.full(logits.shape[:2], none, device=logits.device)
    rows = torch.cat([torch.full_like(q, i) for i, (q, _) in enumerate(pairs)])
    queries = torch.cat([q for q, _ in pairs])
    labels = torch.cat([t["labels"][thing] for t, (_, thing) in zip(targets, pairs)])
    wanted = torch.cat([t["boxes"][thing] for t, (_, thing) in zip(targets, pairs)])
    kinds[rows, queries] = labels
    weight = torch.ones(none + 1, device=logits.device)
    weight[none] = empty_weight
    kind_loss = F.cross_entropy(logits.transpose(1, 2), kinds, weight)
    found = boxes[rows, queries]
    overlap = generalized_box_iou(
        box_convert(found, "cxcywh", "xyxy"), box_convert(wanted, "cxcywh", "xyxy")
    )
    n = max(len(wanted), 1)
    box_loss = F.l1_loss(found, wanted, reduction="sum") / n
    return kind_loss + 5 * box_loss + 2 * (1 - overlap.diag()).sum() / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = DETR(args.classes, args.queries, args.dim, args.layers).to(device)
    slow = list(model.backbone.parameters())
    fast = [p for name, p in model.named_parameters() if not name.startswith("backbone")]
    optimizer = torch.optim.AdamW([{"params": slow, "lr": 1e-5}, {"params": fast}], lr=1e-4)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size).to(device)
        targets = []
        for _ in range(args.batch_size):
            n = int(torch.randint(1, 15, ()))
            boxes = torch.cat([0.2 + 0.6 * torch.rand(n, 2), 0.05 + 0.3 * torch.rand(n, 2)], 1)
            labels = torch.randint(args.classes, (n,))
            targets.append({"boxes": boxes.to(device), "labels": labels.to(device)})
        loss = set_loss(*model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
