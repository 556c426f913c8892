"""FCN with a ResNet-101 trunk and its auxiliary head on street scenes: bfloat16 autocast, a
polynomial schedule, and mean intersection over union at the end.
"""

import argparse

import torch
import torch.nn.functional as F
from torchvision.models.segmentation import fcn_resnet101

IGNORE = 255


class ConfusionMatrix:
    def __init__(self, classes):
        self.classes = classes
        self.matrix = None

    def update(self, truth, guess):
        if self.matrix is None:
            self.matrix = torch.zeros(
                (self.classes, self.classes), dtype=torch.int64, device=truth.device
            )
        keep = truth != IGNORE
        index = self.classes * truth[keep].long() + guess[keep]
        counts = torch.bincount(index, minlength=self.classes**2)
        self.matrix += counts.reshape(self.classes, self.classes)

    def mean_iou(self):
        m = self.matrix.float()
        union = m.sum(0) + m.sum(1) - m.diag()
        return (m.diag() / union.clamp(min=1)).mean().item()


def street_batch(batch_size, height, width, classes, generator):
    coarse = torch.randint(
        0, classes, (batch_size, 1, height // 32, width // 32), generator=generator
    )
    target = F.interpolate(coarse.float(), size=(height, width), mode="nearest").squeeze(1).long()
    image = target.unsqueeze(1).float() / classes + 0.1 * torch.randn(
        batch_size, 3, height, width, generator=generator
    )
    target[:, :8] = IGNORE
    return image - 0.5, target


def criterion(outputs, target):
    losses = {
        name: F.cross_entropy(out, target, ignore_index=IGNORE) for name, out in outputs.items()
    }
    return losses["out"] + 0.5 * losses["aux"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--classes", type=int, default=19)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.005)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    torch.backends.cudnn.benchmark = False
    device = "cuda"
    model = fcn_resnet101(
        weights=None, weights_backbone=None, num_classes=args.classes, aux_loss=True
    ).to(device)
    groups = [
        {"params": list(model.backbone.parameters()), "lr": args.lr},
        {"params": list(model.classifier.parameters()), "lr": args.lr},
        {"params": list(model.aux_classifier.parameters()), "lr": args.lr * 10},
    ]
    optimizer = torch.optim.SGD(groups, lr=args.lr, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=200, power=0.9)

    model.train()
    for it in range(args.iterations):
        image, target = street_batch(
            args.batch_size, args.height, args.width, args.classes, generator
        )
        image, target = image.to(device), target.to(device)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            outputs = model(image)
            loss = criterion(outputs, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"iteration {it}: loss {loss.item():.4f}, lr {schedule.get_last_lr()[0]:.5f}")

    model.eval()
    confusion = ConfusionMatrix(args.classes)
    with torch.inference_mode():
        for _ in range(2):
            image, target = street_batch(2, args.height, args.width, args.classes, generator)
            scores = model(image.to(device))["out"]
            confusion.update(target.to(device).flatten(), scores.argmax(1).flatten())
    print(f"mean IoU {confusion.mean_iou():.4f}")


if __name__ == "__main__":
    main()
