"""Transfer learning of the tutorial: a new last layer, train and val phases, best weights."""

import argparse
import copy

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset
from torchvision import models


def train_model(model, loaders, criterion, optimizer, scheduler, device, num_epochs):
    best_acc, best = 0.0, copy.deepcopy(model.state_dict())
    for epoch in range(num_epochs):
        for phase in ["train", "val"]:
            model.train() if phase == "train" else model.eval()
            running_loss, running_corrects, seen = 0.0, 0, 0
            for inputs, labels in loaders[phase]:
                inputs, labels = inputs.to(device), labels.to(device)
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(preds == labels.data)
                seen += len(inputs)
            if phase == "train":
                scheduler.step()
            acc = running_corrects.double() / seen
            print(f"{epoch} {phase} loss {running_loss / seen:.4f} acc {acc:.4f}")
            if phase == "val" and acc >= best_acc:
                best_acc, best = acc, copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda:0")

    def loader(batches):
        count = args.batch_size * batches
        images = torch.randn(count, 3, args.size, args.size)
        return DataLoader(
            TensorDataset(images, torch.randint(0, 2, (count,))), args.batch_size, shuffle=True
        )

    model = models.resnet18(weights=None)
    model.fc = nn.Linear(model.fc.in_features, 2)
    model = model.to(device)
    optimizer = optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    scheduler = lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    loaders = {"train": loader(args.batches), "val": loader(1)}
    train_model(model, loaders, nn.CrossEntropyLoss(), optimizer, scheduler, device, args.epochs)


if __name__ == "__main__":
    main()
