"""UperNet over a ConvNeXt, with an auxiliary head and intersection over union."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import ConvNextConfig, UperNetConfig, UperNetForSemanticSegmentation


class Streets(Dataset):
    def __init__(self, count, size, classes):
        self.count, self.size, self.classes = count, size, classes

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        image = torch.rand(3, self.size, self.size, generator=generator)
        coarse = torch.randint(self.classes, (1, 1, 8, 8), generator=generator).float()
        labels = torch.nn.functional.interpolate(coarse, size=self.size)[0, 0].long()
        labels[:4] = 255
        return image, labels


@torch.no_grad()
def mean_iou(model, loader, classes, device):
    model.eval()
    table = torch.zeros(classes, classes, dtype=torch.long, device=device)
    for images, labels in loader:
        guess = model(pixel_values=images.to(device)).logits.argmax(1)
        labels = labels.to(device)
        valid = labels != 255
        flat = labels[valid] * classes + guess[valid]
        table += torch.bincount(flat, minlength=classes**2).view(classes, classes)
    model.train()
    hit = table.diag().float()
    return (hit / (table.sum(0) + table.sum(1) - hit).clamp(min=1)).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--size", type=int, default=448)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--classes", type=int, default=19)
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(31)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    widths = [args.width * 2**i for i in range(4)]
    backbone = ConvNextConfig(
        hidden_sizes=widths,
        depths=[2, 2, 6, 2],
        drop_path_rate=0.2,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = UperNetConfig(
        backbone_config=backbone,
        hidden_size=args.hidden,
        auxiliary_in_channels=widths[2],
        auxiliary_channels=args.hidden // 2,
        num_labels=args.classes,
    )
    model = UperNetForSemanticSegmentation(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, 100, power=0.9)
    data = Streets(args.batches * args.batch_size, args.size, args.classes)
    loader = DataLoader(data, args.batch_size, shuffle=True, num_workers=2, pin_memory=True)
    check = DataLoader(Streets(3, args.size, args.classes), 1)
    for step, (images, labels) in enumerate(loader):
        images, labels = images.to(device, non_blocking=True), labels.to(device, non_blocking=True)
        loss = model(pixel_values=images, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"step {step}: {loss.item():.4f}")
        if step % 2 == 1:
            print(f"mean iou {mean_iou(model, check, args.classes, device):.4f}")


if __name__ == "__main__":
    main()
