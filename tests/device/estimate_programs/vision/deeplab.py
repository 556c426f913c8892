"""Semantic segmentation with torchvision's DeepLabV3: auxiliary loss, poly rate, mean IoU."""

import argparse

import torch
from torch import nn
from torchvision.models.segmentation import deeplabv3_resnet50

IGNORED = 255


def batch(args, device):
    images = torch.randn(args.batch_size, 3, args.size, args.size)
    coarse = torch.randint(0, args.classes, (args.batch_size, 1, args.size // 32, args.size // 32))
    masks = nn.functional.interpolate(coarse.float(), size=args.size, mode="nearest")
    masks = masks.squeeze(1).long()
    masks[:, :4] = IGNORED
    return images.to(device), masks.to(device)


def criterion(outputs, target):
    loss = nn.functional.cross_entropy(outputs["out"], target, ignore_index=IGNORED)
    return loss + 0.5 * nn.functional.cross_entropy(outputs["aux"], target, ignore_index=IGNORED)


class ConfusionMatrix:
    def __init__(self, classes, device):
        self.classes = classes
        self.matrix = torch.zeros(classes, classes, dtype=torch.int64, device=device)

    def update(self, truth, predicted):
        kept = truth != IGNORED
        codes = self.classes * truth.clamp(max=self.classes - 1) + predicted
        codes = torch.where(kept, codes, torch.zeros_like(codes))
        ones = kept.long().flatten()
        flat = torch.zeros(self.classes**2, dtype=torch.int64, device=truth.device)
        self.matrix += flat.scatter_add_(0, codes.flatten(), ones).view_as(self.matrix)

    def mean_iou(self):
        m = self.matrix.float()
        return (m.diag() / (m.sum(0) + m.sum(1) - m.diag()).clamp(min=1)).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--size", type=int, default=320)
    parser.add_argument("--classes", type=int, default=21)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(6)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = deeplabv3_resnet50(
        weights=None, weights_backbone=None, num_classes=args.classes, aux_loss=True
    ).to(device)
    groups = [
        {"params": model.backbone.parameters()},
        {"params": model.classifier.parameters()},
        {"params": model.aux_classifier.parameters(), "lr": 0.1},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, args.steps, power=0.9)
    scaler = torch.amp.GradScaler(device.type)
    model.train()
    for step in range(args.steps):
        images, masks = batch(args, device)
        with torch.autocast(device.type, dtype=torch.float16, enabled=device.type == "cuda"):
            loss = criterion(model(images), masks)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        print(f"step {step} loss {loss.item():.4f}")
    model.eval()
    confusion = ConfusionMatrix(args.classes, device)
    with torch.inference_mode():
        images, masks = batch(args, device)
        confusion.update(masks, model(images)["out"].argmax(1))
    print(f"mean IoU {confusion.mean_iou():.4f}")


if __name__ == "__main__":
    main()
