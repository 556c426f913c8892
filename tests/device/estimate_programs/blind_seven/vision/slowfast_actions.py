"""SlowFast for action recognition: two pathways of 3D residual stages with lateral connections,
fp16 with a scaler, then the usual evaluation that averages over several clips of a video.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    def __init__(self, c_in, c_mid, c_out, time_kernel, stride):
        super().__init__()
        self.a = nn.Conv3d(
            c_in, c_mid, (time_kernel, 1, 1), padding=(time_kernel // 2, 0, 0), bias=False
        )
        self.a_bn = nn.BatchNorm3d(c_mid)
        self.b = nn.Conv3d(
            c_mid, c_mid, (1, 3, 3), stride=(1, stride, stride), padding=(0, 1, 1), bias=False
        )
        self.b_bn = nn.BatchNorm3d(c_mid)
        self.c = nn.Conv3d(c_mid, c_out, 1, bias=False)
        self.c_bn = nn.BatchNorm3d(c_out)
        nn.init.zeros_(self.c_bn.weight)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if c_in != c_out or stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv3d(c_in, c_out, 1, stride=(1, stride, stride), bias=False),
                nn.BatchNorm3d(c_out),
            )

    def forward(self, x):
        out = self.relu(self.a_bn(self.a(x)))
        out = self.relu(self.b_bn(self.b(out)))
        out = self.c_bn(self.c(out))
        return self.relu(out + (x if self.shortcut is None else self.shortcut(x)))


def stage(c_in, c_mid, c_out, blocks, time_kernel, stride):
    layers = [Bottleneck(c_in, c_mid, c_out, time_kernel, stride)]
    layers += [Bottleneck(c_out, c_mid, c_out, time_kernel, 1) for _ in range(blocks - 1)]
    return nn.Sequential(*layers)


def stem(c_out, time_kernel):
    return nn.Sequential(
        nn.Conv3d(
            3,
            c_out,
            (time_kernel, 7, 7),
            stride=(1, 2, 2),
            padding=(time_kernel // 2, 3, 3),
            bias=False,
        ),
        nn.BatchNorm3d(c_out),
        nn.ReLU(inplace=True),
        nn.MaxPool3d((1, 3, 3), stride=(1, 2, 2), padding=(0, 1, 1)),
    )


class SlowFast(nn.Module):
    def __init__(self, classes, width, alpha, beta_inv, depths=(3, 4, 6, 3)):
        super().__init__()
        self.alpha = alpha
        fast = width // beta_inv
        self.slow_stem = stem(width, 1)
        self.fast_stem = stem(fast, 5)
        self.laterals = nn.ModuleList()
        self.slow_stages = nn.ModuleList()
        self.fast_stages = nn.ModuleList()
        slow_in, fast_in = width, fast
        for i, depth in enumerate(depths):
            self.laterals.append(
                nn.Conv3d(fast_in, 2 * fast_in, (5, 1, 1), stride=(alpha, 1, 1), padding=(2, 0, 0))
            )
            mid, mid_fast = width * 2**i, fast * 2**i
            stride = 1 if i == 0 else 2
            self.slow_stages.append(
                stage(slow_in + 2 * fast_in, mid, 4 * mid, depth, 3 if i > 1 else 1, stride)
            )
            self.fast_stages.append(stage(fast_in, mid_fast, 4 * mid_fast, depth, 3, stride))
            slow_in, fast_in = 4 * mid, 4 * mid_fast
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(slow_in + fast_in, classes)

    def forward(self, clip):
        slow = self.slow_stem(clip[:, :, :: self.alpha])
        fast = self.fast_stem(clip)
        for lateral, slow_stage, fast_stage in zip(
            self.laterals, self.slow_stages, self.fast_stages
        ):
            slow = slow_stage(torch.cat([slow, lateral(fast)], dim=1))
            fast = fast_stage(fast)
        pooled = torch.cat([slow.mean(dim=(2, 3, 4)), fast.mean(dim=(2, 3, 4))], dim=1)
        return self.head(self.dropout(pooled))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--frames", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--alpha", type=int, default=8)
    parser.add_argument("--classes", type=int, default=400)
    parser.add_argument("--depths", type=int, nargs=4, default=[3, 4, 6, 3])
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)

    model = SlowFast(args.classes, args.width, args.alpha, 8, args.depths).cuda()
    optimizer = torch.optim.SGD(
        model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, nesterov=True
    )
    scaler = torch.amp.GradScaler("cuda", init_scale=1024)
    for step in range(args.steps):
        # Frames arrive as bytes and are normalised on the card.
        clips = torch.randint(
            0, 256, (args.batch_size, 3, args.frames, args.size, args.size), dtype=torch.uint8
        )
        clips = clips.cuda(non_blocking=True).float().div_(255).sub_(0.45).div_(0.225)
        labels = torch.randint(0, args.classes, (args.batch_size,)).cuda()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.cross_entropy(model(clips), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"step {step}: loss {loss.item():.4f}")

    model.eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
        video = torch.randn(3, 4 * args.frames, args.size, args.size)
        views = torch.stack(video.split(args.frames, dim=1)).cuda()
        scores = model(views).softmax(dim=-1).mean(dim=0)
    print("best class", scores.argmax().item(), "score", round(scores.max().item(), 4))


if __name__ == "__main__":
    main()
