"""A DeiT with a distillation token, compiled, learns from a frozen ConvNet; accumulated in bf16."""

import argparse

import timm
import torch
import torch.nn.functional as F


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(90)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    student = timm.create_model(
        "deit_small_distilled_patch16_224",
        pretrained=False,
        img_size=args.size,
        embed_dim=args.width,
        depth=args.depth,
        num_heads=args.width // 64,
        num_classes=args.classes,
    ).to(device)
    student.set_distilled_training(True)
    teacher = timm.create_model("regnety_016", pretrained=False, num_classes=args.classes)
    teacher = teacher.to(device, torch.bfloat16).eval().requires_grad_(False)
    forward = student if args.eager else torch.compile(student)
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-4, fused=device.type == "cuda")
    student.train()
    for step in range(args.steps):
        for _ in range(args.accumulate):
            images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
            labels = torch.randint(args.classes, (args.batch_size,), device=device)
            with torch.no_grad():
                taught = teacher(images.bfloat16()).argmax(1)
            with torch.autocast(device.type, torch.bfloat16):
                head, distilled = forward(images)
                loss = F.cross_entropy(head, labels) + F.cross_entropy(distilled, taught)
            (loss / 2 / args.accumulate).backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
