"""Trains a ConvNeXt of timm in channels_last with bf16 autocast and accumulation."""

import argparse

import timm
import torch
import torch.nn as nn


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = timm.create_model(args.model, num_classes=args.classes, drop_path_rate=0.1)
        self.model = self.model.to(self.device, memory_format=torch.channels_last)
        self.criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=4e-3, weight_decay=0.05)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, args.steps)

    def batch(self):
        size = self.args.size
        images = torch.randn(self.args.batch_size, 3, size, size, device=self.device)
        labels = torch.randint(0, self.args.classes, (self.args.batch_size,), device=self.device)
        return images.contiguous(memory_format=torch.channels_last), labels

    def train(self):
        self.model.train()
        for step in range(self.args.steps):
            running = 0.0
            for _ in range(self.args.accumulation):
                images, labels = self.batch()
                with torch.autocast(self.device.type, dtype=torch.bfloat16):
                    loss = self.criterion(self.model(images), labels) / self.args.accumulation
                loss.backward()
                running += loss.item()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.optimizer.step()
            self.scheduler.step()
            self.optimizer.zero_grad(set_to_none=True)
            print(f"step {step} loss {running:.4f} lr {self.scheduler.get_last_lr()[0]:.2e}")

    @torch.inference_mode()
    def test(self):
        self.model.eval()
        images, labels = self.batch()
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            right = (self.model(images).argmax(1) == labels).float().mean()
        print(f"accuracy {right.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="convnext_tiny")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    trainer = Trainer(args)
    trainer.train()
    trainer.test()


if __name__ == "__main__":
    main()
