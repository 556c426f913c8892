"""An FCN teaches an LRASPP student to segment: fp16 autocast, gradient scaler, accumulation."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.segmentation import fcn_resnet50, lraspp_mobilenet_v3_large


def street_scene(batch, size, classes, device):
    coarse = torch.randint(0, classes, (batch, 1, size // 32, size // 32)).float()
    masks = F.interpolate(coarse, size=(size, size), mode="nearest").squeeze(1).long()
    images = masks.unsqueeze(1).float() / classes + 0.1 * torch.randn(batch, 3, size, size)
    masks[:, :4] = 255
    return images.to(device), masks.to(device)


def confusion(guess, real, classes):
    keep = real != 255
    pairs = real[keep] * classes + guess[keep]
    return torch.bincount(pairs, minlength=classes**2).view(classes, classes)


def distillation_loss(student, teacher, temperature):
    s = F.log_softmax(student.float() / temperature, dim=1)
    t = F.softmax(teacher.float() / temperature, dim=1)
    return F.kl_div(s, t, reduction="none").sum(1).mean() * temperature**2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--classes", type=int, default=19)
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=4.0)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kwargs = dict(weights=None, weights_backbone=None, num_classes=args.classes)
    teacher = fcn_resnet50(**kwargs).to(device).eval()
    for p in teacher.parameters():
        p.requires_grad = False
    student = lraspp_mobilenet_v3_large(**kwargs).to(device)
    optimizer = torch.optim.SGD(
        student.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-4
    )
    scheduler = torch.optim.lr_scheduler.PolynomialLR(optimizer, args.updates, power=0.9)
    scaler = torch.amp.GradScaler("cuda")
    criterion = nn.CrossEntropyLoss(ignore_index=255)

    student.train()
    for update in range(args.updates):
        running = 0.0
        optimizer.zero_grad()
        for _ in range(args.accumulate):
            images, masks = street_scene(args.micro_batch, args.size, args.classes, device)
            with torch.autocast("cuda", dtype=torch.float16):
                with torch.no_grad():
                    soft = teacher(images)["out"]
                out = student(images)["out"]
                hard = criterion(out, masks)
            loss = 0.5 * hard + 0.5 * distillation_loss(out, soft, args.temperature)
            scaler.scale(loss / args.accumulate).backward()
            running += loss.item() / args.accumulate
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(student.parameters(), 10.0)
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        print(f"update {update}: loss {running:.4f}, scale {scaler.get_scale():.0f}")

    student.eval()
    matrix = torch.zeros(args.classes, args.classes, dtype=torch.long, device=device)
    with torch.inference_mode(), torch.autocast("cuda", dtype=torch.float16):
        for _ in range(2):
            images, masks = street_scene(args.micro_batch, args.size, args.classes, device)
            matrix += confusion(student(images)["out"].argmax(1), masks, args.classes)
    inter = matrix.diag().float()
    union = matrix.sum(0) + matrix.sum(1) - matrix.diag()
    print(f"mean IoU {(inter / union.clamp(min=1)).mean().item():.4f}")


if __name__ == "__main__":
    main()
