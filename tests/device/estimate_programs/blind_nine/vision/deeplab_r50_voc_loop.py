"""DeepLabV3 with ResNet-50 and the auxiliary head: poly schedule, ignored pixels, mean IoU."""

import argparse

import torch
import torch.nn.functional as F
from torchvision.models.segmentation import deeplabv3_resnet50


def criterion(outputs, target):
    losses = {name: F.cross_entropy(x, target, ignore_index=255) for name, x in outputs.items()}
    return losses["out"] + 0.5 * losses["aux"]


def make_batch(count, size, device):
    masks = torch.randint(0, 21, (count, size, size))
    masks[:, : size // 16] = 255
    return torch.randn(count, 3, size, size).to(device), masks.to(device)


@torch.no_grad()
def mean_iou(model, batches, classes=21):
    model.eval()
    confusion = None
    for images, masks in batches:
        predicted = model(images)["out"].argmax(1)
        known = masks != 255
        pairs = classes * masks[known] + predicted[known]
        counts = torch.bincount(pairs, minlength=classes**2).reshape(classes, classes)
        confusion = counts if confusion is None else confusion + counts
    model.train()
    overlap = confusion.diag().float()
    return (overlap / (confusion.sum(0) + confusion.sum(1) - overlap).clamp(min=1)).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--size", type=int, default=480)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    model = deeplabv3_resnet50(
        weights=None, weights_backbone=None, num_classes=21, aux_loss=True
    ).to(device)
    groups = [
        {"params": model.backbone.parameters()},
        {"params": model.classifier.parameters()},
        {"params": model.aux_classifier.parameters(), "lr": 0.1},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.01, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, args.steps, 0.9)
    model.train()
    for step in range(args.steps):
        images, masks = make_batch(args.batch_size, args.size, device)
        loss = criterion(model(images), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print(step, loss.item())
    batches = [make_batch(2, args.size, device) for _ in range(2)]
    print("mean IoU", mean_iou(model, batches).item())


if __name__ == "__main__":
    main()
