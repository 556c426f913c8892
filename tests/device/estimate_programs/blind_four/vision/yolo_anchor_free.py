"""An anchor-free one-stage detector by hand: CSP blocks, a top-down path, CIoU, weight averages."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torchvision.ops import batched_nms, complete_box_iou_loss, sigmoid_focal_loss


def conv(inputs, outputs, kernel=3, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs, momentum=0.03),
        nn.SiLU(inplace=True),
    )


class Csp(nn.Module):
    def __init__(self, inputs, outputs, depth):
        super().__init__()
        half = outputs // 2
        self.first = conv(inputs, outputs, 1)
        self.parts = nn.ModuleList(
            [nn.Sequential(conv(half, half), conv(half, half)) for _ in range(depth)]
        )
        self.last = conv((2 + depth) * half, outputs, 1)

    def forward(self, x):
        pieces = list(self.first(x).chunk(2, 1))
        for part in self.parts:
            pieces.append(pieces[-1] + part(pieces[-1]))
        return self.last(torch.cat(pieces, 1))


class Yolo(nn.Module):
    strides = (8, 16, 32)

    def __init__(self, base, classes):
        super().__init__()
        w = [base, 2 * base, 4 * base, 8 * base, 8 * base]
        self.stem = conv(3, w[0], 3, 2)
        self.stages = nn.ModuleList(
            [
                nn.Sequential(conv(w[i], w[i + 1], 3, 2), Csp(w[i + 1], w[i + 1], 2))
                for i in range(4)
            ]
        )
        self.merge = nn.ModuleList([Csp(w[4] + w[3], w[3], 1), Csp(w[3] + w[2], w[2], 1)])
        self.heads = nn.ModuleList(
            [nn.Sequential(conv(c, c), nn.Conv2d(c, 4 + classes, 1)) for c in (w[2], w[3], w[4])]
        )

    def forward(self, x):
        x = self.stem(x)
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        p5 = levels[3]
        p4 = self.merge[0](torch.cat([F.interpolate(p5, scale_factor=2), levels[2]], 1))
        p3 = self.merge[1](torch.cat([F.interpolate(p4, scale_factor=2), levels[1]], 1))
        boxes, scores = [], []
        for head, level, stride in zip(self.heads, (p3, p4, p5), self.strides):
            out = head(level).permute(0, 2, 3, 1)
            H, W = out.shape[1:3]
            ys, xs = torch.meshgrid(
                torch.arange(H, device=x.device), torch.arange(W, device=x.device), indexing="ij"
            )
            centre = (torch.stack([xs, ys], -1) + 0.5) * stride
            distance = F.softplus(out[..., :4]) * stride
            corners = torch.cat([centre - distance[..., :2], centre + distance[..., 2:]], -1)
            boxes.append(corners.flatten(1, 2))
            scores.append(out[..., 4:].flatten(1, 2))
        return torch.cat(boxes, 1), torch.cat(scores, 1)


def loss_of(boxes, scores, truth, labels):
    """The ten predictions whose boxes are nearest to each true one are positive."""
    centres = (boxes.detach()[..., :2] + boxes.detach()[..., 2:]) / 2
    wanted = (truth[..., :2] + truth[..., 2:]) / 2
    near = torch.cdist(wanted.float(), centres.float()).topk(10, largest=False).indices
    target = torch.zeros_like(scores)
    rows = torch.arange(len(boxes), device=boxes.device)[:, None, None].expand_as(near)
    target[rows, near, labels.unsqueeze(-1).expand_as(near)] = 1.0
    fit = complete_box_iou_loss(
        boxes[rows, near].float(), truth.unsqueeze(2).expand(-1, -1, 10, -1), reduction="mean"
    )
    return fit + sigmoid_focal_loss(scores.float(), target.float(), reduction="sum") / near.numel()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--base", type=int, default=48)
    parser.add_argument("--classes", type=int, default=40)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Yolo(args.base, args.classes).to(device)
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99), use_buffers=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.937, nesterov=True)
    for step in range(args.steps):
        images = torch.rand(args.batch_size, 3, args.size, args.size, device=device)
        corner = torch.rand(args.batch_size, 6, 2, device=device) * args.size * 0.7
        side = (torch.rand(args.batch_size, 6, 2, device=device) * 0.25 + 0.05) * args.size
        truth = torch.cat([corner, corner + side], -1)
        labels = torch.randint(args.classes, (args.batch_size, 6), device=device)
        with torch.autocast(device.type, torch.bfloat16):
            boxes, scores = model(images)
        loss = loss_of(boxes, scores, truth, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        average.update_parameters(model)
        print(f"step {step}: {loss.item():.4f}")
    average.eval()
    with torch.no_grad():
        boxes, scores = average(images[:2])
        best, which = scores[0].sigmoid().max(-1)
        top = best.topk(min(300, len(best))).indices
        kept = batched_nms(boxes[0][top].float(), best[top].float(), which[top], 0.6)
    print("kept", len(kept) > 0)


if __name__ == "__main__":
    main()
