"""MobileNetV3 with stochastic weight averaging and a last pass for the batch norms."""

import argparse

import torch
import torch.nn as nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import mobilenet_v3_large


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=160)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = (args.batches * args.batch_size, 3, args.size, args.size)
    images = torch.randint(0, 256, shape, dtype=torch.uint8)
    labels = torch.randint(args.classes, (len(images),))

    def to_device(rows):
        pixels = torch.stack([image for image, _ in rows]).to(device)
        return pixels.float().div_(127.5).sub_(1), torch.stack([y for _, y in rows]).to(device)

    loader = DataLoader(
        TensorDataset(images, labels), args.batch_size, shuffle=True, collate_fn=to_device
    )
    model = mobilenet_v3_large(weights=None, num_classes=args.classes, dropout=0.3).to(device)
    averaged = AveragedModel(model)
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, weight_decay=4e-5, nesterov=True
    )
    rate = SWALR(optimizer, swa_lr=0.05, anneal_epochs=1)
    for epoch in range(args.epochs):
        model.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y, label_smoothing=0.05)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        averaged.update_parameters(model)
        rate.step()
        print(f"epoch {epoch}: {loss.item():.4f}")
    update_bn(loader, averaged, device=device)
    averaged.eval()
    right = 0
    with torch.no_grad():
        for x, y in loader:
            right += (averaged(x).argmax(1) == y).sum().item()
    print(f"accuracy {right / len(images):.3f}")


if __name__ == "__main__":
    main()
