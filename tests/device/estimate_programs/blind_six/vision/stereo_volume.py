"""Depth from two views with a cost volume and 3-D convolutions (as in PSMNet); smooth L1 on
disparities.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def conv2(c_in, c_out, stride=1):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(True)
    )


def conv3(c_in, c_out, stride=1):
    return nn.Sequential(
        nn.Conv3d(c_in, c_out, 3, stride, 1, bias=False), nn.BatchNorm3d(c_out), nn.ReLU(True)
    )


class Stereo(nn.Module):
    def __init__(self, width, disparities):
        super().__init__()
        self.disparities = disparities
        self.features = nn.Sequential(
            conv2(3, width, 2),
            conv2(width, width),
            conv2(width, 2 * width, 2),
            conv2(2 * width, width),
        )
        self.mix = nn.Sequential(conv3(2 * width, width), conv3(width, width))
        self.down = nn.Sequential(conv3(width, 2 * width, 2), conv3(2 * width, 2 * width))
        self.up = nn.ConvTranspose3d(2 * width, width, 3, 2, 1, output_padding=1, bias=False)
        self.head = nn.Conv3d(width, 1, 3, padding=1, bias=False)

    def forward(self, left, right):
        a, b = self.features(left), self.features(right)
        B, C, H, W = a.shape
        depth = self.disparities // 4
        volume = a.new_zeros(B, 2 * C, depth, H, W)
        for d in range(depth):
            volume[:, :C, d, :, d:] = a[:, :, :, d:]
            volume[:, C:, d, :, d:] = b[:, :, :, : W - d]
        x = self.mix(volume)
        x = F.relu(x + self.up(self.down(x)))
        cost = F.interpolate(
            self.head(x), [self.disparities, *left.shape[2:]], mode="trilinear", align_corners=False
        ).squeeze(1)
        values = torch.arange(self.disparities, device=cost.device, dtype=cost.dtype)
        return (cost.softmax(1) * values[None, :, None, None]).sum(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--height", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--disparities", type=int, default=96)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Stereo(args.channels, args.disparities).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.999))
    for step in range(4):
        left = torch.rand(args.batch_size, 3, args.height, args.width).cuda()
        right = left.roll(-7, dims=3)
        truth = torch.rand(args.batch_size, args.height, args.width).cuda() * args.disparities * 1.1
        mask = truth < args.disparities
        guess = model(left, right)
        loss = F.smooth_l1_loss(guess[mask], truth[mask])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
