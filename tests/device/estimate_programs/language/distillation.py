"""Distils a BERT teacher into a student of a third of its layers: soft labels and hidden states."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertForMaskedLM


class Distiller(nn.Module):
    def __init__(self, teacher, student, temperature=2.0, alpha=0.5):
        super().__init__()
        self.teacher = teacher.eval().requires_grad_(False)
        self.student = student
        self.adapt = nn.Linear(student.config.hidden_size, teacher.config.hidden_size)
        self.temperature, self.alpha = temperature, alpha

    def forward(self, ids, mask, labels):
        with torch.no_grad():
            taught = self.teacher(ids, attention_mask=mask, output_hidden_states=True)
        learned = self.student(ids, attention_mask=mask, labels=labels, output_hidden_states=True)
        t = self.temperature
        soft = F.kl_div(
            F.log_softmax(learned.logits / t, dim=-1),
            F.softmax(taught.logits / t, dim=-1),
            reduction="batchmean",
        ) * (t * t / ids.size(1))
        hidden = F.mse_loss(self.adapt(learned.hidden_states[-1]), taught.hidden_states[-1])
        return self.alpha * soft + (1 - self.alpha) * learned.loss + 0.1 * hidden


def bert(layers, width):
    return BertForMaskedLM(
        BertConfig(
            num_hidden_layers=layers,
            hidden_size=width,
            num_attention_heads=width // 64,
            intermediate_size=4 * width,
        )
    )


def batch(size, length, device):
    ids = torch.randint(1000, 30000, (size, length))
    mask = torch.ones_like(ids)
    for row, end in enumerate(torch.randint(length // 2, length, (size,)).tolist()):
        mask[row, end:] = 0
    labels = ids.masked_fill(torch.rand(ids.shape) > 0.15, -100).masked_fill(mask == 0, -100)
    return ids.to(device), mask.to(device), labels.to(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--teacher-layers", type=int, default=12)
    parser.add_argument("--student-layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    distiller = Distiller(
        bert(args.teacher_layers, args.width), bert(args.student_layers, args.width // 2)
    ).to(device)
    trained = [p for p in distiller.parameters() if p.requires_grad]
    print(f"student: {sum(p.numel() for p in trained) / 1e6:.1f} M parameters")
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=args.steps)
    distiller.student.train()
    for step in range(args.steps):
        loss = distiller(*batch(args.batch_size, args.length, device))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
