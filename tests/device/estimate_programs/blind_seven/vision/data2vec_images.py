"""Self-distillation in the manner of data2vec: a student sees masked patches and predicts the
average of the top layers of a teacher, which is an exponential moving average of the student.
"""

import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F


class Encoder(nn.Module):
    def __init__(self, size, patch, width, layers, heads):
        super().__init__()
        self.patches = (size // patch) ** 2
        self.embed = nn.Conv2d(3, width, patch, patch)
        self.position = nn.Parameter(torch.randn(1, self.patches, width) * 0.02)
        self.mask_token = nn.Parameter(torch.randn(width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width,
                heads,
                4 * width,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(layers)
        )

    def forward(self, images, mask=None):
        x = self.embed(images).flatten(2).transpose(1, 2)
        if mask is not None:
            x = torch.where(mask.unsqueeze(-1), self.mask_token.to(x.dtype), x)
        x = x + self.position
        hidden = []
        for layer in self.layers:
            x = layer(x)
            hidden.append(x)
        return hidden


def block_mask(batch, side, ratio, device):
    """One rectangle a picture, then random patches until the ratio is met."""
    noise = torch.rand(batch, side, side, device=device)
    top = torch.randint(0, side // 2, (batch,)).tolist()
    left = torch.randint(0, side // 2, (batch,)).tolist()
    for i, (y, x) in enumerate(zip(top, left)):
        noise[i, y : y + side // 2, x : x + side // 2] -= 1
    noise = noise.flatten(1)
    count = int(ratio * side * side)
    threshold = noise.kthvalue(count, dim=1, keepdim=True).values
    return noise <= threshold


@torch.no_grad()
def update_teacher(teacher, student, momentum):
    for slow, fast in zip(teacher.parameters(), student.parameters()):
        slow.mul_(momentum).add_(fast, alpha=1 - momentum)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--patch", type=int, default=16)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--top", type=int, default=6, help="teacher layers to average")
    parser.add_argument("--mask-ratio", type=float, default=0.6)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device("cuda")
    student = Encoder(args.size, args.patch, args.width, args.layers, args.heads).to(device)
    teacher = copy.deepcopy(student).requires_grad_(False)
    head = nn.Sequential(
        nn.Linear(args.width, 2 * args.width), nn.GELU(), nn.Linear(2 * args.width, args.width)
    ).to(device)
    params = list(student.parameters()) + list(head.parameters())
    optimizer = torch.optim.AdamW(params, lr=1e-4, weight_decay=0.05)

    student.train()
    teacher.train()
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
        images = F.avg_pool2d(images, 5, stride=1, padding=2) * 5
        mask = block_mask(args.batch_size, args.size // args.patch, args.mask_ratio, device)
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
            layers = teacher(images)[-args.top :]
            targets = [F.layer_norm(h.float(), h.shape[-1:]) for h in layers]
            target = F.layer_norm(sum(targets) / len(targets), (args.width,))
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = student(images, mask)[-1]
            guess = head(hidden[mask])
        loss = F.smooth_l1_loss(guess.float(), target[mask], beta=2.0)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, 3.0)
        optimizer.step()
        momentum = 0.999 + (0.9999 - 0.999) * step / args.steps
        update_teacher(teacher, student, momentum)
        print(f"step {step} loss {loss.item():.4f} spread {target.var(dim=0).mean().item():.3f}")


if __name__ == "__main__":
    main()
