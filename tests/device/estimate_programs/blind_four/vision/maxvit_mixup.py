"""MaxViT from timm with its recipe: mixup, soft targets, an average of weights, channels last."""

import argparse

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3, NativeScaler
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        image = torch.randn(3, self.size, self.size, generator=generator)
        return image, i % self.classes


def validate(model, loader, device):
    model.eval()
    right = seen = 0
    with torch.inference_mode():
        for images, labels in loader:
            images = images.to(device, memory_format=torch.channels_last)
            top = model(images).topk(5, dim=1).indices
            right += (top == labels.to(device)[:, None]).any(1).sum().item()
            seen += len(labels)
    model.train()
    return right / seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--model", default="maxvit_rmlp_pico_rw_256")
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(40)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = timm.create_model(
        args.model, pretrained=False, num_classes=args.classes, img_size=args.size
    )
    model = model.to(device, memory_format=torch.channels_last)
    average = ModelEmaV3(model, decay=0.999)
    optimizer = create_optimizer_v2(model, opt="nadamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, t_initial=10, warmup_t=1, warmup_lr_init=1e-5)
    scaler = NativeScaler(device=device.type)
    mixup = Mixup(0.8, 1.0, prob=1.0, switch_prob=0.5, num_classes=args.classes)
    criterion = SoftTargetCrossEntropy()
    data = Photos(args.batches * args.batch_size, args.size, args.classes)
    loader = DataLoader(
        data, args.batch_size, shuffle=True, num_workers=3, persistent_workers=True, drop_last=True
    )
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        images = images.contiguous(memory_format=torch.channels_last)
        images, targets = mixup(images, labels)
        half = torch.float16 if device.type == "cuda" else torch.bfloat16
        with torch.autocast(device.type, half):
            loss = criterion(model(images), targets)
        optimizer.zero_grad()
        scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        average.update(model, step=step)
        schedule.step_update(step)
        print(f"step {step}: {loss.item():.4f}")
    small = DataLoader(Photos(args.batch_size, args.size, args.classes), args.batch_size)
    print("top five", validate(average.module, small, device))


if __name__ == "__main__":
    main()
