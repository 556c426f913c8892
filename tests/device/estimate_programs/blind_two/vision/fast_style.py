"""Fast neural style: a transformer network is trained with VGG-16 features and total variation."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import vgg16


class ConvLayer(nn.Module):
    def __init__(self, c_in, c_out, kernel, stride=1, upsample=None, norm=True, relu=True):
        super().__init__()
        self.upsample = upsample
        self.pad = nn.ReflectionPad2d(kernel // 2)
        self.conv = nn.Conv2d(c_in, c_out, kernel, stride)
        self.norm = nn.InstanceNorm2d(c_out, affine=True) if norm else None
        self.relu = relu

    def forward(self, x):
        if self.upsample:
            x = F.interpolate(x, scale_factor=self.upsample, mode="nearest")
        x = self.conv(self.pad(x))
        if self.norm is not None:
            x = self.norm(x)
        return F.relu(x) if self.relu else x


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = ConvLayer(channels, channels, 3)
        self.conv2 = ConvLayer(channels, channels, 3, relu=False)

    def forward(self, x):
        return x + self.conv2(self.conv1(x))


class TransformerNet(nn.Sequential):
    def __init__(self, c=32):
        super().__init__(
            ConvLayer(3, c, 9),
            ConvLayer(c, 2 * c, 3, stride=2),
            ConvLayer(2 * c, 4 * c, 3, stride=2),
            *[Residual(4 * c) for _ in range(5)],
            ConvLayer(4 * c, 2 * c, 3, upsample=2),
            ConvLayer(2 * c, c, 3, upsample=2),
            ConvLayer(c, 3, 9, norm=False, relu=False),
        )


class Features(nn.Module):
    def __init__(self, ends=(3, 8, 15, 22)):
        super().__init__()
        self.layers = vgg16(weights=None).features[: max(ends) + 1]
        self.ends = ends
        for p in self.parameters():
            p.requires_grad_(False)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, x):
        x = (x - self.mean) / self.std
        out = []
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i in self.ends:
                out.append(x)
        return out


def gram_matrix(y):
    b, ch, h, w = y.size()
    features = y.view(b, ch, w * h)
    return features.bmm(features.transpose(1, 2)) / (ch * h * w)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--channels", type=int, default=32)
    parser.add_argument("--content-weight", type=float, default=1e5)
    parser.add_argument("--style-weight", type=float, default=1e10)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(42)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = TransformerNet(args.channels).to(device)
    vgg = Features().to(device).eval()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    style = torch.rand(1, 3, args.size, args.size, device=device)
    gram_style = [gram_matrix(y) for y in vgg(style.repeat(args.batch_size, 1, 1, 1))]

    seen_content = seen_style = 0.0
    for step in range(args.steps):
        net.train()
        x = torch.rand(args.batch_size, 3, args.size, args.size).to(device)
        optimizer.zero_grad()
        y = net(x)
        features_y, features_x = vgg(y), vgg(x)
        content = args.content_weight * F.mse_loss(features_y[1], features_x[1])
        style_loss = 0.0
        for ft_y, gm_s in zip(features_y, gram_style):
            style_loss += F.mse_loss(gram_matrix(ft_y), gm_s[: len(x)])
        style_loss *= args.style_weight
        tv = (y[..., 1:] - y[..., :-1]).abs().mean() + (y[..., 1:, :] - y[..., :-1, :]).abs().mean()
        total = content + style_loss + tv
        total.backward()
        optimizer.step()
        seen_content += content.item()
        seen_style += style_loss.item()
        print(f"{step + 1}\tcontent: {seen_content:.2f}\tstyle: {seen_style:.2f}")

    net.eval()
    with torch.no_grad():
        big = torch.rand(1, 3, 4 * args.size, 4 * args.size, device=device)
        result = net(big).clamp(0, 1).mul(255).byte().cpu()
    print("stylized", tuple(result.shape), result.float().mean().item())


if __name__ == "__main__":
    main()
