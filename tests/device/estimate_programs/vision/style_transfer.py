"""Neural style transfer: L-BFGS on the pixels of an image, VGG-19 features, Gram matrices."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import vgg19

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
STYLE_LAYERS = {0, 5, 10, 19, 28}
CONTENT_LAYER = 21


def gram(x):
    batch, channels, height, width = x.shape
    features = x.view(batch * channels, height * width)
    return features @ features.t() / features.numel()


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        layers = vgg19(weights=None).features[: max(STYLE_LAYERS) + 1].eval()
        for layer in layers:
            if isinstance(layer, nn.ReLU):
                layer.inplace = False
        self.layers = layers.requires_grad_(False)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(-1, 1, 1))

    def forward(self, image):
        x = (image - self.mean) / self.std
        styles, content = [], None
        for number, layer in enumerate(self.layers):
            x = layer(x)
            if number in STYLE_LAYERS:
                styles.append(gram(x))
            if number == CONTENT_LAYER:
                content = x
        return styles, content


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--style-weight", type=float, default=1e6)
    args = parser.parse_args()
    torch.manual_seed(0)

    features = Features().to(device)
    content_image = torch.rand(1, 3, args.size, args.size, device=device)
    style_image = torch.rand(1, 3, args.size, args.size, device=device)
    with torch.no_grad():
        style_targets, _ = features(style_image)
        _, content_target = features(content_image)

    image = content_image.clone().requires_grad_(True)
    optimizer = torch.optim.LBFGS([image], max_iter=6, history_size=20)
    calls = 0
    for step in range(args.steps):

        def closure():
            nonlocal calls
            calls += 1
            with torch.no_grad():
                image.clamp_(0, 1)
            optimizer.zero_grad()
            styles, content = features(image)
            style = sum(F.mse_loss(a, b) for a, b in zip(styles, style_targets))
            loss = args.style_weight * style + F.mse_loss(content, content_target)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        print(f"step {step} ({calls} evaluations) loss {loss.item():.4f}")
    with torch.no_grad():
        image.clamp_(0, 1)
    print(f"mean of the image {image.mean().item():.4f}")


if __name__ == "__main__":
    main()
